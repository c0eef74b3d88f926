import { describe, expect, it } from "@effect/vitest"
import { Duration, Either } from "effect"
import type { JobId } from "../../src/core/Ids.js"
import { limits } from "../../src/core/StoredJob.js"
import { erasedAtOf } from "../../src/core/Subject.js"
import { admit, admitAll, isQueueName, jsonText, type NewJob } from "../../src/queue/NewJob.js"

const job = (more: Partial<NewJob> = {}): NewJob => ({
  kind: "greet",
  version: 1,
  queue: "mail",
  payload: {},
  attempts: 5,
  ...more
})

const id = "0198c0de-0000-7000-8000-000000000001" as JobId
const by = { ids: { job: () => id }, now: 17 }

describe("the time at which a job was erased", () => {
  it("is undefined if it is no time", () => {
    expect(erasedAtOf({ subjectErasedAt: "2030-01-01T00:00:00.000Z" })).toBe(Date.UTC(2030, 0, 1))
    expect(erasedAtOf({ subjectErasedAt: "x" })).toBeUndefined()
  })
})

describe("the validation of new jobs", () => {
  it("accepts a plain job with its defaults", () => {
    expect(admit(job(), by)).toEqual(
      Either.right({
        id,
        batch: null,
        woken: null,
        isChild: null,
        queue: "mail",
        kind: "greet",
        version: 1,
        payload: "{}",
        attempts: 5,
        priority: 0,
        runAt: 17,
        key: null,
        dedupeKey: null,
        dedupeScope: null,
        dedupeWindow: undefined,
        replace: false,
        onDead: null,
        meta: null,
        ownId: false
      })
    )
  })

  it("converts values to text and whole milliseconds", () => {
    const onDead = { kind: "mourn", version: 1, queue: "mail", payload: null, attempts: 1 }
    const dedupe = { key: "k", scope: "retained", window: Duration.hours(1), replace: true } as const
    const admitted = Either.getOrThrow(admit(job({ runAt: 1.9, onDead, dedupe, meta: { a: 1 }, key: "chat" }), by))
    expect(admitted).toMatchObject({
      runAt: 1,
      key: "chat",
      dedupeKey: "k",
      dedupeScope: "retained",
      dedupeWindow: 3_600_000,
      replace: true,
      onDead: JSON.stringify(onDead),
      meta: '{"a":1}'
    })
  })

  it("names the invalid field, the reason and the index in the request", () => {
    const refusal = admitAll([job(), job({ priority: 40_000 })], by)
    expect(Either.flip(refusal)).toMatchObject({ right: { _tag: "InvalidJob", index: 1, field: "priority" } })
    expect(Either.getOrThrow(Either.flip(refusal)).message).toBe(
      "Job 1: priority must be a whole number from -32768 to 32767, got 40000."
    )
  })

  it("names the invalid field of a follow-up", () => {
    const followUp = { kind: "alert", version: 1, queue: "mail", payload: {}, attempts: 5 }
    for (const priority of [100_000, 1.5, "high" as never]) {
      const refusal = Either.flip(admit(job({ onDead: { ...followUp, priority } }), by))
      expect(refusal, String(priority)).toMatchObject({ right: { _tag: "InvalidJob", field: "onDead.priority" } })
    }
    expect(Either.isRight(admit(job({ onDead: { ...followUp, priority: -32_768 } }), by))).toBe(true)
  })

  it("accepts values at the exact limits", () => {
    const edges: ReadonlyArray<Partial<NewJob>> = [
      { priority: -32_768 },
      { priority: 32_767 },
      { kind: "k".repeat(limits.nameCharacters) },
      { queue: "q".repeat(64) },
      { key: "k".repeat(limits.keyCharacters) },
      { attempts: limits.attempts },
      { runAt: 0 },
      { runAt: 253_402_300_799_999 },
      { payload: "x".repeat(limits.payloadBytes - 2) }
    ]
    for (const edge of edges) expect(Either.isRight(admit(job(edge), by)), Object.keys(edge)[0]).toBe(true)
    const beyond: ReadonlyArray<Partial<NewJob>> = [
      { kind: "k".repeat(limits.nameCharacters + 1) },
      { kind: "." },
      { kind: ".." },
      { queue: "q".repeat(65) },
      { key: "k".repeat(limits.keyCharacters + 1) },
      { attempts: limits.attempts + 1 },
      { runAt: -1 },
      { runAt: 253_402_300_800_000 },
      { runAt: Number.POSITIVE_INFINITY },
      { payload: "x".repeat(limits.payloadBytes - 1) }
    ]
    for (const edge of beyond) expect(Either.isLeft(admit(job(edge), by)), Object.keys(edge)[0]).toBe(true)
  })

  it("knows the valid names of queues", () => {
    for (const name of ["mail", "a", "A-b_c.9", "...", ".a"]) expect(isQueueName(name), name).toBe(true)
    // URLs cannot contain the last two.
    for (const name of ["", "a b", "a/b", "ä", "a\n", "q".repeat(65), ".", ".."])
      expect(isQueueName(name), name).toBe(false)
  })
})

describe("a value as JSON text", () => {
  const refused = { _tag: "Left" }

  it("is the output of JSON.stringify", () => {
    for (const value of [null, 1, "é😀", [1, { a: undefined }], { date: new Date(0) }]) {
      expect(jsonText(value, 1000)).toEqual(Either.right(JSON.stringify(value)))
    }
  })

  it("is refused when there is none", () => {
    const circle: Record<string, unknown> = {}
    circle.self = circle
    for (const value of [undefined, () => 1, Symbol("s"), 1n, circle]) {
      expect(jsonText(value, 1000)).toMatchObject(refused)
    }
  })

  it("is measured in bytes", () => {
    expect(jsonText("x".repeat(98), 100)).toMatchObject({ _tag: "Right" })
    expect(jsonText("x".repeat(99), 100)).toMatchObject(refused)
    expect(jsonText("é".repeat(49), 100)).toMatchObject({ _tag: "Right" })
    expect(jsonText("é".repeat(50), 100)).toMatchObject(refused)
    expect(jsonText("😀".repeat(25), 100)).toMatchObject(refused)
  })

  it("is refused with NUL or half a surrogate pair anywhere in it", () => {
    const bad = ["\u0000", "\\\u0000", "\\\\\u0000", "\ud83d", "\ude00", "\ude00\ud83d", "x\udbffx", "\uDFFF"]
    for (const text of bad) {
      for (const value of [text, [text], { a: { [text]: 1 } }]) expect(jsonText(value, 1000)).toMatchObject(refused)
    }
  })

  it("is accepted when it only looks like that", () => {
    for (const text of ["\\u0000", "\\\\u0000", "\\ud800", "u0000", "\u0001", "\uffff", "😀", "\\"]) {
      expect(jsonText({ [text]: text }, 1000), text).toEqual(Either.right(JSON.stringify({ [text]: text })))
    }
  })
})
