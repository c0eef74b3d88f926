import { assert, expect } from "@effect/vitest"
import { Effect } from "effect"
import { isWaiting } from "../../src/core/StoredJob.js"
import { End } from "../../src/queue/AttemptEnd.js"
import type { ClaimedJob } from "../../src/queue/Queue.js"
import { ends, type Law, type Line } from "./Line.js"
import { claimNow, throttled, untilOf } from "./PauseLaws.js"
import { begin, end, executionOf, step, suspend } from "./WorkflowLine.js"

/** Lets the pod of an execution end until it has crashed this often. */
const crashes = (line: Line, first: ClaimedJob, times: number) =>
  Effect.gen(function* () {
    let stored = yield* line.crash(first)
    for (let more = 1; more < times; more += 1) stored = yield* line.crash(yield* line.claimOne)
    return stored
  })

/** How executions die: not before their steps are undone, or with the names of those that are not. */
export const workflowEndLaws = (law: Law): void => {
  law("crashes and attempts of an execution are counted from its last recorded step", (line) =>
    Effect.gen(function* () {
      let job = yield* begin(line)
      for (let times = 1; times <= 7; times += 1) {
        yield* line.workflows.record(job, step(`step ${times}`, { sequence: times }))
        const stored = yield* line.crash(job)
        assert.deepStrictEqual([isWaiting(stored.state), stored.crashCount, stored.attempt], [true, 1, 0])
        job = yield* line.claimOne
      }
      yield* end(line, job, End.Again({ runAt: 0, counted: true, error: "timed out", remember: "failed" }))
      job = yield* line.claimOne
      assert.strictEqual(job.attempt, 2)
      yield* line.workflows.record(job, step("last", { sequence: 8 }))
      yield* end(line, job, End.Again({ runAt: 0, counted: true, error: "timed out", remember: "failed" }))
      assert.deepStrictEqual([(yield* line.claimOne).attempt], [2])
    })
  )

  law("a claim reports whether a run was cut off, until a later one has caught up", (line) =>
    Effect.gen(function* () {
      const first = yield* begin(line)
      assert.strictEqual(first.execution?.cut, false)
      yield* end(line, first, ends.release(0))
      const returned = yield* line.claimOne
      assert.strictEqual(returned.execution?.cut, false)
      yield* line.crash(returned)
      const crashed = yield* line.claimOne
      assert.strictEqual(crashed.execution?.cut, true)
      yield* end(line, crashed, ends.release(0))
      const kept = yield* line.claimOne
      assert.strictEqual(kept.execution?.cut, true)
      yield* suspend(line, kept, [{ kind: "sleep", name: "nap", dueAt: 0 }])
      const behind = yield* line.claimOne
      assert.strictEqual(behind.execution?.cut, true)
      const waits = [{ kind: "sleep", name: "nap", dueAt: 0 }] as const
      yield* end(line, behind, End.Suspended({ woken: 0, runAt: 0, waits, error: undefined, caughtUp: true }))
      const suspended = yield* line.claimOne
      assert.strictEqual(suspended.execution?.cut, false)
      yield* end(line, suspended, ends.again(0))
      assert.strictEqual((yield* line.claimOne).execution?.cut, true)
    })
  )

  law("a claim reports the release that last suspended the execution, until that finds its code changed", (line) =>
    Effect.gen(function* () {
      let job = yield* begin(line)
      const claimAfter = (release: string | undefined, kind: "sleep" | "changed") =>
        Effect.gen(function* () {
          const waits = [{ kind, name: "nap", dueAt: 0 }] as const
          yield* end(line, job, End.Suspended({ woken: 0, runAt: 0, waits, error: undefined, release }))
          job = yield* line.claimOne
          return job.execution?.release
        })
      assert.strictEqual(job.execution?.release, undefined)
      assert.strictEqual(yield* claimAfter("new", "sleep"), "new")
      assert.strictEqual(yield* claimAfter("old", "changed"), "new")
      assert.strictEqual(yield* claimAfter(undefined, "changed"), "new")
      assert.strictEqual(yield* claimAfter("new", "changed"), undefined)
      assert.strictEqual(yield* claimAfter("old", "sleep"), "old")
    })
  )

  law("an execution at the limit of crashes runs again to undo its steps, and is then dead as poison", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      yield* line.workflows.record(job, step("charge"))
      const stored = yield* crashes(line, job, 5)
      assert.deepStrictEqual([isWaiting(stored.state), stored.crashCount], [true, 0])
      const dying = yield* line.workflows.show(`${line.name}/order`)
      assert.deepStrictEqual([dying.state, dying.reason], ["undoing", "poison"])
      const undoing = yield* line.claimOne
      assert.strictEqual(undoing.execution?.cancelled, true)
      // An undo that waits does not forget why the execution died.
      yield* suspend(line, undoing, [{ kind: "sleep", name: "undo wait", dueAt: (yield* line.now) + 60_000 }])
      assert.strictEqual((yield* line.workflows.show(`${line.name}/order`)).state, "undoing")
      yield* line.advance("1 minute")
      const last = yield* line.claimOne
      assert.strictEqual((yield* line.workflows.load(last)).cancelled, true)
      yield* line.workflows.record(last, step("undo:charge", { sequence: 2, kind: "undo" }))
      yield* end(line, last, ends.cancelled)
      const { reason, lastError, state } = yield* line.workflows.show(`${line.name}/order`)
      assert.deepStrictEqual([state, reason], ["failed", "poison"])
      assert.match(lastError ?? "", /crash 5 of 5/)
    })
  )

  law("an execution whose undo reaches the limit of crashes is dead as not undone, and names its steps", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      yield* line.workflows.record(job, step("reserve"))
      yield* line.workflows.record(job, step("charge", { sequence: 2 }))
      yield* line.workflows.record(job, step("print", { sequence: 3 }))
      yield* crashes(line, job, 5)
      const undoing = yield* line.claimOne
      yield* line.workflows.record(undoing, step("undo:print", { sequence: 4, kind: "undo" }))
      const stored = yield* crashes(line, undoing, 5)
      assert.deepStrictEqual([stored.state, stored.reason], ["dead", "not_undone"])
      assert.match(stored.lastError ?? "", /crash 5 of 5\); not undone: charge, reserve$/)
      assert.strictEqual((yield* line.workflows.show(`${line.name}/order`)).state, "failed")
    })
  )

  law("a cancelled execution whose undo reaches the limit of crashes is dead as not undone", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      yield* line.workflows.record(job, step("charge"))
      yield* line.workflows.cancel(`${line.name}/order`)
      const stored = yield* crashes(line, job, 5)
      assert.deepStrictEqual([stored.state, stored.reason], ["dead", "not_undone"])
      assert.match(stored.lastError ?? "", /not undone: charge$/)
    })
  )

  law("an execution without attempts left undoes its steps with new attempts, and is then dead as exhausted", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      yield* line.workflows.record(job, step("charge"))
      const dying = { runAt: 0, counted: true, error: "timed out", remember: "exhausted", dying: "exhausted" } as const
      yield* end(line, job, End.Again(dying))
      assert.strictEqual((yield* line.workflows.show(`${line.name}/order`)).state, "undoing")
      assert.lengthOf(
        (yield* line.workflows.list({ prefix: `${line.name}/`, state: "undoing" }, { limit: 9 })).executions,
        1
      )
      const undoing = yield* line.claimOne
      assert.deepStrictEqual([undoing.attempt, undoing.execution?.cancelled], [1, true])
      yield* end(line, undoing, ends.cancelled)
      const { reason, lastError, state } = yield* line.workflows.show(`${line.name}/order`)
      assert.deepStrictEqual([state, reason, lastError], ["failed", "exhausted", "timed out"])
      // A retry starts from a clean state.
      const again = yield* line.workflows.retry(`${line.name}/order`)
      assert.deepStrictEqual([isWaiting(again.state), again.reason], [true, undefined])
      assert.strictEqual((yield* line.claimOne).execution?.cancelled, false)
    })
  )

  law("an undo that failed ends a cancelled execution as not undone", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      yield* line.workflows.record(job, step("charge"))
      yield* line.workflows.cancel(`${line.name}/order`)
      yield* line.workflows.record(job, step("undo:charge", { sequence: 2, kind: "undo", outcome: "failed" }))
      yield* end(line, job, End.Dead({ reason: "not_undone", counted: true, error: "undo of charge failed: no bank" }))
      const { reason, lastError, state } = yield* line.workflows.show(`${line.name}/order`)
      assert.deepStrictEqual([state, reason], ["failed", "not_undone"])
      assert.strictEqual(lastError, "undo of charge failed: no bank; not undone: charge")
    })
  )

  law("an execution, and a job whose end an execution counts, cool their queue or their key down too", (line) =>
    Effect.gen(function* () {
      yield* line.queues.declare([line.name])
      const parent = yield* begin(line, "parent", { key: "a" })
      yield* line.workflows.startChildren(parent, "calls", [executionOf(line, "child"), line.job({ payload: "call" })])
      const [child, call] = yield* line.claim()
      if (!child || !call) return yield* Effect.dieMessage("two were stored")
      const now = yield* line.now
      yield* end(line, call, throttled("1 minute", now))
      expect(yield* untilOf(line)).toBe(now + 60_000)
      yield* end(line, child, throttled("2 minutes", now))
      expect(yield* untilOf(line)).toBe(now + 120_000)
      yield* end(line, parent, throttled("3 minutes", now, "key"))
      yield* line.advance("2 minutes")
      expect((yield* claimNow(line)).map(({ id }) => id).sort()).toEqual([child.id, call.id].sort())
      yield* line.advance("1 minute")
      expect((yield* claimNow(line)).map(({ id }) => id)).toEqual([parent.id])
    })
  )
}
