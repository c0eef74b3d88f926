import { describe, expect, it } from "@effect/vitest"
import { FastCheck } from "effect"
import * as JsonNumbers from "../../src/core/JsonNumbers.js"

const kept = [
  "0",
  "-0.5",
  "1",
  "0.1",
  "0.10000000000000001",
  "0.10000000000000000555",
  "3.141592653589793",
  "9007199254740991",
  "9007199254740992",
  "9007199254740994",
  "100000000000000000000000000000000000",
  "1e21",
  "1E+23",
  "1.7976931348623157e308",
  "5e-324",
  "0e400",
  "1000000000000000000000e-21"
]
const lost = [
  "-0",
  "-0.0",
  "-0e2",
  "9007199254740993",
  "-9007199254740993",
  "9007199254740993.0",
  "1e400",
  "-1e400",
  "1e-400",
  "12345678901234567890",
  "12345678901234567.89",
  "0.1234567890123456789",
  `0.${"12".repeat(80)}`
]

describe("a number in JSON text", () => {
  it("passes when a float keeps its written value, and is reported when the value would change", () => {
    for (const text of kept) expect(JsonNumbers.lostIn(`{"a":[${text}]}`), text).toBeUndefined()
    for (const text of lost) {
      expect(JsonNumbers.lostIn(`{"a":[1,{"b":${text}}], "c":1e999}`), text).toEqual({ path: ["a", 1, "b"], text })
    }
  })

  it("is ignored inside strings and keys", () => {
    for (const text of [...lost, '\\" 1e400', "\\\\"]) {
      const json = JSON.stringify({ [text]: [text, `${text}"`, `${text}\\`], more: text })
      expect(JsonNumbers.lostIn(json), json).toBeUndefined()
    }
    expect(JsonNumbers.lostIn('{"1e400" : 1e400}')?.path).toEqual(["1e400"])
    expect(JsonNumbers.lostIn('{"a\\"b\\\\":[[],{"c":2},"]",1e400]}')?.path).toEqual(['a"b\\', 3])
  })

  it("passes when printed from a float, short or with 17 digits", () => {
    FastCheck.assert(
      FastCheck.property(FastCheck.double({ noNaN: true, noDefaultInfinity: true }), (value) => {
        for (const text of [String(value), value.toExponential(), value.toPrecision(17), value.toExponential(16)]) {
          expect(JsonNumbers.lostIn(`[${text}]`), text).toBeUndefined()
        }
      })
    )
  })

  it("passes when it is the shortest text of a float half-way between two longer ones", () => {
    expect(JsonNumbers.lostIn("[30769603042749.062]")).toBeUndefined()
  })

  it("passes in any text serialized from values, with every other number kept", () => {
    FastCheck.assert(
      FastCheck.property(FastCheck.json({ maxDepth: 4 }), (json) => {
        expect(JsonNumbers.lostIn(json)).toBeUndefined()
        const path = JsonNumbers.lostIn(`{"a":${json},"b":[${json},9007199254740993]}`)?.path
        expect(path).toEqual(["b", 1])
      })
    )
  })
})
