import { assert } from "@effect/vitest"
import { Effect } from "effect"
import type { ClaimedJob } from "../../src/queue/Queue.js"
import type { Law, Line } from "./Line.js"
import { begin, done, end, step, suspend } from "./WorkflowLine.js"

/** Laws of steps that run: heartbeats and permits. */
export const runningStepLaws = (law: Law): void => {
  const beat = (name: string, details: unknown, attempt = 1) => ({
    name,
    attempt,
    startedAt: 1_000,
    timeoutAt: 61_000,
    details
  })

  law("the last heartbeat of a step is shown until the step ends, and loaded with the journal", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      yield* line.workflows.heartbeat(job, beat("import", { page: 1 }))
      yield* line.workflows.heartbeat(job, beat("import", { page: 2 }))
      const shown = yield* line.workflows.show(job.id)
      assert.deepStrictEqual(
        shown.heartbeats.map(({ at: _, ...rest }) => rest),
        [{ step: "import", attempt: 1, startedAt: 1_000, timeoutAt: 61_000, details: { page: 2 } }]
      )
      assert.deepStrictEqual([shown.deferreds, shown.waits], [[], []])
      yield* line.crash(job)
      const next = yield* line.claimOne
      const { waits } = yield* line.workflows.load(next)
      assert.deepStrictEqual(
        waits.map(({ exit, kind, name, waiting }) => [kind, name, exit, waiting]),
        [["heartbeat", "import", { attempt: 1, details: { page: 2 } }, false]]
      )
      yield* line.workflows.record(next, step("import"))
      assert.deepStrictEqual((yield* line.workflows.show(job.id)).heartbeats, [])
    })
  )

  law("a run that lost its lease stores no heartbeat", (line) =>
    Effect.gen(function* () {
      const zombie = yield* begin(line)
      yield* line.crash(zombie)
      const error = yield* Effect.flip(line.workflows.heartbeat(zombie, beat("import", 1)))
      assert.strictEqual(error._tag, "LeaseLost")
      assert.deepStrictEqual((yield* line.workflows.show(zombie.id)).heartbeats, [])
    })
  )

  const permitOf = (line: Line, job: ClaimedJob, most = 1, name = "call") => ({
    execution: job.execution?.id ?? "",
    scope: `${line.name}/call`,
    step: name,
    most
  })
  const take = (line: Line, job: ClaimedJob, most = 1, name = "call") =>
    Effect.map(line.workflows.takePermit(job, permitOf(line, job, most, name)), ({ granted }) => granted)
  const give = (line: Line, job: ClaimedJob) => line.workflows.returnPermit(job, permitOf(line, job))
  const wait = (line: Line, job: ClaimedJob) =>
    suspend(line, job, [{ kind: "limit", name: "call", dueAt: 9_999_999_999_999, limit: "concurrency of call" }])

  law("no more permits are taken than there are, and a step that asks twice has one", (line) =>
    Effect.gen(function* () {
      const [a, b, c] = [yield* begin(line, "a"), yield* begin(line, "b"), yield* begin(line, "c")]
      assert.deepStrictEqual([yield* take(line, a, 2), yield* take(line, a, 2)], [true, true])
      assert.deepStrictEqual([yield* take(line, b, 2), yield* take(line, c, 2)], [true, false])
      const other = { ...permitOf(line, c), scope: `${line.name}/other`, step: "other" }
      assert.strictEqual((yield* line.workflows.takePermit(c, other)).granted, true)
    })
  )

  law("a returned permit is kept for the step that waits longest, whose execution is woken", (line) =>
    Effect.gen(function* () {
      const [a, b, c] = [yield* begin(line, "a"), yield* begin(line, "b"), yield* begin(line, "c")]
      assert.strictEqual(yield* take(line, a), true)
      yield* line.advance("10 millis")
      assert.strictEqual(yield* take(line, b), false)
      yield* line.advance("10 millis")
      assert.strictEqual((yield* line.workflows.takePermit(c, permitOf(line, c))).place, 1)
      yield* wait(line, b)
      yield* wait(line, c)
      assert.deepStrictEqual(yield* line.claim(), [])
      yield* give(line, a)
      assert.strictEqual(yield* take(line, a), false)
      const next = yield* line.claimOne
      assert.strictEqual(next.execution?.id, b.execution?.id)
      assert.strictEqual(yield* take(line, next), true)
    })
  )

  law("a run that has lost its lease does not return the permit of the next run", (line) =>
    Effect.gen(function* () {
      const zombie = yield* begin(line, "a")
      assert.strictEqual(yield* take(line, zombie), true)
      yield* line.crash(zombie)
      const next = yield* line.claimOne
      const other = yield* begin(line, "b")
      assert.strictEqual(yield* take(line, next), true)
      yield* give(line, zombie)
      assert.strictEqual(yield* take(line, other), false)
      yield* give(line, next)
      assert.strictEqual(yield* take(line, other), true)
    })
  )

  law("a permit that is called and not taken is free after 30 seconds", (line) =>
    Effect.gen(function* () {
      const [a, b] = [yield* begin(line, "a"), yield* begin(line, "b")]
      yield* take(line, a)
      yield* line.advance("10 millis")
      yield* take(line, b)
      yield* wait(line, b)
      yield* give(line, a)
      assert.strictEqual(yield* take(line, a), false)
      yield* line.advance("31 seconds")
      assert.strictEqual(yield* take(line, a), true)
    })
  )

  law("a step that is late for its call and was not replaced still has its turn", (line) =>
    Effect.gen(function* () {
      const [a, b, c] = [yield* begin(line, "a"), yield* begin(line, "b"), yield* begin(line, "c")]
      for (const job of [a, b, c]) {
        yield* take(line, job)
        yield* line.advance("10 millis")
      }
      yield* give(line, a)
      yield* line.advance("31 seconds")
      assert.strictEqual(yield* take(line, b), true)
      assert.strictEqual(yield* take(line, c), false)
    })
  )

  law("a permit ends with the lease of its run", (line) =>
    Effect.gen(function* () {
      const [a, b] = [yield* begin(line, "a"), yield* begin(line, "b")]
      assert.deepStrictEqual([yield* take(line, a), yield* take(line, b)], [true, false])
      yield* end(line, a, done())
      assert.strictEqual(yield* take(line, b), true)
      yield* line.crash(b)
      const again = yield* line.claimOne
      assert.strictEqual(yield* take(line, again), true)
    })
  )

  law("an execution that has ended is not called", (line) =>
    Effect.gen(function* () {
      const [a, b, c] = [yield* begin(line, "a"), yield* begin(line, "b"), yield* begin(line, "c")]
      yield* take(line, a)
      for (const job of [b, c]) {
        yield* line.advance("10 millis")
        yield* take(line, job)
      }
      yield* end(line, b, done())
      yield* wait(line, c)
      yield* give(line, a)
      assert.strictEqual((yield* line.claimOne).execution?.id, c.execution?.id)
    })
  )

  law("a wait for a limit names the limit, and is due at its last due time", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      const now = yield* line.now
      yield* suspend(line, job, [{ kind: "limit", name: "send", dueAt: now + 1_000, limit: "mailer" }])
      yield* line.advance("2 seconds")
      const again = yield* line.claimOne
      yield* suspend(line, again, [{ kind: "limit", name: "send", dueAt: now + 60_000, limit: "mailer" }])
      const { state, waits } = yield* line.workflows.show(job.id)
      assert.deepStrictEqual(
        [state, ...waits.map(({ dueAt, exit, kind, name }) => [kind, name, exit, (dueAt ?? 0) - now])],
        ["waiting", ["limit", "send", "mailer", 60_000]]
      )
    })
  )
}
