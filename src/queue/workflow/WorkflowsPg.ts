import * as SqlClient from "@effect/sql/SqlClient"
import { Clock, Effect, Either, Exit, Layer, Option } from "effect"
import * as Batcher from "../../core/Batcher.js"
import { isId, type JobId, makeGenerator } from "../../core/Ids.js"
import { limits } from "../../core/StoredJob.js"
import { subjectMeta } from "../../core/Subject.js"
import { Database } from "../../database/Database.js"
import { type DatabaseError, isDataError, mapErrors, retryContention } from "../../database/DatabaseError.js"
import type { Hints } from "../../database/Hints.js"
import { named } from "../../database/Statements.js"
import { Tally } from "../../telemetry/Tally.js"
import { JobAdmin } from "../JobAdmin.js"
import { Notifier } from "../Notifier.js"
import { type HeldJob, Queue } from "../Queue.js"
import * as SqlArrays from "../SqlArrays.js"
import { BoundedQuery } from "../search/BoundedQuery.js"
import { JobSearch } from "../search/JobSearch.js"
import { afterCommit } from "../Transactions.js"
import * as AsksPg from "./AsksPg.js"
import * as CountedEnds from "./CountedEnds.js"
import { heartbeatsOf, type Journal, type NewStep, valuesOf } from "./Execution.js"
import { jobOf, jobOfChild } from "./ExecutionJob.js"
import * as ExecutionListPg from "./ExecutionListPg.js"
import * as ExecutionRows from "./ExecutionRows.js"
import * as LifetimesPg from "./LifetimesPg.js"
import * as MessageSql from "./MessageSql.js"
import { observed } from "./ObservedWorkflows.js"
import * as RunningStepsPg from "./RunningStepsPg.js"
import * as SignalsPg from "./SignalsPg.js"
import { shownDeferreds, unclaimedSignals } from "./SignalValues.js"
import * as StreamsPg from "./StreamsPg.js"
import * as TagsPg from "./TagsPg.js"
import { ChildNotLinked, ExecutionExists, ExecutionNotFound, LeaseLost, StepNotFound } from "./WorkflowErrors.js"
import * as WorkflowSql from "./WorkflowSql.js"
import { admitted, endRaceOf, erasedSource, type Recorded, retryOf, Workflows } from "./Workflows.js"

interface StepToRecord extends NewStep {
  readonly run: HeldJob
  readonly text: string
}

interface JournalRow {
  readonly place: number
  readonly woken: number
  readonly cancelled: boolean
  readonly steps: ReadonlyArray<ExecutionRows.StepRow>
  readonly waits: ReadonlyArray<ExecutionRows.DeferredRow>
}

interface EarlyRow {
  readonly name: string
  readonly text: string
  readonly id: string | null
}

type RecordError = LeaseLost | DatabaseError

const isOutside = Effect.map(Effect.serviceOption(SqlClient.TransactionConnection), Option.isNone)

const make = Effect.gen(function* () {
  const database = yield* Database
  const queue = yield* Queue
  const jobAdmin = yield* JobAdmin
  const search = yield* JobSearch
  const notifier = yield* Notifier
  const tally = yield* Tally
  const bounded = yield* BoundedQuery
  const ids = yield* makeGenerator
  const { direct, schema, sql, transaction } = database
  const statements = named("workflow", { ...WorkflowSql.make(schema), ...MessageSql.make(schema) })
  const counted = CountedEnds.make(database)
  const lifetimes = LifetimesPg.make(database)

  const find = (execution: string) =>
    Effect.gen(function* () {
      const id = isId(execution) ? execution : null
      const [row] = yield* mapErrors(sql.unsafe<{ id: JobId }>(statements.findExecution, [execution, id]))
      return row === undefined ? yield* new ExecutionNotFound({ execution }) : row.id
    })

  const { recorded, streams } = yield* StreamsPg.make(database, find)

  const notify = (queues: ReadonlyArray<string>, isHinted = false) =>
    queues.length === 0
      ? Effect.void
      : Effect.flatMap(isOutside, (outside) => notifier.stored(new Set(queues), !outside, isHinted))

  const writeSteps = (steps: ReadonlyArray<StepToRecord>) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const rows = yield* direct.rows(statements.recordSteps, [
        SqlArrays.ofPlain(steps.map(({ run }) => run.id)),
        SqlArrays.ofPlain(steps.map(({ run }) => run.lease)),
        SqlArrays.ofTexts(steps.map(({ name }) => name)),
        SqlArrays.ofPlain(steps.map(({ attempt }) => attempt)),
        SqlArrays.ofPlain(steps.map(({ sequence }) => sequence)),
        SqlArrays.ofTexts(steps.map(({ kind }) => kind)),
        SqlArrays.ofTexts(steps.map(({ outcome }) => outcome)),
        SqlArrays.ofJson(steps.map(({ text }) => text)),
        SqlArrays.ofPlain(steps.map(({ startedAt }) => startedAt)),
        SqlArrays.ofNumbers(steps.map(({ retryAt }) => retryAt)),
        now
      ])
      yield* recorded(steps.map(({ run }) => run.id))
      return steps.map((step, place): Exit.Exit<Recorded, RecordError> => {
        const [, isHeld, outcome, exit] = rows[place] ?? []
        if (isHeld !== true) return Exit.fail(new LeaseLost({ id: step.run.id }))
        // The row already existed: the reply to an earlier try was lost.
        return Exit.succeed(
          typeof outcome === "string"
            ? { outcome: outcome as Recorded["outcome"], exit, repeated: true }
            : { outcome: step.outcome, exit: step.exit, repeated: false }
        )
      })
    }).pipe(retryContention)

  // One lane: the code of an execution receives its results in the order of their sequence. The executions of a batch
  // continue in one turn of the event loop, and their next steps form the next batch.
  const recorder = yield* Batcher.make<StepToRecord, Recorded, RecordError, never>({
    weight: ({ text }) => 1 + text.length / 8_192,
    maxWeight: 500,
    capacity: 10_000,
    gather: setImmediate,
    isolate: (error) => error._tag !== "LeaseLost" && isDataError(error),
    flush: writeSteps
  })

  const record: typeof Workflows.Service.record = (run, step) =>
    Effect.gen(function* () {
      const text = yield* admitted(step.kind, step.name, step.exit)
      const one = { ...step, run, text }
      if (yield* isOutside) return yield* recorder.submit(one)
      const [exit] = yield* writeSteps([one])
      return yield* exit ?? Effect.dieMessage("a step has no result")
    })

  const readJournals = (runs: ReadonlyArray<HeldJob>) =>
    Effect.gen(function* () {
      const rows = yield* mapErrors(
        sql.unsafe<JournalRow>(statements.loadJournal, [
          SqlArrays.ofPlain(runs.map(({ id }) => id)),
          SqlArrays.ofPlain(runs.map(({ lease }) => lease))
        ])
      )
      const found = new Map(rows.map((row) => [row.place, row]))
      return runs.map(({ id }, place): Exit.Exit<Journal, RecordError> => {
        const row = found.get(place + 1)
        if (row === undefined) return Exit.fail(new LeaseLost({ id }))
        return Exit.succeed({
          woken: row.woken,
          cancelled: row.cancelled,
          steps: row.steps.map(ExecutionRows.toStep),
          waits: row.waits.map(ExecutionRows.toDeferred)
        })
      })
    })

  const reader = yield* Batcher.make<HeldJob, Journal, RecordError, never>({
    maxWeight: 200,
    lanes: 2,
    capacity: 10_000,
    isolate: (error) => error._tag !== "LeaseLost" && isDataError(error),
    flush: readJournals
  })

  const { complete, signal } = yield* SignalsPg.make(database, notifier, statements, isOutside, notify)

  const startChildren: typeof Workflows.Service.startChildren = (run, name, children, options = {}) =>
    transaction(
      Effect.gen(function* () {
        const { detached = false, first = false, left = false } = options
        const now = yield* Clock.currentTimeMillis
        const [parent] = yield* mapErrors(
          sql.unsafe<{ execution: string; started: boolean }>(statements.holdParent, [run.id, run.lease, name])
        )
        if (parent === undefined) return yield* new LeaseLost({ id: run.id })
        if (parent.started) return
        const started: Array<{ readonly id: JobId; readonly isNew: boolean }> = []
        for (let from = 0; from < children.length; from += limits.batch) {
          const answers = yield* queue.enqueue(children.slice(from, from + limits.batch).map(jobOfChild))
          started.push(...answers.map(({ id, outcome }) => ({ id, isNew: outcome === "enqueued" })))
        }
        const [row] = yield* mapErrors(
          sql.unsafe<{ unlinked: number }>(statements.linkChildren, [
            parent.execution,
            name,
            SqlArrays.ofPlain(started.map(({ id }) => id)),
            SqlArrays.ofPlain(started.map(({ isNew }) => isNew && !detached && !left)),
            now,
            detached,
            first
          ])
        )
        if ((row?.unlinked ?? 0) > 0) return yield* new ChildNotLinked({ execution: parent.execution, name })
      })
    )

  const childrenOf = (execution: string, name?: string) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const rows = yield* mapErrors(sql.unsafe<ExecutionRows.ChildRow>(statements.children, [execution, name ?? null]))
      return rows.map((row) => ExecutionRows.toChild(row, now))
    })

  const cancelNow = (id: JobId) =>
    transaction(
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        yield* counted.lock("end", [id])
        const ended = yield* mapErrors(
          sql.unsafe<CountedEnds.CancelledBelow & { execution: boolean }>(statements.cancelNow, [
            SqlArrays.ofPlain([id]),
            now,
            "cancelled without undoing its steps"
          ])
        )
        yield* afterCommit(() => {
          for (const { execution, kind, queue: name } of ended) {
            tally.of(name, kind).died(1, "cancelled", now)
            if (execution) tally.workflows.ended(kind, "cancelled")
          }
        })
        const woken = yield* counted.count(
          ended.map((job) => job.id),
          now
        )
        return { ended, woken }
      })
    ).pipe(Effect.tap(({ woken }) => notify(woken)))

  const cancel: typeof Workflows.Service.cancel = (execution, { now = false } = {}) =>
    Effect.gen(function* () {
      const id = yield* find(execution)
      const gone = Effect.mapError(() => new ExecutionNotFound({ execution }))
      if (!now) {
        const job = yield* jobAdmin
          .cancel(id)
          .pipe(Effect.catchTag("JobNotFound", () => new ExecutionNotFound({ execution })))
        const below = yield* mapErrors(sql.unsafe<{ count: number }>(statements.countBelow, [SqlArrays.ofPlain([id])]))
        return { job, cancelled: job.finishedAt === undefined ? 1 + (below[0]?.count ?? 0) : 0 }
      }
      const { ended } = yield* retryContention(cancelNow(id))
      return { job: yield* gone(search.get(id)), cancelled: ended.length }
    })

  const fork: typeof Workflows.Service.fork = (execution, step, { as } = {}) =>
    transaction(
      Effect.gen(function* () {
        const id = yield* find(execution)
        const [row] = yield* mapErrors(sql.unsafe<ExecutionRows.ForkRow>(statements.forkSource, [id]))
        if (row === undefined) return yield* new ExecutionNotFound({ execution })
        if (row.erased !== null) return yield* erasedSource(id, Date.parse(row.erased))
        if (!row.steps.includes(step)) return yield* new StepNotFound({ execution, step, known: row.steps })
        const now = yield* Clock.currentTimeMillis
        const name = as ?? `${row.execution}:fork:${ids.job(now)}`
        const [answer] = yield* queue.enqueue([
          jobOf({
            execution: name,
            kind: row.kind,
            version: row.version,
            queue: row.queue,
            payload: row.payload,
            attempts: row.max_attempts,
            priority: row.priority,
            key: row.key ?? undefined,
            meta: { forkOf: row.execution, forkFrom: step, ...subjectMeta(row.subject ?? undefined) }
          })
        ])
        if (answer === undefined) return yield* Effect.dieMessage("the queue returned no result")
        if (answer.outcome !== "enqueued") return yield* new ExecutionExists({ execution: name })
        const early = yield* mapErrors(sql.unsafe<EarlyRow>(statements.takeEarly, [name]))
        yield* mapErrors(sql.unsafe(statements.copyJournal, [id, answer.id, step, row.execution, name, now]))
        // Values that arrived for the new execution follow those of its source.
        const sent = early.map((each) => ({ ...each, execution: name, id: each.id ?? undefined }))
        if (sent.length > 0) yield* complete(sent, null)
        return { id: answer.id, execution: name }
      })
    )

  const show: typeof Workflows.Service.show = (execution) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const id = yield* find(execution)
      const [row] = yield* mapErrors(sql.unsafe<ExecutionRows.ExecutionRow>(statements.showExecution, [id]))
      if (row === undefined) return yield* new ExecutionNotFound({ execution })
      const parents = yield* mapErrors(sql.unsafe<{ parent: string }>(statements.parents, [id]))
      const summary = ExecutionRows.toSummary(row, now)
      const steps = (row.steps ?? []).map(ExecutionRows.toStep)
      const stored = (row.deferreds ?? []).map(ExecutionRows.toDeferred)
      const deferreds = shownDeferreds(summary, stored)
      return {
        ...summary,
        steps,
        streams: yield* streams.list(row.id),
        deferreds,
        heartbeats: heartbeatsOf(stored, steps),
        unclaimed: unclaimedSignals(deferreds, steps),
        values: valuesOf(steps),
        children: yield* childrenOf(row.execution),
        parents: parents.map(({ parent }) => parent)
      }
    })

  const wakeAll = (executions: ReadonlyArray<string>) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const woken = yield* mapErrors(
        sql.unsafe<{ queue: string }>(statements.wakeExecution, [SqlArrays.ofTexts(executions), now])
      )
      yield* notify(woken.map((row) => row.queue))
    })
  const wake: typeof Workflows.Service.wake = (execution) => wakeAll([execution])

  const asks = yield* AsksPg.make(database, statements, {
    find,
    stateOf: (id) => Effect.map(show(id), ({ state }) => state),
    notify
  })

  return yield* observed({
    ...TagsPg.make(database, queue, find),
    load: (run) => reader.submit(run),
    record,
    recordSoon: (run, step, answer) => {
      const text = admitted(step.kind, step.name, step.exit)
      if (Either.isRight(text)) recorder.submitWithCallback({ ...step, run, text: text.right }, answer)
      else answer(Exit.fail(text.left))
    },
    signal,
    ...asks,
    wake,
    startChildren,
    children: childrenOf,
    endRace: endRaceOf(
      childrenOf,
      (id) => jobAdmin.cancel(id),
      (execution, name, winner) =>
        Effect.asVoid(mapErrors(sql.unsafe(statements.disownChildren, [execution, name, winner])))
    ),
    pin: lifetimes.pin,
    pins: lifetimes.pins,
    longJournals: lifetimes.longJournals,
    unpin: (which) =>
      Effect.gen(function* () {
        const id = "execution" in which ? yield* find(which.execution) : undefined
        const { count, queues } = yield* lifetimes.unpin(id, "release" in which ? which.release : undefined)
        yield* notify(queues)
        return count
      }),
    cancel,
    retry: retryOf(
      { show, wake },
      (id, execution) =>
        Effect.catchTags(jobAdmin.requeue(id), {
          JobNotFound: () => new ExecutionNotFound({ execution }),
          DedupeKeyHeld: Effect.die
        }),
      (id, execution) => Effect.catchTag(search.get(id), "JobNotFound", () => new ExecutionNotFound({ execution }))
    ),
    fork,
    ...RunningStepsPg.make(database, statements, wakeAll),
    ...ExecutionListPg.make(database, bounded, statements),
    streams,
    show
  })
})

export const layer: Layer.Layer<
  Workflows,
  never,
  Database | Queue | JobAdmin | JobSearch | Notifier | Hints | BoundedQuery
> = Layer.scoped(Workflows, make)
