import { describe, expect, it } from "vitest"
import { z } from "zod"
import { type ExecutionHandle, type StreamChunk, type StreamResult, workflow } from "../../src/client/index.js"
import { testShift } from "../../src/testing/index.js"

// Streams of workflows, on virtual time.

const settings = { payload: z.object({ id: z.string() }), key: (chat: { id: string }) => chat.id }

const collect = async <A>(chunks: AsyncIterable<StreamChunk<A>>): Promise<ReadonlyArray<StreamChunk<A>>> => {
  const all: Array<StreamChunk<A>> = []
  for await (const chunk of chunks) all.push(chunk)
  return all
}

const texts = async (chunks: AsyncIterable<StreamChunk<unknown>>) =>
  (await collect(chunks)).map(({ id, value }) => `${id} ${JSON.stringify(value)}`)

/** A promise that is rejected when the signal is aborted. */
const untilAborted = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(new Error("aborted"))))

describe("a step that writes a stream", () => {
  it("is a step whose chunks a program reads by number, from any of them, as often as it likes", async () => {
    const results: Array<StreamResult<string>> = []
    const chat = workflow("chat", settings, async (_, step) => {
      const result = await step.stream("tokens", async function* () {
        yield "Good"
        yield " evening"
        yield { stop: true }
        return "Good evening"
      })
      results.push(result)
      return result.value
    })
    await using shift = await testShift({ handlers: [chat] })
    const run = await shift.start(chat, { id: "A" })
    expect(await collect(run.stream("tokens"))).toEqual([
      { id: "1-0", generation: 1, number: 0, value: "Good" },
      { id: "1-1", generation: 1, number: 1, value: " evening" },
      { id: "1-2", generation: 1, number: 2, value: { stop: true } }
    ])
    expect(await texts(run.stream("tokens", { from: 2 }))).toEqual(['1-2 {"stop":true}'])
    expect(await texts(run.stream("tokens", { from: -1 }))).toEqual(['1-2 {"stop":true}'])
    expect(await texts(run.stream("tokens", { from: 99 }))).toEqual([])
    expect(await texts(run.stream("tokens", { after: "1-0" }))).toEqual(['1-1 " evening"', '1-2 {"stop":true}'])
    expect(await texts(shift.workflows.stream("chat/A", "tokens", { after: "1-2" }))).toEqual([])
    expect(await run.result()).toBe("Good evening")
    expect(results[0]).toEqual({ generation: 1, count: 3, bytes: 29, value: "Good evening" })
    const { steps, streams } = await run.status()
    expect(steps.map(({ kind, name, outcome }) => `${name} ${kind} ${outcome}`)).toEqual(["tokens stream done"])
    const began = new Date(0)
    const stream = {
      name: "tokens",
      generation: 1,
      state: "done",
      count: 3,
      bytes: 29,
      startedAt: began,
      endedAt: began
    }
    expect(streams).toEqual([stream])
  })

  it("takes a generator, code that returns an async iterable, and code that calls write", async () => {
    const source = async function* () {
      yield 1
      yield 2
    }
    const chat = workflow("chat", settings, async (_, step) => {
      const sync = await step.stream("sync", function* () {
        yield 1
        return "sync"
      })
      const returned = await step.stream("returned", source)
      const later = await step.stream("later", async () => ({ [Symbol.asyncIterator]: source }))
      const written = await step.stream("written", async ({ write }) => {
        await write(1)
        void write(2)
        return [3]
      })
      const value: undefined = later.value
      return [sync.value satisfies string, returned.value, value, written.value satisfies Array<number>]
    })
    await using shift = await testShift({ handlers: [chat] })
    const run = await shift.start(chat, { id: "A" })
    expect(await texts(run.stream("sync"))).toEqual(["1-0 1"])
    for (const name of ["returned", "later", "written"])
      expect(await texts(run.stream(name))).toEqual(["1-0 1", "1-1 2"])
    expect(await run.result()).toEqual(["sync", null, null, [3]])
  })

  it("writes a new generation in every attempt, and a reader sees the last one whole", async () => {
    const chat = workflow("chat", settings, async (_, step) => {
      const { generation } = await step.stream("tokens", async function* ({ attempt }) {
        yield `${attempt}a`
        if (attempt < 3) throw new Error("the model is busy")
        yield `${attempt}b`
      })
      return generation
    })
    await using shift = await testShift({ handlers: [chat] })
    const run = await shift.start(chat, { id: "A" })
    const chunks = run.stream("tokens")[Symbol.asyncIterator]()
    expect((await chunks.next()).value).toMatchObject({ id: "1-0", value: "1a" })
    await shift.advance("1s")
    expect((await chunks.next()).value).toMatchObject({ id: "2-0", value: "2a" })
    expect((await run.status()).streams).toMatchObject([{ generation: 2, state: "open", count: 1, endedAt: undefined }])
    // The clock moves if nothing else can happen.
    expect((await chunks.next()).value).toMatchObject({ id: "3-0", number: 0, value: "3a" })
    expect((await chunks.next()).value).toMatchObject({ id: "3-1", number: 1, value: "3b" })
    expect(await chunks.next()).toEqual({ done: true, value: undefined })
    expect(await texts(run.stream("tokens", { after: "2-0" }))).toEqual(['3-0 "3a"', '3-1 "3b"'])
    expect(await run.result()).toBe(3)
  })

  it("begins again after a crash, with the same attempt", async () => {
    let runs = 0
    const chat = workflow("chat", settings, async (_, step) => {
      await step.stream("tokens", async function* ({ attempt, signal }) {
        runs += 1
        yield `run ${runs}`
        if (runs === 1) await untilAborted(signal)
        yield `attempt ${attempt}`
      })
    })
    await using shift = await testShift({ handlers: [chat] })
    const run = await shift.start(chat, { id: "A" })
    await shift.settle()
    expect((await run.status()).streams).toMatchObject([{ generation: 1, count: 1, state: "open" }])
    await shift.crash()
    expect(await texts(run.stream("tokens", { after: "1-0" }))).toEqual(['2-0 "run 2"', '2-1 "attempt 1"'])
  })

  it("gives its result to its undo, and runs the finally blocks of a generator that must stop", async () => {
    const events: Array<string> = []
    const chat = workflow("chat", settings, async (_, step) => {
      await step.stream(
        "first",
        async function* () {
          yield "a"
          return 7
        },
        { undo: ({ count, value }) => void events.push(`undo ${count} ${value}`) }
      )
      await step.stream("second", async function* ({ signal }) {
        try {
          yield "b"
          await untilAborted(signal)
        } finally {
          events.push("finally")
        }
      })
    })
    await using shift = await testShift({ handlers: [chat] })
    const run = await shift.start(chat, { id: "A" })
    await shift.settle()
    await run.cancel()
    await shift.settle()
    expect(events).toEqual(["finally", "undo 1 7"])
    expect((await run.status()).streams.map(({ name, state }) => `${name} ${state}`)).toEqual([
      "first done",
      "second interrupted"
    ])
    await expect(collect(run.stream("second"))).rejects.toMatchObject({
      name: "StreamFailedError",
      code: "STREAM_FAILED",
      state: "interrupted",
      message: 'Stream "second" of execution "chat/A" is incomplete: the execution ended before its step.'
    })
  })

  it("can be read while the execution waits for a signal, and continues after it", async () => {
    const chat = workflow("chat", settings, async (_, step) => {
      await step.stream("question", () => ["Shall", " I?"][Symbol.iterator]())
      const answer = await step.waitFor("answer")
      await step.stream("reply", () => [answer][Symbol.iterator]())
    })
    await using shift = await testShift({ handlers: [chat] })
    const run = await shift.start(chat, { id: "A" })
    expect(await texts(run.stream("question"))).toEqual(['1-0 "Shall"', '1-1 " I?"'])
    await expect(collect(run.stream("reply"))).rejects.toThrow("wait for a signal")
    await run.signal("answer", "yes")
    expect(await texts(run.stream("reply"))).toEqual(['1-0 "yes"'])
  })

  it("is the same in every run of a test", async () => {
    const story = async () => {
      const chat = workflow("chat", settings, async (_, step) => {
        const write = (name: string, delay: number) =>
          step.stream(name, async function* ({ attempt }) {
            for (let number = 0; number < 5; number += 1) {
              yield `${name}${number}`
              await Promise.resolve()
            }
            if (attempt < delay) throw new Error("again")
          })
        await Promise.all([write("a", 2), write("b", 3)])
      })
      await using shift = await testShift({ handlers: [chat], seed: 5 })
      const run = await shift.start(chat, { id: "A" })
      const read = [await texts(run.stream("b")), await texts(run.stream("a"))]
      // Which asynchronous frames a trace has depends on what V8 has compiled.
      return JSON.stringify([read, await run.status()], (key, value) => (key === "stack" ? undefined : value))
    }
    expect(await story()).toBe(await story())
  })
})

describe("a stream that cannot be written", () => {
  const failing = async (chunk: unknown) => {
    let attempts = 0
    const chat = workflow("chat", settings, async (_, step) => {
      await step.stream("tokens", async function* () {
        attempts += 1
        yield "ok"
        yield chunk
      })
    })
    const shift = await testShift({ handlers: [chat] })
    const run = await shift.start(chat, { id: "A" })
    const error = await run.result().catch((error: unknown) => error)
    await shift.close()
    expect(attempts).toBe(1)
    return (error as Error).message
  }

  it("fails its step without a retry, and says what to do", async () => {
    expect(await failing("x".repeat(64 * 1024))).toContain(
      'A chunk of "tokens" must be at most 65536 bytes as JSON, got 65538. Split it, or raise STREAM_MAX_CHUNK.'
    )
    expect(await failing({ text: "ä".repeat(40_000) })).toContain("got 80011. Split it, or raise STREAM_MAX_CHUNK.")
    expect(await failing(new Uint8Array(3))).toContain("got bytes. Decode them, or encode them as base64.")
    expect(await failing(undefined)).toContain("must be a JSON value")
    expect(await failing(Number.NaN)).toContain("must not contain NaN or Infinity")
  })

  it("fails its step even if a write is not awaited", async () => {
    const chat = workflow("chat", settings, async (_, step) => {
      await step.stream("tokens", ({ write }) => void write("x".repeat(70_000)))
    })
    await using shift = await testShift({ handlers: [chat] })
    const run = await shift.start(chat, { id: "A" })
    await expect(run.result()).rejects.toThrow("got 70002")
    await expect(collect(run.stream("tokens"))).rejects.toMatchObject({
      state: "failed",
      message: expect.stringContaining("is incomplete: its step failed: A chunk of")
    })
  })

  it("keeps what was written before an error that is not retried", async () => {
    const chat = workflow("chat", settings, async (_, step) => {
      const write = async function* () {
        yield "partial"
        throw new Error("the model is gone")
      }
      await step.stream("tokens", write, { attempts: 1 }).catch(() => {})
      return "fell back"
    })
    await using shift = await testShift({ handlers: [chat] })
    const run = await shift.start(chat, { id: "A" })
    const read: Array<unknown> = []
    const reading = (async () => {
      for await (const { value } of run.stream("tokens")) read.push(value)
    })()
    await expect(reading).rejects.toThrow("its step failed: the model is gone.")
    expect(read).toEqual(["partial"])
    expect(await run.result()).toBe("fell back")
  })
})

describe("a reader", () => {
  it("is refused for executions and streams that do not exist, and for options that are wrong", async () => {
    const chat = workflow("chat", settings, async (_, step) => step.run("nothing", () => {}))
    await using shift = await testShift({ handlers: [chat] })
    const run: ExecutionHandle = await shift.start(chat, { id: "A" })
    await expect(collect(shift.execution(chat, "B").stream("tokens"))).rejects.toMatchObject({
      code: "EXECUTION_NOT_FOUND"
    })
    await expect(collect(run.stream("tokens"))).rejects.toMatchObject({
      code: "STREAM_NOT_FOUND",
      message:
        'Execution "chat/A" has ended without a stream "tokens". Check its name: a stream has the name of its step.'
    })
    expect(() => run.stream("tokens", { from: 1.5 })).toThrow("from must be a whole number, got 1.5.")
    expect(() => run.stream("tokens", { after: "five" })).toThrow('after must be the id of a chunk, such as "1-42"')
    expect(() => run.stream("tokens", { after: "1-2", from: 3 })).toThrow("Pass either from or after, not both.")
    expect(() => run.stream("tokens", { form: 3 } as never)).toThrow("form is not an option of stream")
    const aborted = AbortSignal.abort(new Error("enough"))
    await expect(collect(run.stream("tokens", { signal: aborted }))).rejects.toThrow("enough")
  })

  it("may leave before the end", async () => {
    const chat = workflow("chat", settings, async (_, step) => {
      await step.stream("tokens", async function* () {
        for (let number = 0; number < 3_000; number += 1) yield number
      })
    })
    await using shift = await testShift({ handlers: [chat] })
    const run = await shift.start(chat, { id: "A" })
    for await (const { value } of run.stream<number>("tokens")) if (value === 10) break
    const all = await collect(run.stream<number>("tokens"))
    expect(all.map(({ value }) => value)).toEqual(Array.from({ length: 3_000 }, (_, number) => number))
  })
})
