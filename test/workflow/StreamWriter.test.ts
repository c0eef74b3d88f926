import { Effect } from "effect"
import { beforeAll, describe, expect, it } from "vitest"
import type { StreamBatch } from "../../src/queue/workflow/Streams.js"
import { ChunkRefused, StreamWriter } from "../../src/workflow/StreamWriter.js"

// How chunks are collected. The store answers when a test lets it.

const limits = { chunkBytes: 1_000, streamBytes: 5_000 }

const turns = async (count = 5) => {
  for (let turn = 0; turn < count; turn += 1) await new Promise(setImmediate)
}

let runtime: Effect.Effect.Success<ReturnType<typeof Effect.runtime<never>>>
beforeAll(async () => {
  runtime = await Effect.runPromise(Effect.runtime<never>())
})

const open = (pace = 0, given: Partial<typeof limits> = {}) => {
  const stored: Array<StreamBatch> = []
  const answers: Array<{ readonly answer: () => void; readonly fail: (error: Error) => void }> = []
  const append = (batch: StreamBatch) =>
    new Promise<void>((resolve, reject) => {
      stored.push(batch)
      answers.push({ answer: resolve, fail: reject })
    })
  const writer = new StreamWriter("tokens", 1, { limits: { ...limits, ...given }, pace }, append, runtime)
  const chunks = () => stored.map(({ number, text }) => [number, JSON.parse(text)])
  return {
    writer,
    stored,
    chunks,
    answer: () => answers.shift()?.answer(),
    fail: (error: Error) => answers.shift()?.fail(error)
  }
}

describe("a writer of a stream", () => {
  it("refuses a chunk after its step has ended, which neither stores it nor fails the step", async () => {
    const { answer, chunks, writer } = open()
    await writer.write("a")
    await turns()
    const finished = writer.finish()
    const late = writer.write("late")
    await expect(late).rejects.toThrow('A chunk of "tokens" was written after its step ended.')
    await expect(late).rejects.toBeInstanceOf(ChunkRefused)
    answer()
    await finished
    expect([chunks(), writer.count]).toEqual([[[0, ["a"]]], 1])
  })

  it("stores what arrives in one turn together, and what arrives during a write with the next", async () => {
    const { answer, chunks, stored, writer } = open()
    for (const chunk of ["a", "b"]) await writer.write(chunk)
    await turns()
    for (const chunk of ["c", "d", "e"]) await writer.write(chunk)
    await turns()
    expect(chunks()).toEqual([[0, ["a", "b"]]])
    answer()
    await turns()
    expect(chunks()).toEqual([
      [0, ["a", "b"]],
      [2, ["c", "d", "e"]]
    ])
    answer()
    await writer.finish()
    expect(stored.map(({ bytes, count }) => [count, bytes])).toEqual([
      [2, 6],
      [3, 15]
    ])
    expect([writer.count, writer.bytes]).toEqual([5, 15])
  })

  it("pauses between two writes, but not at the end", async () => {
    const { answer, chunks, writer } = open(60_000)
    await writer.write("a")
    await turns()
    answer()
    await turns()
    await writer.write("b")
    await turns()
    expect(chunks()).toEqual([[0, ["a"]]])
    const finished = writer.finish()
    await turns()
    expect(chunks()).toEqual([
      [0, ["a"]],
      [1, ["b"]]
    ])
    answer()
    await finished
  })

  it("ends a pause when many chunks wait, and holds a writer back that is faster than the store", async () => {
    const { answer, stored, writer } = open(60_000, { streamBytes: 1_000_000 })
    await writer.write("first")
    await turns()
    let written = 0
    const writing = (async () => {
      for (let number = 0; number < 3_000; number += 1) {
        await writer.write(number)
        written += 1
      }
      await writer.finish()
    })()
    await turns(20)
    expect(written).toBe(999)
    for (let batch = 0; batch < 10; batch += 1) {
      answer()
      await turns(20)
    }
    await writing
    const numbers = stored.flatMap(({ text }) => JSON.parse(text)).slice(1)
    expect(numbers).toEqual(Array.from({ length: 3_000 }, (_, number) => number))
    expect(stored.length).toBeLessThan(8)
  })

  it("splits what would be one large write", async () => {
    const { answer, stored, writer } = open(0, { chunkBytes: 65_536, streamBytes: 10_000_000 })
    for (let number = 0; number < 3; number += 1) void writer.write("x".repeat(60_000))
    const finished = writer.finish()
    for (let turn = 0; turn < 4; turn += 1) {
      await turns()
      answer()
    }
    await finished
    expect(stored.map(({ count }) => count)).toEqual([2, 1])
  })

  it("refuses a chunk that is too large, a stream that is too large, and everything after that", async () => {
    const tooLong = open()
    await expect(tooLong.writer.write("x".repeat(1_000))).rejects.toThrow(ChunkRefused)
    await expect(tooLong.writer.write("short")).rejects.toThrow("must be at most 1000 bytes as JSON, got 1002")
    await expect(tooLong.writer.finish()).rejects.toThrow(ChunkRefused)
    const tooMany = open(0, { chunkBytes: 4_000 })
    void tooMany.writer.write("x".repeat(3_000))
    await expect(tooMany.writer.write("x".repeat(3_000))).rejects.toThrow(
      'The stream of "tokens" must have at most 5000 bytes. Store large data elsewhere, or raise STREAM_MAX_SIZE.'
    )
  })

  it("reports a failed write to the next one and at the end", async () => {
    const { fail, writer } = open()
    await writer.write("a")
    await turns()
    fail(new Error("the lease is lost"))
    await turns()
    await expect(writer.write("b")).rejects.toThrow("the lease is lost")
    await expect(writer.finish()).rejects.toThrow("the lease is lost")
  })
})
