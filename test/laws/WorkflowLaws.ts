import { assert } from "@effect/vitest"
import { Duration, Effect, Either } from "effect"
import { never } from "../../src/core/Suspension.js"
import { QueueFull } from "../../src/queue/JobErrors.js"
import { ends, type Law } from "./Line.js"
import { begin, done, end, executionOf, step, suspend } from "./WorkflowLine.js"

const signal = { kind: "signal", name: "approval" } as const

/** Laws of workflow executions: journal, suspension, wake-ups. */
export const workflowLaws = (law: Law): void => {
  law("an execution is started once while it is retained", (line) =>
    Effect.gen(function* () {
      const first = yield* line.workflows.start(executionOf(line))
      const again = yield* line.workflows.start(executionOf(line))
      assert.deepStrictEqual([first.outcome, again.outcome, again.id], ["enqueued", "deduplicated", first.id])
      const job = yield* line.claimOne
      assert.deepStrictEqual(
        [job.execution?.id, job.execution?.woken, job.execution?.cancelled, job.linked],
        [`${line.name}/order`, 0, false, true]
      )
      yield* end(line, job, done({ ok: true }))
      assert.strictEqual((yield* line.workflows.start(executionOf(line))).outcome, "deduplicated")
    })
  )

  law("a plain job is not an execution", (line) =>
    Effect.gen(function* () {
      const job = yield* line.run()
      assert.deepStrictEqual([job.execution, job.linked], [undefined, false])
      assert.strictEqual((yield* line.search.get(job.id)).execution, undefined)
    })
  )

  law("a step is recorded once: the second record returns the first", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      const first = yield* line.workflows.record(job, step("charge"))
      const second = yield* line.workflows.record(job, step("charge", { exit: { value: "other" } }))
      assert.deepStrictEqual([first.exit, second.exit], [{ value: "charge" }, { value: "charge" }])
      const { steps } = yield* line.workflows.load(job)
      assert.deepStrictEqual(
        steps.map(({ exit, name, outcome }) => [name, outcome, exit]),
        [["charge", "done", { value: "charge" }]]
      )
    })
  )

  law("a run that lost its lease records nothing", (line) =>
    Effect.gen(function* () {
      const zombie = yield* begin(line)
      yield* line.crash(zombie)
      const job = yield* line.claimOne
      const late = yield* Effect.either(line.workflows.record(zombie, step("charge")))
      assert.strictEqual(Either.isLeft(late) && late.left._tag, "LeaseLost")
      assert.strictEqual((yield* Effect.flip(line.workflows.load(zombie)))._tag, "LeaseLost")
      assert.deepStrictEqual((yield* line.workflows.load(job)).steps, [])
    })
  )

  law("a result of more than 64 KiB is refused with the limit", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      const error = yield* Effect.flip(
        line.workflows.record(job, step("report", { exit: { value: "x".repeat(70_000) } }))
      )
      assert.strictEqual(error._tag, "InvalidStep")
      assert.match(error.message, /"report" is invalid: its value must be at most 65536 bytes as JSON/)
      assert.deepStrictEqual((yield* line.workflows.load(job)).steps, [])
    })
  )

  law("a signal whose name is longer than 256 characters is refused", (line) =>
    Effect.gen(function* () {
      const send = (name: string) => line.workflows.signal({ execution: `${line.name}/order`, name, value: 1 })
      const error = yield* Effect.flip(send("n".repeat(257)))
      assert.strictEqual(error._tag, "InvalidStep")
      assert.include(error.message, "256")
      assert.strictEqual(yield* send("n".repeat(256)), "completed")
    })
  )

  law("the payload of an execution can be edited until its first run", (line) =>
    Effect.gen(function* () {
      const { id } = yield* line.workflows.start(executionOf(line, "order"))
      yield* line.jobAdmin.edit(id, { payload: { id: "other" } })
      const job = yield* line.claimOne
      assert.deepStrictEqual(job.payload, { id: "other" })
      yield* suspend(line, job, [signal])
      const error = yield* Effect.flip(line.jobAdmin.edit(id, { payload: { id: "third" }, priority: 2 }))
      assert.deepInclude(error, { _tag: "InvalidJob", field: "payload" })
      assert.deepInclude(yield* line.jobAdmin.edit(id, { priority: 3 }), { priority: 3, payload: { id: "other" } })
    })
  )

  law("a suspension returns the attempt, adds no history and waits until its earliest due time", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      const now = yield* line.now
      const lost = yield* suspend(line, job, [
        { kind: "sleep", name: "cool off", dueAt: now + 60_000 },
        { kind: "signal", name: "approval", dueAt: now + 3_600_000 }
      ])
      assert.deepStrictEqual(lost, [])
      const stored = yield* line.search.get(job.id)
      assert.deepStrictEqual(
        [stored.state, stored.attempt, stored.history.length, stored.runAt - now, stored.startedAt],
        ["scheduled", 0, 0, 60_000, undefined]
      )
      assert.deepStrictEqual(yield* line.claim(), [])
      yield* line.advance("1 minute")
      assert.strictEqual((yield* line.claimOne).execution?.woken, 1)
    })
  )

  law("what a suspended execution waits for is part of its standing", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      const dueAt = (yield* line.now) + 60_000
      yield* suspend(line, job, [signal, { kind: "sleep", name: "nap", dueAt }])
      const { waits } = yield* line.standing.of(job.id)
      assert.deepStrictEqual(waits, [
        { kind: "sleep", name: "nap", dueAt, remaining: undefined },
        { ...signal, dueAt: undefined, remaining: undefined }
      ])
    })
  )

  law("each retry of a step has its own due time, which a wake-up does not change", (line) =>
    Effect.gen(function* () {
      const execution = `${line.name}/order`
      const start = yield* line.now
      const retryAt = (millis: number) => ({ kind: "retry", name: "charge", dueAt: start + millis }) as const
      const shown = Effect.map(line.workflows.show(execution), ({ waits }) =>
        waits.map(({ createdAt, dueAt }) => ({ createdAt, dueAt }))
      )
      yield* suspend(line, yield* begin(line), [retryAt(60_000)])
      const first = yield* shown
      yield* line.advance("30 seconds")
      yield* line.workflows.wake(execution)
      yield* suspend(line, yield* line.claimOne, [retryAt(60_000)])
      assert.deepStrictEqual(yield* shown, first)
      yield* line.advance("30 seconds")
      yield* suspend(line, yield* line.claimOne, [retryAt(300_000)])
      const [second] = yield* shown
      assert.strictEqual(second?.dueAt, start + 300_000)
      assert.isAtLeast(second?.createdAt ?? 0, start + 60_000)
    })
  )

  law("a suspension that got less far keeps what the execution waited for, and a retry does not", (line) =>
    Effect.gen(function* () {
      const waiting = Effect.map(line.workflows.show(`${line.name}/order`), ({ deferreds }) =>
        deferreds.filter((each) => each.waiting).map(({ kind }) => kind)
      )
      yield* suspend(line, yield* begin(line), [signal])
      yield* line.workflows.signal({ execution: `${line.name}/order`, name: "approval", value: 1 })
      const changed = { kind: "changed", name: "charge", dueAt: (yield* line.now) + 60_000 } as const
      yield* suspend(line, yield* line.claimOne, [changed])
      assert.deepStrictEqual((yield* waiting).toSorted(), ["changed", "signal"])
      yield* line.advance("1 minute")
      yield* suspend(line, yield* line.claimOne, [])
      assert.deepStrictEqual((yield* waiting).toSorted(), ["changed", "signal"])
      yield* line.workflows.wake(`${line.name}/order`)
      yield* suspend(line, yield* line.claimOne, [{ kind: "signal", name: "second" }])
      assert.deepStrictEqual(yield* waiting, ["signal"])
      yield* line.workflows.cancel(`${line.name}/order`, { now: true })
      yield* line.workflows.retry(`${line.name}/order`)
      assert.deepStrictEqual(yield* waiting, [])
    })
  )

  law("a suspension without a due time waits until it is woken", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      yield* suspend(line, job, [signal])
      assert.strictEqual((yield* line.search.get(job.id)).runAt, never)
      yield* line.advance(Duration.days(400))
      assert.deepStrictEqual(yield* line.claim(), [])
      assert.strictEqual(
        yield* line.workflows.signal({ execution: `${line.name}/order`, name: "approval", value: 1 }),
        "completed"
      )
      const { waits } = yield* line.workflows.load(yield* line.claimOne)
      assert.deepStrictEqual(
        waits.map(({ completedAt, exit, name }) => [name, exit, completedAt !== undefined]),
        [["approval", 1, true]]
      )
    })
  )

  law("a signal before the start is kept, and the first suspension on it is due at once", (line) =>
    Effect.gen(function* () {
      const execution = `${line.name}/order`
      yield* line.workflows.signal({ execution, name: "approval", value: "early" })
      const job = yield* begin(line)
      assert.strictEqual(job.execution?.woken, 0)
      yield* suspend(line, job, [signal])
      assert.strictEqual((yield* line.claimOne).id, job.id)
    })
  )

  law("a signal during a run makes the next suspension due at once", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      const execution = `${line.name}/order`
      yield* line.workflows.signal({ execution, name: "other", value: null })
      yield* suspend(line, job, [signal])
      const again = yield* line.claimOne
      // This run has seen the wake-up: it sleeps.
      yield* suspend(line, again, [signal])
      assert.deepStrictEqual(yield* line.claim(), [])
    })
  )

  law("the first value of a signal is kept", (line) =>
    Effect.gen(function* () {
      const execution = `${line.name}/order`
      const job = yield* begin(line)
      yield* suspend(line, job, [signal])
      const answers = [
        yield* line.workflows.signal({ execution, name: "approval", value: 1 }),
        yield* line.workflows.signal({ execution, name: "approval", value: 2 })
      ]
      assert.deepStrictEqual(answers, ["completed", "appended"])
      const { waits } = yield* line.workflows.load(yield* line.claimOne)
      assert.deepStrictEqual(
        waits.map(({ exit, kind, name }) => [kind, name, exit]),
        [
          ["signal", "approval", 1],
          ["value", "approval#2", 2]
        ]
      )
    })
  )

  law("a signal does not start a scheduled execution early", (line) =>
    Effect.gen(function* () {
      const now = yield* line.now
      yield* line.workflows.start(executionOf(line, "order", { runAt: now + 3_600_000 }))
      for (const value of [1, 2]) yield* line.workflows.signal({ execution: `${line.name}/order`, name: "a", value })
      assert.deepStrictEqual(yield* line.claim(), [])
      assert.strictEqual((yield* line.workflows.show(`${line.name}/order`)).state, "scheduled")
    })
  )

  law("a suspension by a run that lost its lease changes nothing", (line) =>
    Effect.gen(function* () {
      const zombie = yield* begin(line)
      yield* line.crash(zombie)
      const lost = yield* suspend(line, zombie, [{ kind: "sleep", name: "late", dueAt: (yield* line.now) + 1000 }])
      assert.deepStrictEqual(lost, [zombie.id])
      assert.deepStrictEqual((yield* line.workflows.show(`${line.name}/order`)).deferreds, [])
    })
  )

  law("a finished execution waits for nothing, even if it ended before its last wait was over", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      yield* suspend(line, job, [{ kind: "sleep", name: "cool off", dueAt: (yield* line.now) + 60_000 }])
      const shown = Effect.map(line.workflows.show(`${line.name}/order`), ({ deferreds }) =>
        deferreds.map(({ name, waiting }) => [name, waiting])
      )
      assert.deepStrictEqual(yield* shown, [["cool off", true]])
      yield* line.workflows.signal({ execution: `${line.name}/order`, name: "approved", value: 1 })
      yield* line.advance("2 minutes")
      yield* end(line, yield* line.claimOne, ends.done)
      assert.deepStrictEqual((yield* shown).toSorted(), [
        ["approved", false],
        ["cool off", false]
      ])
    })
  )

  law("executions are listed newest first, by workflow, state and prefix of their id", (line) =>
    Effect.gen(function* () {
      const prefix = `${line.name}/`
      const a = yield* begin(line, "a")
      yield* suspend(line, a, [{ kind: "sleep", name: "nap", dueAt: (yield* line.now) + 3_600_000 }])
      const b = yield* begin(line, "b")
      yield* suspend(line, b, [signal])
      const c = yield* begin(line, "c", { kind: "invoice" })
      const names = (filter: object, limit = 10, before?: string) =>
        Effect.map(line.workflows.list({ prefix, ...filter }, { limit, before }), ({ executions }) =>
          executions.map(({ execution, state }) => `${execution.slice(prefix.length)} ${state}`)
        )
      assert.deepStrictEqual(yield* names({}), ["c running", "b waiting", "a sleeping"])
      assert.deepStrictEqual(yield* names({ workflow: "invoice" }), ["c running"])
      assert.deepStrictEqual(yield* names({ state: "waiting" }), ["b waiting"])
      assert.deepStrictEqual(yield* names({ state: "sleeping" }), ["a sleeping"])
      assert.strictEqual(yield* line.workflows.count({ prefix }), 3)
      assert.strictEqual(yield* line.workflows.count({ prefix, workflow: "invoice" }), 1)
      assert.strictEqual(yield* line.workflows.count({ prefix, state: "waiting" }), 1)
      assert.strictEqual(yield* line.workflows.count({ prefix, state: "failed" }), 0)
      const page = yield* line.workflows.list({ prefix }, { limit: 1 })
      assert.deepStrictEqual([page.executions[0]?.id, page.next], [c.id, c.id])
      assert.deepStrictEqual(yield* names({}, 10, page.next), ["b waiting", "a sleeping"])
      const bad = yield* Effect.flip(line.workflows.list({ prefix }, { limit: 1, before: "c" }))
      assert.strictEqual(bad._tag, "BadCursor")
    })
  )

  law("suspended executions are counted by what they wait for, until they are due", (line) =>
    Effect.gen(function* () {
      const before = yield* line.workflows.suspended
      const added = Effect.map(line.workflows.suspended, ({ changed, sleeping, waiting }) => [
        sleeping - before.sleeping,
        waiting - before.waiting,
        changed - before.changed
      ])
      const later = (yield* line.now) + 3_600_000
      const nap = { kind: "sleep", name: "nap", dueAt: later } as const
      yield* suspend(line, yield* begin(line, "a"), [nap])
      yield* suspend(line, yield* begin(line, "b"), [nap, { ...signal, dueAt: later }])
      yield* suspend(line, yield* begin(line, "c"), [{ kind: "children", name: "ship" }])
      yield* suspend(line, yield* begin(line, "d"), [{ kind: "changed", name: "charge", dueAt: later }])
      // Neither scheduled jobs and executions nor running ones are suspended.
      yield* line.queue.enqueue([line.job({ runAt: later })])
      yield* line.workflows.start(executionOf(line, "e", { runAt: later }))
      yield* begin(line, "f")
      assert.deepStrictEqual(yield* added, [1, 2, 1])
      yield* line.workflows.signal({ execution: `${line.name}/b`, name: "approval", value: null })
      assert.deepStrictEqual(yield* added, [1, 1, 1])
    })
  )

  law("an execution is shown with its steps and waits, by its id or its job's", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      yield* line.workflows.record(job, step("charge"))
      yield* suspend(line, job, [signal])
      for (const id of [`${line.name}/order`, job.id]) {
        const shown = yield* line.workflows.show(id)
        assert.deepStrictEqual(
          [shown.execution, shown.workflow, shown.state, shown.dueAt, shown.steps.length, shown.waits[0]?.name],
          [`${line.name}/order`, "order", "waiting", undefined, 1, "approval"]
        )
      }
      const error = yield* Effect.flip(line.workflows.show(`${line.name}/nothing`))
      assert.strictEqual(error._tag, "ExecutionNotFound")
    })
  )

  law("retention deletes the journal with the job, and early signals that were never used", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      yield* line.workflows.record(job, step("charge"))
      yield* line.workflows.signal({ execution: `${line.name}/order`, name: "approval", value: 1 })
      yield* line.workflows.signal({ execution: `${line.name}/never`, name: "approval", value: 1 })
      yield* end(line, job, done())
      yield* line.advance(Duration.days(10))
      yield* line.queue.purge(Duration.days(7))
      // A new execution under the same ids sees nothing of the old one.
      for (const name of ["order", "never"]) {
        const fresh = yield* begin(line, name)
        const { steps, waits } = yield* line.workflows.load(fresh)
        assert.deepStrictEqual([steps, waits], [[], []])
        yield* end(line, fresh, done())
      }
    })
  )

  law("sleeping executions do not count for the depth cap", (line) =>
    Effect.gen(function* () {
      yield* line.queues.declare([line.name])
      yield* line.queues.change(line.name, { depthCap: 1 })
      const job = yield* begin(line)
      yield* suspend(line, job, [signal])
      yield* line.advance("6 seconds")
      yield* line.put()
      const full = yield* Effect.flip(line.queue.enqueue([line.job()]))
      assert.instanceOf(full, QueueFull)
    })
  )

  law("a sleeping execution does not hold back jobs of its key in strict order", (line) =>
    Effect.gen(function* () {
      yield* line.queues.declare([line.name])
      yield* line.queues.change(line.name, { perKey: { concurrency: 1, order: "strict" } })
      const job = yield* begin(line, "order", { key: "ada" })
      yield* suspend(line, job, [signal])
      const later = yield* line.run({ key: "ada" })
      yield* line.end(later, ends.done)
      yield* line.workflows.signal({ execution: `${line.name}/order`, name: "approval", value: 1 })
      assert.strictEqual((yield* line.claimOne).id, job.id)
    })
  )
}
