import { describe, expect, it } from "@effect/vitest"
import { Option } from "effect"
import * as BytesText from "../../src/core/BytesText.js"

describe("sizes", () => {
  it.each([
    ["1", 1],
    ["26214400", 26_214_400],
    ["25MiB", 26_214_400],
    ["25 mib", 26_214_400],
    ["1.5KiB", 1_536],
    ["500kB", 500_000],
    ["1GB", 1_000_000_000],
    ["2TiB", 2 * 1024 ** 4],
    ["12B", 12]
  ])("are parsed from %j", (text, bytes) => {
    expect(BytesText.parse(text)).toEqual(Option.some(bytes))
  })

  it.each(["", "0", "-1", "0.4", "25M", "MiB", "1e9", "25 MiB please", "99999999TiB", "１"])(
    "are not parsed from %j",
    (text) => {
      expect(BytesText.parse(text)).toEqual(Option.none())
    }
  )

  it.each([
    [1, "1 B"],
    [1024, "1 KiB"],
    [1_536, "1.5 KiB"],
    [26_214_400, "25 MiB"],
    [1_048_575, "1024 KiB"],
    [1024 ** 4, "1 TiB"]
  ])("of %d bytes are shown as %s", (bytes, text) => {
    expect(BytesText.format(bytes)).toBe(text)
  })
})
