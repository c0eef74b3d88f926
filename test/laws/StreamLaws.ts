import { assert } from "@effect/vitest"
import { Duration, Effect, Fiber } from "effect"
import type { JobId } from "../../src/core/Ids.js"
import type { HeldJob } from "../../src/queue/Queue.js"
import { isLast, type StreamPosition } from "../../src/queue/workflow/Streams.js"
import { ends, type Law, type Line } from "./Line.js"
import { begin, done, end, step } from "./WorkflowLine.js"

const name = "tokens"

/** Appends chunks, the first with this number. */
const append = (line: Line, run: HeldJob, generation: number, number: number, ...chunks: ReadonlyArray<unknown>) =>
  line.workflows.streams.append(run, {
    name,
    generation,
    number,
    count: chunks.length,
    bytes: 10 * (number + chunks.length),
    text: JSON.stringify(chunks)
  })

const at = (job: JobId, number = 0, generation?: number): StreamPosition => ({ job, name, generation, number })

/** An execution with a stream that has begun. */
const begun = (line: Line) =>
  Effect.gen(function* () {
    const run = yield* begin(line)
    assert.strictEqual(yield* line.workflows.streams.begin(run, name, 1), 1)
    return run
  })

const recorded = (line: Line, run: HeldJob, more: Parameters<typeof step>[1] = {}) =>
  line.workflows.record(run, step(name, { kind: "stream", ...more }))

/** The state of the stream as the execution shows it. */
const shown = (line: Line) =>
  Effect.map(line.workflows.show(`${line.name}/order`), ({ streams }) =>
    streams.map(({ bytes, count, generation, state }) => ({ bytes, count, generation, state }))
  )

/** Streams of executions. */
export const streamLaws = (law: Law): void => {
  law("chunks are read in order from any position, with the state of the stream", (line) =>
    Effect.gen(function* () {
      const { streams } = line.workflows
      const run = yield* begun(line)
      yield* append(line, run, 1, 0, "a", "b")
      yield* append(line, run, 1, 2, { c: 1 })
      yield* append(line, run, 1, 3, null, ["e"], 6)
      const read = (number: number) =>
        Effect.map(streams.read(at(run.id, number)), ({ chunks, number }) => [number, chunks])
      assert.deepStrictEqual(yield* read(0), [0, ["a", "b", { c: 1 }, null, ["e"], 6]])
      assert.deepStrictEqual(yield* read(1), [1, ["b", { c: 1 }, null, ["e"], 6]])
      assert.deepStrictEqual(yield* read(4), [4, [["e"], 6]])
      assert.deepStrictEqual(yield* read(-2), [4, [["e"], 6]])
      assert.deepStrictEqual(yield* read(-100), [0, ["a", "b", { c: 1 }, null, ["e"], 6]])
      assert.deepStrictEqual(yield* read(6), [6, []])
      assert.deepStrictEqual(yield* read(99), [99, []])
      const { chunks: _, ...page } = yield* streams.read(at(run.id, 2))
      assert.deepStrictEqual(page, { generation: 1, number: 2, count: 6, state: "open", error: undefined })
      assert.deepStrictEqual(yield* shown(line), [{ generation: 1, count: 6, bytes: 60, state: "open" }])
    })
  )

  law("text is returned exactly, even with half a character or NUL", (line) =>
    Effect.gen(function* () {
      const run = yield* begun(line)
      const texts = ["\ud83d", "\ude00", "a\u0000b", 'quote " and \\ and {,}', "zeile\r\n\u2028"]
      yield* append(line, run, 1, 0, ...texts)
      assert.deepStrictEqual((yield* line.workflows.streams.read(at(run.id))).chunks, texts)
    })
  )

  law("chunks that are stored again are stored once", (line) =>
    Effect.gen(function* () {
      const run = yield* begun(line)
      yield* append(line, run, 1, 0, "a", "b")
      yield* append(line, run, 1, 0, "a", "b")
      assert.deepStrictEqual((yield* line.workflows.streams.read(at(run.id))).chunks, ["a", "b"])
    })
  )

  law("a run that has lost its lease neither begins a stream nor writes", (line) =>
    Effect.gen(function* () {
      const { streams } = line.workflows
      const run = yield* begun(line)
      yield* append(line, run, 1, 0, "a")
      yield* line.crash(run)
      const lost = yield* Effect.flip(append(line, run, 1, 1, "late"))
      assert.strictEqual(lost._tag, "LeaseLost")
      assert.strictEqual((yield* Effect.flip(streams.begin(run, name, 1)))._tag, "LeaseLost")
      const next = yield* line.claimOne
      // The two runs write at the same time.
      const both = yield* Effect.all(
        [Effect.either(append(line, run, 1, 1, "late")), Effect.either(append(line, next, 1, 1, "own"))],
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(
        both.map(({ _tag }) => _tag),
        ["Left", "Right"]
      )
      assert.deepStrictEqual((yield* streams.read(at(run.id))).chunks, ["a", "own"])
    })
  )

  law("a repeated step begins a new generation, which readers of the last one read from its start", (line) =>
    Effect.gen(function* () {
      const { streams } = line.workflows
      const run = yield* begun(line)
      yield* append(line, run, 1, 0, "a", "b", "c")
      yield* line.crash(run)
      const again = yield* line.claimOne
      assert.strictEqual(yield* streams.begin(again, name, 1), 2)
      const between = yield* streams.read(at(run.id, 3, 1))
      assert.deepStrictEqual([between.generation, between.number, between.chunks], [2, 0, []])
      yield* append(line, again, 2, 0, "x", "y")
      const page = yield* streams.read(at(run.id, 3, 1))
      assert.deepStrictEqual([page.generation, page.number, page.chunks], [2, 0, ["x", "y"]])
      assert.deepStrictEqual((yield* streams.read(at(run.id, 1, 2))).chunks, ["y"])
      assert.deepStrictEqual(yield* shown(line), [{ generation: 2, count: 2, bytes: 20, state: "open" }])
    })
  )

  law("a stream ends with the record of its attempt, and not with one that is retried", (line) =>
    Effect.gen(function* () {
      const { streams } = line.workflows
      const run = yield* begun(line)
      yield* append(line, run, 1, 0, "a")
      yield* recorded(line, run, { outcome: "retrying", retryAt: 9, exit: { error: { message: "busy" } } })
      assert.strictEqual((yield* streams.read(at(run.id))).state, "open")
      assert.strictEqual(yield* streams.begin(run, name, 2), 2)
      yield* recorded(line, run, { attempt: 2, sequence: 2 })
      const page = yield* streams.read(at(run.id))
      assert.deepStrictEqual([page.state, page.count, isLast(page)], ["done", 0, true])
      const [stream] = (yield* line.workflows.show(`${line.name}/order`)).streams
      assert.strictEqual(stream?.endedAt, yield* line.now)
    })
  )

  law("a stream ends with a later attempt that failed before it wrote", (line) =>
    Effect.gen(function* () {
      const run = yield* begun(line)
      yield* recorded(line, run, { outcome: "retrying", retryAt: 9 })
      yield* recorded(line, run, {
        attempt: 2,
        sequence: 2,
        outcome: "failed",
        exit: { error: { message: "no limit" } }
      })
      const { error, state } = yield* line.workflows.streams.read(at(run.id))
      assert.deepStrictEqual([state, error], ["failed", "no limit"])
    })
  )

  law("a stream whose step failed has its error, until a retry of the execution reopens the step", (line) =>
    Effect.gen(function* () {
      const { streams } = line.workflows
      const run = yield* begun(line)
      yield* recorded(line, run, { outcome: "failed", exit: { error: { name: "Error", message: "no model" } } })
      const { error, state } = yield* streams.read(at(run.id))
      assert.deepStrictEqual([state, error], ["failed", "no model"])
      yield* end(line, run, ends.dead)
      yield* line.workflows.retry(`${line.name}/order`)
      assert.strictEqual((yield* streams.read(at(run.id))).state, "open")
    })
  )

  law("a stream is interrupted by the end of its execution, and missing if it never began", (line) =>
    Effect.gen(function* () {
      const { streams } = line.workflows
      const run = yield* begun(line)
      const other = { ...at(run.id), name: "other" }
      const before = yield* streams.read(other)
      assert.deepStrictEqual([before.state, before.generation], ["open", 0])
      yield* append(line, run, 1, 0, "a")
      yield* end(line, run, done())
      const page = yield* streams.read(at(run.id))
      assert.deepStrictEqual([page.state, page.chunks], ["interrupted", ["a"]])
      const missing = yield* streams.read(other)
      assert.deepStrictEqual([missing.state, isLast(missing)], ["missing", true])
    })
  )

  law("an execution is found by its id and by the id of its job, and not once it is purged", (line) =>
    Effect.gen(function* () {
      const { streams } = line.workflows
      const run = yield* begun(line)
      assert.strictEqual(yield* streams.find(`${line.name}/order`), run.id)
      assert.strictEqual(yield* streams.find(run.id), run.id)
      assert.strictEqual((yield* Effect.flip(streams.find(`${line.name}/none`)))._tag, "ExecutionNotFound")
      yield* append(line, run, 1, 0, "a")
      yield* end(line, run, done())
      yield* line.advance("8 days")
      yield* line.queue.purge(Duration.days(7))
      assert.strictEqual((yield* Effect.flip(streams.read(at(run.id))))._tag, "ExecutionNotFound")
      assert.strictEqual((yield* Effect.flip(streams.next(at(run.id))))._tag, "ExecutionNotFound")
      assert.deepStrictEqual(yield* streams.list(run.id), [])
    })
  )

  law("a reader waits for the next chunk and for the end", (line) =>
    Effect.gen(function* () {
      const { streams } = line.workflows
      const run = yield* begin(line)
      const first = yield* Effect.fork(streams.next(at(run.id)))
      yield* Effect.yieldNow()
      yield* streams.begin(run, name, 1)
      yield* append(line, run, 1, 0, "a")
      assert.deepStrictEqual((yield* Fiber.join(first)).chunks, ["a"])
      const last = yield* Effect.fork(streams.next(at(run.id, 1, 1)))
      yield* Effect.yieldNow()
      yield* recorded(line, run)
      const page = yield* Fiber.join(last)
      assert.deepStrictEqual([page.chunks, page.state], [[], "done"])
    })
  )
}
