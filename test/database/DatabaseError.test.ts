import { describe, expect, it } from "@effect/vitest"
import { classify, DatabaseUnavailable, isUnanswered } from "../../src/database/DatabaseError.js"

describe("SqlState", () => {
  it("classifies transient errors as retryable", () => {
    for (const code of ["40001", "40P01", "55P03", "57P01", "57014", "08006", "53300", "53100", "25006"]) {
      expect([code, classify({ code })]).toEqual([code, "retryable"])
    }
  })

  it("classifies a lost or refused connection, which has no SQLSTATE, as retryable", () => {
    for (const code of ["ECONNREFUSED", "ECONNRESET", "EPIPE", "ETIMEDOUT", undefined]) {
      expect(classify(code === undefined ? {} : { code })).toBe("retryable")
    }
  })

  it("classifies constraint violations as conflicts", () => {
    for (const code of ["23505", "23503", "23514", "23P01"]) expect(classify({ code })).toBe("conflict")
  })

  it("classifies mistakes and missing permissions as fatal", () => {
    for (const code of ["42601", "42P01", "42501", "28P01", "28000", "3D000", "22P02", "XX000"]) {
      expect([code, classify({ code })]).toEqual([code, "fatal"])
    }
  })
})

describe("an error of a statement", () => {
  it("proves that the server rolled back, unless the connection was lost", () => {
    for (const code of ["40001", "40P01", "55P03", "57P01", "57014", "53100", "23505"])
      expect([code, isUnanswered({ code })]).toEqual([code, false])
    for (const code of ["08P01", "08006", "ECONNRESET", "EPIPE"])
      expect([code, isUnanswered({ code })]).toEqual([code, true])
    expect(isUnanswered({ message: "Connection terminated unexpectedly" })).toBe(true)
  })
})

describe("a database that is not available", () => {
  const messageOf = (detail: string, sqlState?: string) =>
    new DatabaseUnavailable({ detail, nothingWritten: true, ...(sqlState === undefined ? {} : { sqlState }) }).message

  it("says what to check, if there is no connection", () => {
    for (const code of [undefined, "08006", "57P01", "57P03"])
      expect(messageOf("connect ECONNREFUSED", code)).toBe(
        "The database is not available: connect ECONNREFUSED. Check that PostgreSQL is running and reachable, then try again."
      )
  })

  it("does not suggest that PostgreSQL is down when it answered, or when the pool is used up", () => {
    expect(messageOf("no space left on device", "53100")).toBe("The database is not available: no space left on device")
    expect(messageOf("timeout exceeded when trying to connect")).not.toContain("running")
  })
})
