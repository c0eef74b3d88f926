import type { IncomingMessage } from "node:http"
import { PassThrough } from "node:stream"
import { describe, expect, it } from "@effect/vitest"
import { BodyReader, type NoBody } from "../../src/http/hooks/HookBody.js"

/** A body on its way, in the hands of a reader whose clock the test sets. */
const reading = (reader: BodyReader) => {
  const stream = new PassThrough()
  const result = new Promise<Buffer | NoBody>((resolve) => {
    reader.read(stream as unknown as IncomingMessage, resolve)
  })
  return { stream, result }
}

const mebibyte = 1024 * 1024

describe("the body of a webhook", () => {
  it("is read whole, however it is sliced", async () => {
    const reader = new BodyReader(() => 0)
    const text = Buffer.from("x".repeat(5_000))
    for (const size of [1, 7, 4_999, 5_000]) {
      const { result, stream } = reading(reader)
      for (let from = 0; from < text.length; from += size) stream.write(text.subarray(from, from + size))
      stream.end()
      expect(await result).toEqual(text)
    }
    const empty = reading(reader)
    empty.stream.end()
    expect(await empty.result).toEqual(Buffer.alloc(0))
  })

  it("is given up when it takes longer than fifteen seconds, and no sooner", async () => {
    let now = 0
    const reader = new BodyReader(() => now)
    const slow = reading(reader)
    const quick = reading(reader)
    slow.stream.write("{")
    now = 15_000
    reader.sweep()
    quick.stream.end("{}")
    expect(await quick.result).toEqual(Buffer.from("{}"))
    now = 15_001
    reader.sweep()
    expect(await slow.result).toBe("TooSlow")
  })

  it("is given up when its sender is gone", async () => {
    const { result, stream } = reading(new BodyReader(() => 0))
    stream.write("{")
    stream.destroy()
    expect(await result).toBe("Gone")
  })

  it("is refused beyond a mebibyte, and when all of them together hold too much", async () => {
    const reader = new BodyReader(() => 0)
    const large = reading(reader)
    large.stream.write(Buffer.alloc(mebibyte + 1))
    expect(await large.result).toBe("TooLarge")
    const held = Array.from({ length: 64 }, () => reading(reader))
    for (const { stream } of held) stream.write(Buffer.alloc(mebibyte))
    const last = reading(reader)
    last.stream.write(Buffer.alloc(1))
    expect(await last.result).toBe("TooMuch")
    // What is read no longer counts.
    held[0]?.stream.end()
    expect(await held[0]?.result).toHaveLength(mebibyte)
    const next = reading(reader)
    next.stream.end("{}")
    expect(await next.result).toEqual(Buffer.from("{}"))
  })
})
