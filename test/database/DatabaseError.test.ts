import { describe, expect, it } from "@effect/vitest"
import { sortOf } from "../../src/database/DatabaseError.js"

describe("SqlState", () => {
  it("classifies transient errors as retryable", () => {
    for (const code of ["40001", "40P01", "55P03", "57P01", "57014", "08006", "53300", "53100", "25006"]) {
      expect([code, sortOf({ code })]).toEqual([code, "retryable"])
    }
  })

  it("classifies a lost or refused connection, which has no SQLSTATE, as retryable", () => {
    for (const code of ["ECONNREFUSED", "ECONNRESET", "EPIPE", "ETIMEDOUT", undefined]) {
      expect(sortOf(code === undefined ? {} : { code })).toBe("retryable")
    }
  })

  it("classifies constraint violations as conflicts", () => {
    for (const code of ["23505", "23503", "23514", "23P01"]) expect(sortOf({ code })).toBe("conflict")
  })

  it("classifies mistakes and missing permissions as fatal", () => {
    for (const code of ["42601", "42P01", "42501", "28P01", "28000", "3D000", "22P02", "XX000"]) {
      expect([code, sortOf({ code })]).toEqual([code, "fatal"])
    }
  })
})
