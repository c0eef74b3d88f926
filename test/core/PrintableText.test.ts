import { describe, expect, it } from "@effect/vitest"
import { json } from "../../src/cli/mcp/ToolText.js"
import { printable } from "../../src/core/PrintableText.js"

/** Bytes as characters that no font draws, which language models read. */
const hidden = (text: string) => String.fromCodePoint(...[...Buffer.from(text)].map((byte) => 0xe0100 + byte - 16))

describe("text of others", () => {
  it("hides nothing: characters that are not drawn are escaped", () => {
    const found = printable(`paid${hidden("ab")}\u{3164}\u{202e}\u{e0041}`)
    expect(found).toBe("paid\\u{e0151}\\u{e0152}\\u{3164}\\u{202e}\\u{e0041}")
    expect(json({ text: `paid${hidden("a")}` })).toBe('{"text":"paid\\udb40\\udd51"}')
    expect(JSON.parse(json({ text: hidden("ab") }))).toEqual({ text: hidden("ab") })
  })

  it("keeps what is drawn, with the selector of an emoji but no row of them", () => {
    expect(printable("Grüße, 你好 ❤\ufe0f!")).toBe("Grüße, 你好 ❤\ufe0f!")
    expect(printable("❤\ufe0f\ufe0e\ufe0f")).toBe("❤\\u{fe0f}\\u{fe0e}\ufe0f")
  })
})
