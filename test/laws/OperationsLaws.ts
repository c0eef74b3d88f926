import { expect } from "@effect/vitest"
import { Duration, Effect, Option } from "effect"
import type { JobId } from "../../src/core/Ids.js"
import { End } from "../../src/queue/AttemptEnd.js"
import type { Action, Operation } from "../../src/queue/admin/Operations.js"
import type { JobFilter } from "../../src/queue/search/JobFilter.js"
import { ends, type Law, type Line } from "./Line.js"
import { begin as beginExecution, end as endExecution } from "./WorkflowLine.js"

const filterOf = (line: Line, filter: JobFilter): JobFilter => ({ queue: line.name, ...filter })

/** Starts an operation on the law's jobs, by ids or by filter. */
const begin = (line: Line, action: Action, target: ReadonlyArray<JobId> | JobFilter) =>
  line.operations.begin({
    action,
    who: "law",
    reason: "because",
    target: Array.isArray(target) ? { ids: target } : { filter: filterOf(line, target as JobFilter) }
  })

/** Runs an operation to its end. */
const finish = (line: Line, id: string): Effect.Effect<Operation, unknown> =>
  Effect.flatMap(line.operations.step(id), (went) =>
    Option.isSome(went) && went.value.status === "running" ? finish(line, id) : line.operations.get(id)
  )

const perform = (line: Line, action: Action, target: ReadonlyArray<JobId> | JobFilter) =>
  Effect.flatMap(begin(line, action, target), ({ id }) => finish(line, id))

const states = (line: Line) =>
  Effect.map(line.all(), (jobs) => jobs.toReversed().map(({ payload, state }) => `${payload} ${state}`))

const bury = (line: Line, more: Parameters<Line["run"]>[0] = {}) =>
  Effect.flatMap(line.run(more), (run) => Effect.map(line.end(run, ends.dead), ({ id }) => id))

export const operationsLaws = (law: Law): void => {
  law("an operation describes itself and its outcome", (line) =>
    Effect.gen(function* () {
      yield* bury(line, { payload: 1 })
      yield* bury(line, { payload: 2 })
      const begun = yield* begin(line, "requeue", { state: ["dead"] })
      expect(begun).toMatchObject({
        action: "requeue",
        status: "running",
        who: "law",
        reason: "because",
        filter: { queue: line.name, state: ["dead"] },
        createdAt: yield* line.now,
        finishedAt: undefined,
        total: { count: 2, exact: true },
        done: 0,
        skipped: {}
      })
      yield* line.advance("1 second")
      const ended = yield* finish(line, begun.id)
      expect(ended).toMatchObject({ status: "done", done: 2, failed: 0, skipped: {}, finishedAt: yield* line.now })
      expect(yield* line.operations.get(begun.id)).toEqual(ended)
      expect(yield* states(line)).toEqual(["1 pending", "2 pending"])
      expect(yield* line.operations.step(begun.id)).toEqual(Option.none())
    })
  )

  law("a bulk requeue treats each job like a single requeue", (line) =>
    Effect.gen(function* () {
      const [one, other] = [yield* bury(line), yield* bury(line)]
      const alone = yield* line.jobAdmin.requeue(one)
      yield* perform(line, "requeue", [other])
      const { id: _, ...expected } = alone
      const { createdAt, history, ...same } = expected
      expect(yield* line.search.get(other)).toMatchObject(same)
      expect((yield* line.search.get(other)).history).toHaveLength(history.length)
      expect(createdAt).toBeDefined()
      expect(yield* line.claim()).toHaveLength(2)
    })
  )

  law("cancel ends waiting jobs and flags running ones", (line) =>
    Effect.gen(function* () {
      const { id } = yield* line.run({ payload: "running" })
      yield* line.put({ payload: "pending" })
      yield* line.put({ payload: "scheduled", runAt: (yield* line.now) + 60_000 })
      const ended = yield* perform(line, "cancel", { state: ["scheduled", "pending", "running"] })
      expect(ended).toMatchObject({ done: 3, skipped: {} })
      expect(yield* states(line)).toEqual(["running running", "pending cancelled", "scheduled cancelled"])
      expect((yield* line.search.get(id)).cancelRequestedAt).toBe(yield* line.now)
    })
  )

  law("run-now makes waiting jobs due, and delete removes jobs that do not run", (line) =>
    Effect.gen(function* () {
      yield* line.put({ payload: "later", runAt: (yield* line.now) + 60_000 })
      yield* line.put({ payload: "pending" })
      expect(yield* perform(line, "run-now", { state: ["scheduled"] })).toMatchObject({ done: 1 })
      expect(yield* states(line)).toEqual(["later pending", "pending pending"])
      const [running] = yield* line.claim(1)
      const ended = yield* perform(
        line,
        "delete",
        (yield* line.all()).map(({ id }) => id)
      )
      expect(ended).toMatchObject({ done: 1, skipped: { running: 1 } })
      expect((yield* line.all()).map(({ id }) => id)).toEqual([running?.id])
    })
  )

  law("jobs selected by id are skipped with the reason when the action does not apply", (line) =>
    Effect.gen(function* () {
      const dead = yield* bury(line)
      const pending = yield* line.put()
      const ids = [pending, dead, yield* line.newId, dead]
      const ended = yield* perform(line, "requeue", ids)
      expect(ended).toMatchObject({ total: { count: 3, exact: true }, done: 1, skipped: { pending: 1, not_found: 1 } })
      expect(ended.filter).toBeUndefined()
    })
  )

  law("a job whose dedupe key is held is not requeued, and only the newest of several with one key is", (line) =>
    Effect.gen(function* () {
      const dedupe = (key: string) => ({ key: `${line.name}:${key}`, scope: "active" as const })
      yield* bury(line, { payload: "old a", dedupe: dedupe("a") })
      yield* bury(line, { payload: "new a", dedupe: dedupe("a") })
      yield* bury(line, { payload: "b", dedupe: dedupe("b") })
      yield* bury(line, { payload: "free" })
      yield* line.put({ payload: "holder", dedupe: dedupe("b") })
      const ended = yield* perform(line, "requeue", { state: ["dead"] })
      expect(ended).toMatchObject({ status: "done", done: 2, skipped: { dedupe_key_held: 2 } })
      expect(yield* states(line)).toEqual(["old a dead", "new a pending", "b dead", "free pending", "holder pending"])
    })
  )

  law("a filter covers only jobs stored before the operation began, each once", (line) =>
    Effect.gen(function* () {
      yield* line.put({ payload: "before" })
      const { id } = yield* begin(line, "cancel", { state: ["pending"] })
      yield* line.advance("1 second")
      yield* line.put({ payload: "after" })
      expect(yield* finish(line, id)).toMatchObject({ status: "done", done: 1 })
      expect(yield* states(line)).toEqual(["before cancelled", "after pending"])
    })
  )

  law("many jobs are processed in several batches, and an operation may be cancelled between them", (line) =>
    Effect.gen(function* () {
      for (let thousand = 0; thousand < 3; thousand += 1) {
        yield* line.queue.enqueue(Array.from({ length: 1000 }, () => line.job()))
      }
      const { id } = yield* begin(line, "delete", { state: ["pending"] })
      const first = Option.getOrThrow(yield* line.operations.step(id))
      expect(first).toMatchObject({ status: "running", done: 1000, total: { count: 3000, exact: true } })
      yield* line.operations.step(id)
      const cancelled = yield* line.operations.cancel(id)
      expect(cancelled).toMatchObject({ status: "cancelled", done: 2000, finishedAt: yield* line.now })
      expect(yield* line.operations.step(id)).toEqual(Option.none())
      expect(yield* line.search.total({ queue: line.name }, 5000)).toEqual({ count: 1000, exact: true })
      const rest = yield* perform(line, "delete", { state: ["pending"] })
      expect(rest).toMatchObject({ status: "done", done: 1000 })
      expect(yield* line.operations.cancel(rest.id)).toEqual(rest)
    })
  )

  law("a step without an id takes the operation that has waited longest", (line) =>
    Effect.gen(function* () {
      const drain: Effect.Effect<void, unknown> = Effect.flatMap(line.operations.step(), (went) =>
        Option.isSome(went) ? drain : Effect.void
      )
      yield* drain
      yield* line.put()
      const first = yield* begin(line, "delete", { state: ["pending"] })
      yield* line.advance("1 second")
      const second = yield* begin(line, "delete", { state: ["pending"] })
      expect(yield* line.operations.step()).toMatchObject({ value: { id: first.id, status: "done", done: 1 } })
      expect(yield* line.operations.step()).toMatchObject({ value: { id: second.id, status: "done", done: 0 } })
      expect(yield* line.operations.step()).toEqual(Option.none())
    })
  )

  law("operations are listed newest first, in pages, and purged when they are old", (line) =>
    Effect.gen(function* () {
      yield* line.advance("1 hour")
      const ids: Array<string> = []
      for (let number = 0; number < 3; number += 1) ids.unshift((yield* perform(line, "delete", { kind: "none" })).id)
      const open = yield* begin(line, "delete", { kind: "none" })
      const first = yield* line.operations.list({ limit: 3 })
      expect(first.operations.map(({ id }) => id)).toEqual([open.id, ...ids.slice(0, 2)])
      const second = yield* line.operations.list({ limit: 1, cursor: first.next })
      expect(second.operations.map(({ id }) => id)).toEqual(ids.slice(2))
      expect(yield* Effect.flip(line.operations.list({ limit: 1, cursor: "x" }))).toMatchObject({ _tag: "BadCursor" })
      yield* line.advance("2 minutes")
      expect(yield* line.operations.purge(Duration.minutes(1))).toBeGreaterThanOrEqual(3)
      expect(yield* line.operations.get(open.id)).toEqual(open)
      const missing = ids[0] ?? ""
      expect(yield* Effect.flip(line.operations.get(missing))).toMatchObject({ _tag: "OperationNotFound", id: missing })
      expect(yield* Effect.flip(line.operations.cancel("x"))).toMatchObject({ _tag: "OperationNotFound" })
    })
  )

  /** Requeues dead jobs, two of them first. */
  const rehearse = (line: Line) =>
    Effect.gen(function* () {
      for (const payload of [1, 2, 3, 4]) yield* bury(line, { payload })
      const target = { filter: filterOf(line, { state: ["dead"] }) }
      const { id } = yield* line.operations.begin({ action: "requeue", who: "law", target, rehearse: 2 })
      yield* line.operations.step(id)
      expect(yield* states(line)).toEqual(["1 pending", "2 pending", "3 dead", "4 dead"])
      return { id, look: line.operations.get(id), step: line.operations.step(id) }
    })

  law("a rehearsal goes on when all of its jobs have succeeded, and not before", (line) =>
    Effect.gen(function* () {
      const { id, look, step } = yield* rehearse(line)
      expect(yield* step).toEqual(Option.none())
      // Another operation is not held up.
      const other = yield* begin(line, "run-now", [])
      expect(Option.isSome(yield* line.operations.step(other.id))).toBe(true)
      const runs = yield* line.claim(2)
      for (const run of runs.slice(0, 1)) yield* line.end(run, ends.done)
      yield* step
      expect(yield* look).toMatchObject({
        status: "running",
        done: 2,
        rehearsal: { jobs: 2, succeeded: 1, verdict: "open" }
      })
      expect(yield* step).toEqual(Option.none())
      for (const run of runs.slice(1)) yield* line.end(run, ends.done)
      expect(yield* finish(line, id)).toMatchObject({
        status: "done",
        done: 4,
        rehearsal: { succeeded: 2, verdict: "passed" }
      })
      expect(yield* states(line)).toEqual(["1 done", "2 done", "3 pending", "4 pending"])
    })
  )

  law("a rehearsal stops when one of its jobs fails again, even if it will be retried", (line) =>
    Effect.gen(function* () {
      const { id, look, step } = yield* rehearse(line)
      const [run] = yield* line.claim(1)
      if (run === undefined) throw new Error("nothing was claimed")
      yield* line.end(run, ends.again(yield* line.now, "still broken\nat a.js:1"))
      // It runs again already, before the rehearsal is judged.
      expect((yield* line.claim()).some(({ attempt, id }) => id === run.id && attempt === 2)).toBe(true)
      yield* step
      expect(yield* look).toMatchObject({
        status: "failed",
        done: 2,
        rehearsal: { verdict: "failed" },
        error: "1 of 2 rehearsed jobs failed again: still broken. The others were not requeued."
      })
      expect(yield* line.operations.step(id)).toEqual(Option.none())
      expect((yield* states(line)).slice(2)).toEqual(["3 dead", "4 dead"])
    })
  )

  /** Ends that give the attempt back: the process has no handler for the kind, or its database did not answer. */
  const returned = (line: Line) =>
    Effect.map(line.now, (runAt) => [
      End.Again({ runAt, counted: false, error: "no handler", remember: undefined, unknownTimeout: 86_400_000 }),
      End.Again({ runAt, counted: false, error: "no database", remember: "database unavailable" })
    ])

  law("a rehearsal does not stop because its jobs were returned with an error, unless they fail or crash", (line) =>
    Effect.gen(function* () {
      const { look, step } = yield* rehearse(line)
      for (const end of yield* returned(line)) {
        const [run] = yield* line.claim(1)
        if (run === undefined) throw new Error("nothing was claimed")
        expect(yield* line.end(run, end)).toMatchObject({ attempt: 0, lastError: expect.any(String) })
        expect(yield* step).toEqual(Option.none())
      }
      yield* line.advance("1 second")
      const runs = yield* line.claim(2)
      expect(runs).toHaveLength(2)
      expect(yield* step).toEqual(Option.none())
      yield* line.end(runs[0] ?? (yield* line.claimOne), ends.done)
      yield* step
      expect(yield* look).toMatchObject({ status: "running", rehearsal: { succeeded: 1, verdict: "open" } })
      yield* line.crash(runs[1] ?? (yield* line.claimOne))
      yield* step
      expect(yield* look).toMatchObject({ status: "failed", rehearsal: { verdict: "failed" } })
    })
  )

  law(
    "a rehearsal of an execution stops when a step fails, not when the execution was returned with an error",
    (line) =>
      Effect.gen(function* () {
        const order = yield* beginExecution(line)
        yield* endExecution(line, order, ends.dead)
        const target = { ids: [order.id] }
        const { id } = yield* line.operations.begin({ action: "requeue", who: "law", target, rehearse: 1 })
        yield* line.operations.step(id)
        for (const end of yield* returned(line)) {
          yield* endExecution(line, yield* line.claimOne, end)
          expect((yield* line.search.get(order.id)).lastError).toBeDefined()
          expect(yield* line.operations.step(id)).toEqual(Option.none())
          yield* line.advance("1 second")
        }
        const run = yield* line.claimOne
        expect(yield* line.operations.step(id)).toEqual(Option.none())
        const retry = { kind: "retry", name: "pay", dueAt: (yield* line.now) + 60_000 } as const
        const waits = { woken: run.execution?.woken ?? 0, runAt: retry.dueAt, waits: [retry], caughtUp: true }
        yield* endExecution(line, run, End.Suspended({ ...waits, error: "no money" }))
        yield* line.operations.step(id)
        expect(yield* line.operations.get(id)).toMatchObject({
          status: "failed",
          error: "1 of 1 rehearsed jobs failed again: no money. The others were not requeued."
        })
      })
  )

  law("a rehearsal stops when its jobs do not end, and a deleted job counts as succeeded", (line) =>
    Effect.gen(function* () {
      const { look, step } = yield* rehearse(line)
      const [first] = (yield* line.all()).filter(({ state }) => state === "pending")
      yield* line.jobAdmin.remove(first?.id ?? (yield* line.newId))
      yield* step
      expect(yield* look).toMatchObject({ rehearsal: { succeeded: 1, verdict: "open" } })
      yield* line.advance("14 minutes")
      expect(yield* step).toEqual(Option.none())
      yield* line.advance("1 minute")
      yield* step
      expect(yield* look).toMatchObject({ status: "failed", rehearsal: { verdict: "failed" } })
      expect((yield* look).error).toMatch(
        /^1 of 2 rehearsed jobs have not ended, and none ended in the last 15 minutes/
      )
    })
  )
}
