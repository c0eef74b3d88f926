import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { isWaiting } from "../../src/core/StoredJob.js"
import { ends, type Law } from "./Line.js"
import { begin, end, step, suspend } from "./WorkflowLine.js"

const signal = { kind: "signal", name: "approval" } as const

/** Cancel, retry and fork of executions. */
export const workflowActionLaws = (law: Law): void => {
  law("a cancelled execution is claimed again to undo its steps, and then dies", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      yield* suspend(line, job, [signal])
      const { cancelled } = yield* line.workflows.cancel(`${line.name}/order`)
      assert.strictEqual(cancelled, 1)
      assert.strictEqual((yield* line.workflows.show(`${line.name}/order`)).state, "cancelling")
      const undoing = yield* line.claimOne
      assert.strictEqual(undoing.execution?.cancelled, true)
      // A wait inside an undo does not end it.
      yield* suspend(line, undoing, [{ kind: "sleep", name: "undo wait", dueAt: (yield* line.now) + 60_000 }])
      yield* line.advance("1 minute")
      const last = yield* line.claimOne
      yield* end(line, last, ends.cancelled)
      assert.strictEqual((yield* line.workflows.show(`${line.name}/order`)).state, "cancelled")
      assert.strictEqual((yield* line.workflows.cancel(`${line.name}/order`)).cancelled, 0)
    })
  )

  law("an execution that is done cannot be cancelled", (line) =>
    Effect.gen(function* () {
      yield* end(line, yield* begin(line), ends.done)
      const error = yield* Effect.flip(line.workflows.cancel(`${line.name}/order`))
      assert.strictEqual(error._tag, "JobNotInState")
      assert.strictEqual((yield* line.workflows.cancel(`${line.name}/order`, { now: true })).cancelled, 0)
    })
  )

  law("a crash does not end a cancelled execution before it has undone its steps", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      yield* line.workflows.cancel(`${line.name}/order`)
      assert.isTrue(isWaiting((yield* line.crash(job)).state))
      assert.strictEqual((yield* line.claimOne).execution?.cancelled, true)
    })
  )

  law("cancel now ends a running execution at once, and its pod loses the lease", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      const { job: dead } = yield* line.workflows.cancel(`${line.name}/order`, { now: true })
      assert.deepStrictEqual([dead.state, dead.reason], ["cancelled", "cancelled"])
      assert.match(dead.lastError ?? "", /without undoing/)
      assert.strictEqual((yield* Effect.flip(line.workflows.record(job, step("late"))))._tag, "LeaseLost")
    })
  )

  law("a retry reopens failed and undone steps in their place, deletes undos and keeps the others", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      yield* line.workflows.record(job, step("reserve", { sequence: 1 }))
      yield* line.workflows.record(job, step("charge", { sequence: 2 }))
      yield* line.workflows.record(job, step("wrap", { sequence: 3, outcome: "retrying", retryAt: 9 }))
      yield* line.workflows.record(job, step("wrap", { sequence: 4, attempt: 2 }))
      yield* line.workflows.record(job, step("ship", { sequence: 5, outcome: "failed" }))
      yield* line.workflows.record(job, step("print", { sequence: 6, outcome: "retrying", retryAt: 9 }))
      yield* line.workflows.record(job, step("undo:charge", { sequence: 7, kind: "undo" }))
      yield* line.workflows.record(job, step("undo:reserve", { sequence: 8, kind: "undo", outcome: "failed" }))
      yield* end(line, job, ends.dead)
      assert.strictEqual((yield* line.workflows.show(`${line.name}/order`)).state, "failed")
      const at = yield* line.now
      yield* line.workflows.retry(`${line.name}/order`)
      const again = yield* line.claimOne
      assert.notStrictEqual(again.execution?.woken, 0)
      const rows = Effect.map(line.workflows.load(again), ({ steps }) =>
        steps.map(({ attempt, name, outcome, reopenedAt }) => [name, attempt, outcome, reopenedAt])
      )
      assert.deepStrictEqual(yield* rows, [
        ["reserve", 1, "done", undefined],
        ["charge", 1, "done", at],
        ["wrap", 1, "retrying", undefined],
        ["wrap", 2, "done", undefined],
        ["ship", 1, "failed", at]
      ])
      yield* line.workflows.record(again, step("ship", { sequence: 5, attempt: 2, outcome: "failed" }))
      yield* end(line, again, ends.dead)
      yield* line.advance("1 minute")
      const second = yield* line.now
      yield* line.jobAdmin.requeue(again.id)
      const { steps } = yield* line.workflows.load(yield* line.claimOne)
      assert.deepStrictEqual(
        steps.filter(({ name }) => name === "ship").map(({ attempt, reopenedAt }) => [attempt, reopenedAt]),
        [
          [1, at],
          [2, second]
        ]
      )
    })
  )

  law("a retry waits again for a signal whose value was invalid, and keeps the others", (line) =>
    Effect.gen(function* () {
      const execution = `${line.name}/order`
      const job = yield* begin(line)
      for (const name of ["approved", "paid"]) yield* line.workflows.signal({ execution, name, value: 1 })
      yield* line.workflows.record(job, step("paid", { sequence: 1, kind: "signal" }))
      yield* line.workflows.record(job, step("approved", { sequence: 2, kind: "signal", outcome: "failed" }))
      yield* end(line, job, ends.dead)
      yield* line.workflows.retry(execution)
      const again = yield* line.claimOne
      const signals = (run: typeof again) =>
        Effect.map(line.workflows.load(run), ({ waits }) => waits.map(({ exit, name }) => [name, exit]))
      assert.deepStrictEqual(yield* signals(again), [["paid", 1]])
      assert.strictEqual(yield* line.workflows.signal({ execution, name: "approved", value: 2 }), "completed")
      yield* line.workflows.record(again, step("approved", { sequence: 2, attempt: 2, kind: "signal" }))
      yield* end(line, again, ends.dead)
      yield* line.jobAdmin.requeue(again.id)
      const kept = (yield* signals(yield* line.claimOne)).toSorted()
      assert.deepStrictEqual(kept, [
        ["approved", 2],
        ["paid", 1]
      ])
    })
  )

  law("a fork copies the payload and the journal before a step", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      yield* line.workflows.record(job, step("reserve", { sequence: 1 }))
      yield* line.workflows.record(job, step("charge", { sequence: 2 }))
      yield* end(line, job, ends.dead)
      const fork = yield* line.workflows.fork(`${line.name}/order`, "charge")
      const copy = yield* line.claimOne
      assert.deepStrictEqual([copy.id, copy.execution?.id, copy.payload], [fork.id, fork.execution, { id: "order" }])
      assert.deepStrictEqual(
        (yield* line.workflows.load(copy)).steps.map(({ name }) => name),
        ["reserve"]
      )
      const unknown = yield* Effect.flip(line.workflows.fork(`${line.name}/order`, "nothing"))
      assert.match(unknown.message, /has no step "nothing". Its steps: reserve, charge\./)
    })
  )
}
