import { assert } from "@effect/vitest"
import { Duration, Effect, Exit } from "effect"
import type { ClaimedJob } from "../../src/queue/Queue.js"
import { ends, type Law, type Line } from "./Line.js"
import { begin, continued, done, end, executionOf, step, suspend } from "./WorkflowLine.js"

const order = (line: Line) => `${line.name}/order`

const send = (line: Line, value: unknown, id?: string, name = "message") =>
  line.workflows.signal({ execution: order(line), name, value, id })

/** The values of the signal as they are stored: name and value. */
const stored = (line: Line, execution = order(line)) =>
  Effect.map(line.workflows.show(execution), ({ deferreds }) =>
    deferreds
      .filter(({ completedAt }) => completedAt !== undefined)
      .map(({ exit, name }) => [name, exit] as const)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
  )

const took = (signal: string, number: number) =>
  step(number === 1 ? `next:${signal}` : `next:${signal}#${number}`, {
    kind: "message",
    sequence: number,
    exit: { value: number, taken: { signal, number } }
  })

/** Laws of signals that have several values. */
export const signalValueLaws = (law: Law): void => {
  law("further values of a signal are numbered in the order of their arrival", (line) =>
    Effect.gen(function* () {
      const early = [yield* send(line, "a"), yield* send(line, "b")]
      yield* begin(line)
      assert.deepStrictEqual([...early, yield* send(line, "c")], ["completed", "appended", "appended"])
      yield* send(line, "other", undefined, "note")
      assert.deepStrictEqual(yield* stored(line), [
        ["message", "a"],
        ["message#2", "b"],
        ["message#3", "c"],
        ["note", "other"]
      ])
    })
  )

  law("the values of a signal after the first have at most 16 MiB together, also in a new journal", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      // 64 KiB as JSON.
      const large = "x".repeat(65_534)
      const sendAll = (count: number) =>
        Effect.forEach(Array.from({ length: count }), () => Effect.exit(send(line, large)), {
          concurrency: "unbounded"
        })
      yield* send(line, "first")
      assert.isTrue((yield* sendAll(256)).every(Exit.isSuccess))
      assert.strictEqual((yield* Effect.flip(send(line, "more")))._tag, "SignalsFull")
      assert.strictEqual(yield* send(line, "more", undefined, "other"), "completed")
      yield* line.workflows.record(job, took("message", 1))
      yield* line.workflows.record(job, took("message", 2))
      yield* end(line, job, continued())
      // The second value is the first now.
      const again = yield* sendAll(2)
      assert.deepStrictEqual(again.map(Exit.isSuccess), [true, true])
      assert.strictEqual((yield* Effect.flip(send(line, "more")))._tag, "SignalsFull")
    })
  )

  law("values that are sent at the same time have different numbers, without gaps", (line) =>
    Effect.gen(function* () {
      yield* begin(line)
      const count = 60
      const outcomes = yield* Effect.forEach(
        Array.from({ length: count }, (_, value) => value),
        (value) => send(line, value),
        { concurrency: "unbounded" }
      )
      assert.strictEqual(outcomes.filter((each) => each === "completed").length, 1)
      const all = yield* stored(line)
      assert.deepStrictEqual(
        all.map(([name]) => name).toSorted(),
        ["message", ...Array.from({ length: count - 1 }, (_, index) => `message#${index + 2}`)].toSorted()
      )
      assert.strictEqual(new Set(all.map(([, value]) => value)).size, count)
    })
  )

  law("a value whose id is stored is not stored again, whether it was the first or a further one", (line) =>
    Effect.gen(function* () {
      yield* begin(line)
      const outcomes = [
        yield* send(line, 1, "one"),
        yield* send(line, 1, "one"),
        yield* send(line, 2, "two"),
        yield* send(line, 2, "two"),
        yield* send(line, 3),
        yield* send(line, 9, "one", "note")
      ]
      assert.deepStrictEqual(outcomes, ["completed", "repeated", "appended", "repeated", "appended", "completed"])
      assert.deepStrictEqual(yield* stored(line), [
        ["message", 1],
        ["message#2", 2],
        ["message#3", 3],
        ["note", 9]
      ])
    })
  )

  law("the same id in several values of one batch is stored once", (line) =>
    Effect.gen(function* () {
      yield* begin(line)
      yield* send(line, 0)
      const outcomes = yield* Effect.forEach([1, 2, 3, 4], (value) => send(line, value, value > 2 ? "same" : "other"), {
        concurrency: "unbounded"
      })
      assert.deepStrictEqual(outcomes.toSorted(), ["appended", "appended", "repeated", "repeated"])
      assert.strictEqual((yield* stored(line)).length, 3)
    })
  )

  law("an id that is too long is refused", (line) =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(send(line, 1, "i".repeat(257)))
      assert.strictEqual(error._tag, "InvalidStep")
      assert.include(error.message, "its id must")
    })
  )

  law("an execution that waits for a further value is due when it arrives, and at once if it has arrived", (line) =>
    Effect.gen(function* () {
      const waits = (number: number) => [
        { kind: "message", name: "next:message" } as const,
        number === 1
          ? ({ kind: "signal", name: "message" } as const)
          : ({ kind: "value", name: `message#${number}` } as const)
      ]
      yield* suspend(line, yield* begin(line), waits(1))
      const shown = yield* line.workflows.show(order(line))
      assert.deepStrictEqual(
        [shown.state, shown.waits.map(({ kind, name }) => `${kind} ${name}`)],
        ["waiting", ["message next:message"]]
      )
      assert.deepStrictEqual(yield* line.claim(), [])
      yield* send(line, 1)
      const second = yield* line.claimOne
      yield* suspend(line, second, waits(2))
      assert.deepStrictEqual(yield* line.claim(), [])
      yield* send(line, 2)
      yield* send(line, 3)
      const third = yield* line.claimOne
      // It has not seen the third value.
      yield* suspend(line, third, waits(3), 100)
      assert.strictEqual((yield* line.claimOne).id, third.id)
    })
  )

  law("a value before the start is kept for the first suspension that waits for its number", (line) =>
    Effect.gen(function* () {
      yield* send(line, 1)
      yield* send(line, 2)
      const job = yield* begin(line)
      yield* suspend(line, job, [
        { kind: "message", name: "next:message#2" },
        { kind: "value", name: "message#2" }
      ])
      assert.strictEqual((yield* line.claimOne).id, job.id)
    })
  )

  law("values that no step has taken are unclaimed, and repetitions of a signal that was received are not", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      const unclaimed = Effect.map(line.workflows.show(order(line)), (shown) => shown.unclaimed)
      yield* send(line, 1)
      yield* send(line, 2)
      assert.deepStrictEqual(yield* unclaimed, ["message"])
      yield* line.workflows.record(job, took("message", 1))
      assert.deepStrictEqual(yield* unclaimed, ["message"])
      yield* line.workflows.record(job, took("message", 2))
      assert.deepStrictEqual(yield* unclaimed, [])
      yield* send(line, 1, undefined, "approval")
      yield* send(line, 2, undefined, "approval")
      yield* line.workflows.record(job, step("approval", { kind: "signal", sequence: 3 }))
      assert.deepStrictEqual(yield* unclaimed, [])
    })
  )

  law("a fork has all values, and further ones get the next numbers", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      yield* send(line, "a")
      yield* send(line, "b", "id-b")
      yield* line.workflows.record(job, took("message", 1))
      yield* line.workflows.record(job, step("ship", { sequence: 2 }))
      const { execution } = yield* line.workflows.fork(order(line), "ship")
      assert.strictEqual(
        yield* line.workflows.signal({ execution, name: "message", value: "b", id: "id-b" }),
        "repeated"
      )
      assert.strictEqual(yield* line.workflows.signal({ execution, name: "message", value: "c" }), "appended")
      assert.deepStrictEqual(yield* stored(line, execution), [
        ["message", "a"],
        ["message#2", "b"],
        ["message#3", "c"]
      ])
      assert.strictEqual((yield* stored(line)).length, 2)
    })
  )

  law("values that arrived for a fork before it existed follow those of its source", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      yield* send(line, "a")
      yield* line.workflows.record(job, took("message", 1))
      yield* line.workflows.record(job, step("ship", { sequence: 2 }))
      const as = `${line.name}/fork`
      const early = (name: string, value: string, id?: string) =>
        line.workflows.signal({ execution: as, name, value, id })
      yield* early("message", "b", "id-b")
      yield* early("message", "c")
      yield* early("note", "d")
      yield* line.workflows.fork(order(line), "ship", { as })
      assert.strictEqual(yield* early("message", "b", "id-b"), "repeated")
      assert.deepStrictEqual(yield* stored(line, as), [
        ["message", "a"],
        ["message#2", "b"],
        ["message#3", "c"],
        ["note", "d"]
      ])
    })
  )

  law("early values of a signal are purged together, when all of them are old", (line) =>
    Effect.gen(function* () {
      for (const name of ["message", "note"]) {
        yield* send(line, "a", undefined, name)
        yield* send(line, "b", undefined, name)
      }
      yield* line.advance(Duration.days(5))
      yield* send(line, "c")
      yield* line.advance(Duration.days(4))
      yield* line.queue.purge(Duration.days(7))
      assert.strictEqual(yield* send(line, "d"), "appended")
      const job = yield* begin(line)
      assert.deepStrictEqual(yield* stored(line), [
        ["message", "a"],
        ["message#2", "b"],
        ["message#3", "c"],
        ["message#4", "d"]
      ])
      yield* end(line, job, done())
    })
  )

  law("a signal whose name ends like that of a step is not received by it", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      yield* send(line, 1)
      yield* line.workflows.record(job, step("other/message", { kind: "signal" }))
      assert.deepStrictEqual((yield* line.workflows.show(order(line))).unclaimed, ["message"])
      yield* line.workflows.record(job, step("undo:charge/message", { kind: "undo", sequence: 2 }))
      assert.deepStrictEqual((yield* line.workflows.show(order(line))).unclaimed, [])
    })
  )

  law("a signal that arrives after its wait has timed out is unclaimed, and a new journal keeps it", (line) =>
    Effect.gen(function* () {
      const timedOut = { exit: { timedOut: true } }
      const first = yield* begin(line)
      yield* suspend(line, first, [
        { kind: "signal", name: "message", dueAt: 1 },
        { kind: "signal", name: "note" }
      ])
      const job = yield* line.claimOne
      yield* line.workflows.record(job, step("message", { ...timedOut, kind: "signal" }))
      yield* line.workflows.record(job, step("undo:charge/note", { ...timedOut, kind: "undo", sequence: 2 }))
      yield* line.workflows.record(job, step("received", { kind: "signal", sequence: 3 }))
      for (const name of ["message", "message", "note", "received"]) yield* send(line, name, undefined, name)
      assert.deepStrictEqual((yield* line.workflows.show(order(line))).unclaimed.toSorted(), ["message", "note"])
      yield* end(line, job, continued())
      assert.deepStrictEqual(yield* stored(line), [
        ["message", "message"],
        ["message#2", "message"],
        ["note", "note"]
      ])
      const { waits } = yield* line.workflows.load(yield* line.claimOne)
      // The code of the new journal does not wait for them yet.
      assert.isTrue(waits.every(({ dueAt, waiting }) => dueAt === undefined && !waiting))
    })
  )

  law("a retry keeps the values, and the numbers go on", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      yield* send(line, "a")
      yield* send(line, "b")
      yield* line.workflows.record(job, step("message", { kind: "signal", outcome: "failed", exit: { error: {} } }))
      yield* end(line, job, ends.dead)
      yield* line.workflows.retry(order(line))
      // The value that the execution did not accept is discarded, the further one is kept.
      assert.deepStrictEqual(yield* stored(line), [["message#2", "b"]])
      assert.deepStrictEqual([yield* send(line, "again"), yield* send(line, "c")], ["completed", "appended"])
      assert.deepStrictEqual(yield* stored(line), [
        ["message", "again"],
        ["message#2", "b"],
        ["message#3", "c"]
      ])
    })
  )

  law("a wait after a retry has its whole timeout, also if the signal has further values", (line) =>
    Effect.gen(function* () {
      const { workflows } = line
      const hour = 3_600_000
      const waitAnHour = (job: ClaimedJob) =>
        Effect.flatMap(line.now, (now) => suspend(line, job, [{ kind: "signal", name: "message", dueAt: now + hour }]))
      /** Retries the execution, claims it, and asserts that it has no wait yet. */
      const retried = Effect.gen(function* () {
        yield* line.advance("3 hours")
        yield* workflows.retry(order(line))
        const job = yield* line.claimOne
        const { waits } = yield* workflows.load(job)
        const wait = waits.find(({ kind }) => kind === "signal")
        assert.deepStrictEqual(
          [wait?.dueAt, wait?.completedAt, wait?.waiting, (wait?.createdAt ?? 0) > (yield* line.now) - hour],
          [undefined, undefined, false, true]
        )
        return job
      })
      yield* waitAnHour(yield* begin(line))
      for (const value of ["invalid", "b"]) yield* send(line, value)
      const job = yield* line.claimOne
      yield* workflows.record(job, step("message", { kind: "signal", outcome: "failed", exit: { error: {} } }))
      yield* end(line, job, ends.dead)
      yield* waitAnHour(yield* retried)
      assert.deepStrictEqual(yield* line.claim(), [])
      // The execution fails while it waits.
      yield* workflows.wake(order(line))
      yield* end(line, yield* line.claimOne, ends.dead)
      yield* waitAnHour(yield* retried)
      assert.deepStrictEqual(yield* line.claim(), [])
    })
  )

  law("values are deleted with their execution", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      yield* send(line, "a")
      yield* send(line, "b")
      yield* end(line, job, ends.done)
      yield* line.jobAdmin.remove(job.id)
      yield* line.workflows.start(executionOf(line))
      assert.deepStrictEqual(yield* stored(line), [])
    })
  )

  law("the last value of each name that steps have set is shown, also that of an undo", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      const set = (name: string, value: unknown, sequence: number, kind: "set" | "undo" = "set") =>
        line.workflows.record(job, step(`${kind}:${name}#${sequence}`, { kind, sequence, exit: { value, set: name } }))
      assert.deepStrictEqual(yield* line.workflows.values(order(line)), {})
      yield* set("stage", "paid", 1)
      yield* set("items", [1], 2)
      yield* set("stage", "shipped", 3)
      assert.deepStrictEqual(yield* line.workflows.values(order(line)), { stage: "shipped", items: [1] })
      yield* set("stage", null, 4, "undo")
      assert.deepStrictEqual(yield* line.workflows.values(job.id), { stage: null, items: [1] })
      assert.deepStrictEqual((yield* line.workflows.show(order(line))).values, { stage: null, items: [1] })
      assert.strictEqual((yield* Effect.flip(line.workflows.values("nothing")))._tag, "ExecutionNotFound")
    })
  )
}
