import type { IncomingMessage } from "node:http"
import { PassThrough } from "node:stream"
import { describe, expect, it } from "@effect/vitest"
import { BodyReader, type NoBody } from "../../src/http/hooks/HookBody.js"

/** An incoming body, with a reader whose clock the test sets. */
const reading = (reader: BodyReader, hook = "ci", address = "192.0.2.1") => {
  const stream = new PassThrough()
  const result = new Promise<Buffer | NoBody>((resolve) => {
    reader.read(stream as unknown as IncomingMessage, { hook, address: () => address }, resolve)
  })
  return { stream, result }
}

const mebibyte = 1024 * 1024

describe("the body of a webhook", () => {
  it("is read whole, however it is split", async () => {
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

  it("is dropped when it takes longer than fifteen seconds, and no sooner", async () => {
    let now = 0
    const reader = new BodyReader(() => now)
    const slow = reading(reader)
    const quick = reading(reader)
    slow.stream.write(Buffer.alloc(mebibyte / 2))
    now = 15_000
    quick.stream.end("{}")
    expect(await quick.result).toEqual(Buffer.from("{}"))
    reader.sweep()
    now = 15_001
    reader.sweep()
    expect(await slow.result).toBe("TooSlow")
  })

  it("is dropped when it trickles: below four kibibytes a second, after five seconds", async () => {
    let now = 0
    const reader = new BodyReader(() => now)
    const drops = reading(reader)
    const steady = reading(reader)
    drops.stream.write("{")
    for (now = 500; now <= 7_000; now += 500) {
      drops.stream.write(" ")
      steady.stream.write(Buffer.alloc(2_048, " "))
      reader.sweep()
    }
    expect(await drops.result).toBe("TooSlow")
    steady.stream.end()
    expect(await steady.result).toHaveLength(14 * 2_048)
  })

  it("is dropped when its sender disconnects", async () => {
    const { result, stream } = reading(new BodyReader(() => 0))
    stream.write("{")
    stream.destroy()
    expect(await result).toBe("Gone")
  })

  it("is refused beyond a mebibyte", async () => {
    const large = reading(new BodyReader(() => 0))
    large.stream.write(Buffer.alloc(mebibyte + 1))
    expect(await large.result).toBe("TooLarge")
  })
})

describe("bodies that use up the memory limit", () => {
  /** Unfinished bodies of a mebibyte, one second apart. */
  const flood = (reader: BodyReader, count: number, tick: () => void, addressOf = (_: number) => "192.0.2.66") =>
    Array.from({ length: count }, (_, number) => {
      tick()
      const held = reading(reader, "ci", addressOf(number))
      held.stream.write(Buffer.alloc(mebibyte))
      return held
    })

  const setUp = () => {
    let now = 0
    const reader = new BodyReader(() => now)
    const tick = () => {
      now += 1
    }
    return { reader, tick }
  }

  it("make room for a new one: the body that has been silent longest is dropped first", async () => {
    const { reader, tick } = setUp()
    const held = flood(reader, 64, tick)
    const last = reading(reader, "ci", "192.0.2.66")
    last.stream.end(Buffer.alloc(mebibyte))
    expect(await last.result).toHaveLength(mebibyte)
    expect(await held[0]?.result).toBe("TooMuch")
    held[63]?.stream.end()
    expect(await held[63]?.result).toHaveLength(mebibyte)
  })

  it("are dropped from the address that holds most, and from no other", async () => {
    const { reader, tick } = setUp()
    const patient = reading(reader, "ci", "192.0.2.1")
    patient.stream.write("{")
    flood(reader, 200, tick)
    patient.stream.end("}")
    expect(await patient.result).toEqual(Buffer.from("{}"))
  })

  it("are dropped from the hook that is flooded, from however many addresses", async () => {
    const { reader, tick } = setUp()
    const patient = reading(reader, "pay", "192.0.2.1")
    patient.stream.write("{")
    flood(reader, 200, tick, (number) => `192.0.2.${number}`)
    patient.stream.end("}")
    expect(await patient.result).toEqual(Buffer.from("{}"))
  })

  it("are bounded in number, too", async () => {
    const { reader, tick } = setUp()
    const first = reading(reader)
    for (let number = 0; number < 5_000; number += 1) {
      tick()
      reading(reader)
    }
    expect(await first.result).toBe("TooMuch")
  })
})
