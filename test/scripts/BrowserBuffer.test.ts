import { expect, it } from "vitest"
import { Buffer as BrowserBuffer } from "../../scripts/site/try/globals.mjs"

it("the Buffer of the page that runs Nightshift orders bytes as that of Node", () => {
  const texts = ["", "a", "ab", "b", "é", "\ue000a", "\u{10000}"]
  for (const left of texts)
    for (const right of texts)
      expect([left, right, BrowserBuffer.compare(BrowserBuffer.from(left), BrowserBuffer.from(right))]).toEqual([
        left,
        right,
        Buffer.compare(Buffer.from(left), Buffer.from(right))
      ])
})
