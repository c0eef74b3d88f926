import { describe, expect, it } from "@effect/vitest"
import * as Screen from "../../src/cli/kit/Screen.js"
import { age, factList, printable, printableLines, table } from "../../src/cli/Terminal.js"

describe("an age", () => {
  it.each([
    [0, "now"],
    [999, "now"],
    [1_000, "1 s ago"],
    [59_999, "59 s ago"],
    [180_000, "3 min ago"],
    [5_220_000, "1 h 27 min ago"],
    [7_200_000, "2 h ago"],
    [3 * 86_400_000, "3 d ago"],
    [-1_200, "in 1 s"],
    [-90_000, "in 1 min 30 s"],
    [-86_400_000, "in 1 d"],
    [-(7 * 86_400_000 - 900), "in 7 d"],
    [-(36 * 3_600_000 - 5_000), "in 1 d 12 h"]
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

const id = "0198c0de-0000-7000-8000-000000000001"
const screen = (columns: number, colour = false) => ({ columns, colour })
const widest = (text: string) => Math.max(...text.split("\n").map((line) => line.length))

describe("a table", () => {
  const rows = [
    [id, "dead (exhausted)", "a".repeat(60), "3 min ago"],
    [id, "done", "mail", "1 h ago"]
  ]
  const shown = table(["ID", "STATE", "KIND", "CREATED"], rows)

  it("is as wide as its content where there is no terminal, and has no colours", () => {
    expect(shown(Screen.plain).split("\n")).toEqual([
      `ID${" ".repeat(36)}STATE${" ".repeat(13)}KIND${" ".repeat(58)}CREATED`,
      `${"-".repeat(36)}  ${"-".repeat(16)}  ${"-".repeat(60)}  ---------`,
      `${id}  dead (exhausted)  ${"a".repeat(60)}  3 min ago`,
      `${id}  done              mail${" ".repeat(58)}1 h ago`
    ])
  })

  it("cuts long cells on a terminal, but never an id", () => {
    const text = shown(screen(90))
    expect(widest(text)).toBeLessThanOrEqual(90)
    expect(text).toContain(`${id}  dead (exhausted)  aaaaa`)
    expect(text).toContain("…  3 min ago")
  })

  it("is a list of records on a narrow terminal", () => {
    expect(shown(screen(50)).split("\n").slice(0, 3)).toEqual([
      `ID       ${id}`,
      "STATE    dead (exhausted)",
      `KIND     ${"a".repeat(60)}`
    ])
  })

  it("continues its last column on further lines if it should not be cut", () => {
    const text = table(["", "CHECK", "FOUND"], [["warn", "clock", "word ".repeat(30).trim()]], { wraps: true })(
      screen(60)
    )
    expect(widest(text)).toBeLessThanOrEqual(60)
    expect(text.match(/word/g)).toHaveLength(30)
    expect(text.split("\n")[3]).toMatch(/^ {13}word/)
  })

  it("has coloured states on a screen with colours, and other cells as they are", () => {
    const text = table(["STATE", "KIND"], [["dead (exhausted)", "dead"]])(screen(80, true))
    expect(text).toContain("\u001b[31mdead (exhausted)\u001b[0m  dead")
  })
})

describe("facts", () => {
  it("have a coloured state", () => {
    expect(
      factList([
        ["state", "done"],
        ["kind", "done"],
        ["key", undefined]
      ])(screen(80, true))
    ).toBe("\u001b[2mstate         \u001b[0m \u001b[32mdone\u001b[0m\n\u001b[2mkind          \u001b[0m done")
  })
})
