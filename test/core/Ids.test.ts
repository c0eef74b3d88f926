import { describe, expect, it } from "@effect/vitest"
import { Effect, Random, Schema } from "effect"
import * as CellTag from "../../src/core/CellTag.js"
import { isId, JobId, makeGenerator } from "../../src/core/Ids.js"

const seeded = (seed: number) => Effect.withRandom(makeGenerator, Random.make(seed))

describe("Ids", () => {
  it.effect("are version 7 UUIDs that start with their timestamp", () =>
    Effect.gen(function* () {
      const ids = yield* makeGenerator
      const millis = 0x0192_3456_789a
      for (const id of [ids.job(millis), ids.lease(millis), ids.pod(millis)]) {
        expect(id).toMatch(/^01923456-789a-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
        expect(isId(id)).toBe(true)
        expect(yield* Schema.decodeUnknown(JobId)(id)).toBe(id)
      }
    })
  )

  it.effect("increase without repeats through bursts, a stopped clock and a clock that is set back", () =>
    Effect.gen(function* () {
      const ids = yield* makeGenerator
      const instants = [...Array(10_000).fill(5_000), ...Array(100).fill(4_000), 5_001, 5_002, 5_010]
      const made = instants.map((millis) => ids.job(millis))
      expect(new Set(made).size).toBe(instants.length)
      expect(made.toSorted()).toEqual(made)
    })
  )

  it.effect("are reproducible for a seed and differ between seeds", () =>
    Effect.gen(function* () {
      const [first, again, other] = [yield* seeded(1), yield* seeded(1), yield* seeded(2)]
      const ten = (ids: typeof first) => Array.from({ length: 10 }, (_, n) => ids.job(n))
      const made = ten(first)
      expect(ten(again)).toEqual(made)
      expect(ten(other).filter((id) => made.includes(id))).toEqual([])
    })
  )

  it.effect("have the same bytes as their text, through bursts and distant centuries", () =>
    Effect.gen(function* () {
      const ids = yield* makeGenerator
      const bytes = new DataView(new ArrayBuffer(24))
      const asText = () =>
        Buffer.from(bytes.buffer, 4, 16)
          .toString("hex")
          .replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-")
      for (const millis of [0, 1, ...Array(5_000).fill(1_763_212_345_678), 0xffff_ffff_ffff]) {
        expect(ids.jobInto(millis, bytes, 4)).toBe(asText())
      }
      expect([bytes.getUint32(0), bytes.getUint32(20)]).toEqual([0, 0])
    })
  )

  it.effect("carry the tag of a cell, in their text and in their bytes", () =>
    Effect.gen(function* () {
      const bytes = new DataView(new ArrayBuffer(16))
      for (const tag of [0, 1, 0xabc, 0xfff]) {
        const ids = yield* Effect.locally(makeGenerator, CellTag.current, { tag, divided: new Map() })
        const made = Array.from({ length: 5_000 }, (_, number) => ids.jobInto(number >> 3, bytes, 0))
        expect(new Set(made.map(CellTag.ofId))).toEqual(new Set([tag]))
        expect(new Set(made.map((id) => id[19]))).toEqual(new Set(["8", "9", "a", "b"]))
        expect(new Set(made).size).toBe(made.length)
        expect(bytes.getUint16(8) & 0xfff).toBe(tag)
      }
    })
  )

  it("are distinguished from other strings", () => {
    expect(isId("0192abcd-0000-7000-8000-000000000000")).toBe(true)
    for (const text of [
      "",
      "0192ABCD-0000-7000-8000-000000000000",
      "0192abcd000070008000000000000000",
      "{0192abcd-0000-7000-8000-000000000000}",
      "0192abcd-0000-7000-8000-000000000000\n",
      "0192abcd-0000-7000-8000-00000000000g"
    ]) {
      expect(isId(text), text).toBe(false)
    }
  })
})
