import { describe, expect, it } from "@effect/vitest"
import { age, printable, printableLines } from "../../src/cli/Terminal.js"

describe("an age", () => {
  it.each([
    [0, "now"],
    [999, "now"],
    [1_000, "1s ago"],
    [59_999, "59s ago"],
    [180_000, "3m ago"],
    [7_200_000, "2h ago"],
    [3 * 86_400_000, "3d ago"],
    [-1_200, "in 1s"],
    [-90_000, "in 1m30s"],
    [-86_400_000, "in 1d"],
    [-(7 * 86_400_000 - 900), "in 7d"],
    [-(36 * 3_600_000 - 5_000), "in 1d12h"]
  ])("of %i ms is printed as %s", (millis, text) => {
    expect(age(1_000_000_000_000 - millis, 1_000_000_000_000)).toBe(text)
  })
})

describe("stored text on a terminal", () => {
  it("cannot move the cursor, change colours, break a line or reverse the text direction", () => {
    expect(printableLines("Error: no\r\n\tat x\n\u001b[1mb", 3)).toBe("Error: no\n     at x\n   \\u{1b}[1mb")
    expect(printable("a\u001b[31mb\r\nc\u202ed\u2028e")).toBe("a\\u{1b}[31mb\\u{d}\\u{a}c\\u{202e}d\\u{2028}e")
    expect(printable("Grüße 🌙")).toBe("Grüße 🌙")
  })
})
