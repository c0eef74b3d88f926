import { Effect, Either, Layer } from "effect"
import type { JobId } from "../../core/Ids.js"
import { limits, stateOf } from "../../core/StoredJob.js"
import { JobAdmin } from "../JobAdmin.js"
import { die, isExecution, isLinked, type JobRow, toStored } from "../JobRowMemory.js"
import { JobTable } from "../JobTableMemory.js"
import { type HeldJob, Queue } from "../Queue.js"
import * as AsksMemory from "./AsksMemory.js"
import { type Child, dueAtOf, type ExecutionSummary, executionStateOf, heartbeatsOf, valuesOf } from "./Execution.js"
import { jobOfChild } from "./ExecutionJob.js"
import * as ExecutionListMemory from "./ExecutionListMemory.js"
import * as ForkMemory from "./ForkMemory.js"
import { observed } from "./ObservedWorkflows.js"
import * as PinsMemory from "./PinsMemory.js"
import * as RunningStepsMemory from "./RunningStepsMemory.js"
import { requestedWaits, shownDeferreds, unclaimedSignals } from "./SignalValues.js"
import * as SignalValuesMemory from "./SignalValuesMemory.js"
import * as StreamsMemory from "./StreamsMemory.js"
import * as TagsMemory from "./TagsMemory.js"
import { ChildNotLinked, ExecutionNotFound, LeaseLost, SignalsFull } from "./WorkflowErrors.js"
import { admitted, admittedSignal, type ChildrenOptions, endRaceOf, retryOf, Workflows } from "./Workflows.js"
import { WorkflowTable } from "./WorkflowTableMemory.js"

const parsed = (text: string | undefined): unknown => (text === undefined ? undefined : JSON.parse(text))

const make = Effect.gen(function* () {
  const jobs = yield* JobTable
  const table = yield* WorkflowTable
  const queue = yield* Queue
  const jobAdmin = yield* JobAdmin

  const held = ({ id, lease }: HeldJob): Either.Either<JobRow & { readonly execution: string }, LeaseLost> => {
    const row = jobs.get(id)
    return row?.run?.lease === lease && row.dedupe !== undefined
      ? Either.right({ ...row, execution: row.dedupe.key })
      : Either.left(new LeaseLost({ id }))
  }

  const find = (execution: string): Either.Either<JobRow, ExecutionNotFound> => {
    const byId = jobs.get(execution as JobId)
    const row = table.executionRow(execution) ?? (byId !== undefined && isExecution(byId) ? byId : undefined)
    return row === undefined ? Either.left(new ExecutionNotFound({ execution })) : Either.right(row)
  }

  const record: typeof Workflows.Service.record = (run, step) =>
    Effect.flatMap(admitted(step.kind, step.name, step.exit), (text) =>
      Effect.flatten(
        jobs.atomically((now) =>
          Either.map(held(run), ({ id }) => {
            const known = table.stepsOf(id)
            const same = known.find(({ attempt, name }) => name === step.name && attempt === step.attempt)
            if (same !== undefined) return { ...same, repeated: true }
            const stored = {
              ...step,
              retryAt: step.retryAt,
              reopenedAt: undefined,
              exit: JSON.parse(text),
              endedAt: now
            }
            table.setSteps(id, [...known, stored])
            const row = jobs.get(id)
            // Attempts and crashes before this progress no longer count.
            if (row !== undefined && (row.attempt > 1 || row.crashCount > 0))
              jobs.put({ ...row, attempt: 1, crashCount: 0 })
            return { ...stored, repeated: false }
          })
        )
      )
    )

  const signal: typeof Workflows.Service.signal = (given) =>
    Effect.gen(function* () {
      const { execution, id, name } = given
      const text = yield* admittedSignal(given)
      const outcome = yield* jobs.atomically((now) => {
        const stored = SignalValuesMemory.put(table, { execution, name, exit: JSON.parse(text), id }, now)
        table.wake(execution, now)
        return stored
      })
      return outcome === "full" ? yield* new SignalsFull({ execution, name }) : outcome
    })

  const link = (
    execution: string,
    name: string,
    started: ReadonlyArray<{ readonly id: JobId; readonly isNew: boolean }>,
    { detached = false, first = false, left = false }: ChildrenOptions
  ) =>
    jobs.atomically((now): Either.Either<void, ChildNotLinked> => {
      const isOver = (id: JobId) => detached || jobs.get(id)?.finishedAt !== undefined
      if (
        started.some(({ id }) => {
          const child = jobs.get(id)
          return !isOver(id) && (child === undefined || !isLinked(child))
        })
      ) {
        return Either.left(new ChildNotLinked({ execution, name }))
      }
      const open = started.filter(({ id }) => !isOver(id)).length
      const remaining = first ? Number(open === started.length) : open
      const added = started.map(({ id, isNew }, position) => ({
        parent: execution,
        name,
        position,
        child: id,
        owned: isNew && !detached && !left,
        endedAt: isOver(id) ? now : undefined
      }))
      table.link(execution, added)
      table.putDeferred({
        execution,
        kind: "children",
        name,
        createdAt: now,
        dueAt: undefined,
        completedAt: remaining === 0 ? now : undefined,
        exit: first ? { first } : undefined,
        remaining,
        waiting: false,
        early: false
      })
      return Either.right(undefined)
    })

  const startChildren: typeof Workflows.Service.startChildren = (run, name, children, options = {}) =>
    Effect.gen(function* () {
      const execution = yield* Effect.flatten(
        jobs.atomically(() =>
          Either.map(held(run), (row) =>
            table.deferred(row.execution, "children", name) === undefined ? row.execution : undefined
          )
        )
      )
      if (execution === undefined) return
      const started: Array<{ readonly id: JobId; readonly isNew: boolean }> = []
      for (let from = 0; from < children.length; from += limits.batch) {
        const answers = yield* queue.enqueue(children.slice(from, from + limits.batch).map(jobOfChild))
        started.push(...answers.map(({ id, outcome }) => ({ id, isNew: outcome === "enqueued" })))
      }
      yield* Effect.flatten(link(execution, name, started, options))
    })

  const summary = (row: JobRow, now: number): ExecutionSummary => {
    const execution = row.dedupe?.key ?? row.id
    const waits = table
      .deferredsOf(execution)
      .filter(({ completedAt, waiting }) => waiting && completedAt === undefined && row.status === "pending")
    const { runAt, status } = row
    const reason = row.reason ?? row.dying
    const cancelled = row.cancelRequestedAt !== undefined
    return {
      id: row.id,
      execution,
      workflow: row.kind,
      version: row.version,
      queue: row.queue,
      state: executionStateOf({ status, reason, cancelled, woken: row.woken ?? 0, runAt, waits }, now),
      reason,
      payload: parsed(row.payload),
      result: parsed(row.result),
      lastError: row.lastError,
      createdAt: row.createdAt,
      updatedAt: row.updatedAt,
      finishedAt: row.finishedAt,
      dueAt: dueAtOf(status, runAt),
      continued: table.lifetimes.of(row.id).continued,
      pinned: table.lifetimes.of(row.id).release,
      tags: table.tagsOf(row.id),
      waits: requestedWaits(waits),
      ...ExecutionListMemory.progressOf(jobs, table, row, execution)
    }
  }

  const childrenOf = (now: number, execution: string, name?: string): ReadonlyArray<Child> =>
    table
      .linksOf(execution)
      .filter((each) => name === undefined || each.name === name)
      .map(({ child, name: step, owned, position }) => {
        const row = jobs.get(child)
        return {
          name: step,
          position,
          id: child,
          owned,
          job:
            row === undefined
              ? undefined
              : {
                  kind: row.kind,
                  execution: isExecution(row) ? row.dedupe?.key : undefined,
                  state: isExecution(row) ? summary(row, now).state : stateOf(row, now),
                  reason: row.reason ?? row.dying,
                  result: parsed(row.result),
                  lastError: row.lastError,
                  createdAt: row.createdAt,
                  finishedAt: row.finishedAt
                }
        }
      })

  const cancel: typeof Workflows.Service.cancel = (execution, { now: atOnce = false } = {}) =>
    Effect.gen(function* () {
      const { id } = yield* find(execution)
      if (!atOnce) {
        const job = yield* jobAdmin.cancel(id).pipe(Effect.catchTag("JobNotFound", Effect.die))
        const row = jobs.get(id)
        const below = row === undefined ? [] : table.below(row)
        const requested = below.filter((each) => each.cancelRequestedAt !== undefined)
        return { job, cancelled: job.finishedAt === undefined ? 1 + requested.length : 0 }
      }
      return yield* jobs.atomically((now) => {
        const row = jobs.get(id)
        const all = row === undefined ? [] : [row, ...table.below(row)]
        const open = all.filter(({ finishedAt }) => finishedAt === undefined)
        const error = "cancelled without undoing its steps"
        for (const each of open) {
          const dead = die(each, { reason: "cancelled", counted: true, error, remember: undefined }, now)
          jobs.putDead({ ...dead, cancelRequestedAt: each.cancelRequestedAt ?? now }, now)
          jobs.tally.of(each.queue, each.kind).died(1, "cancelled", now)
          if (isExecution(each)) jobs.tally.workflows.ended(each.kind, "cancelled")
        }
        return { job: toStored(jobs.get(id) ?? (row as JobRow), now), cancelled: open.length }
      })
    })

  const streams = yield* StreamsMemory.make(find)

  const wake: typeof Workflows.Service.wake = (execution) => jobs.atomically((now) => table.wake(execution, now))

  const show: typeof Workflows.Service.show = (execution) =>
    Effect.flatten(
      jobs.atomically((now) =>
        Either.map(find(execution), (row) => {
          const found = summary(row, now)
          const steps = table.stepsOf(row.id)
          const stored = table.deferredsOf(found.execution)
          const deferreds = shownDeferreds(found, stored)
          return {
            ...found,
            steps,
            streams: StreamsMemory.summaries(jobs, table, row.id),
            deferreds,
            heartbeats: heartbeatsOf(stored, steps),
            unclaimed: unclaimedSignals(deferreds, steps),
            values: valuesOf(steps),
            children: childrenOf(now, found.execution),
            parents: table.parentsOf(row.id)
          }
        })
      )
    )

  const children: typeof Workflows.Service.children = (execution, name) =>
    jobs.atomically((now) => childrenOf(now, execution, name))

  const values: typeof Workflows.Service.values = (execution) =>
    Effect.flatten(jobs.atomically(() => Either.map(find(execution), ({ id }) => valuesOf(table.stepsOf(id)))))

  return yield* observed({
    ...TagsMemory.make(jobs, table, queue, { find, held }),
    load: (run) =>
      Effect.flatten(
        jobs.atomically(() =>
          Either.map(held(run), (row) => ({
            woken: row.woken ?? 0,
            cancelled: row.cancelRequestedAt !== undefined || row.dying !== undefined,
            steps: table.stepsOf(row.id),
            waits: table.deferredsOf(row.execution)
          }))
        )
      ),
    record,
    signal,
    ...AsksMemory.make(jobs, table, { find, held, stateOf: (row, now) => summary(row, now).state }),
    wake,
    startChildren,
    children,
    endRace: endRaceOf(
      children,
      (id) => jobAdmin.cancel(id),
      (execution, name, winner) => jobs.atomically(() => table.disown(execution, name, winner))
    ),
    ...PinsMemory.make(jobs, table, { find, held }),
    cancel,
    retry: retryOf(
      { show, wake },
      (id) => Effect.catchTags(jobAdmin.requeue(id), { JobNotFound: Effect.die, DedupeKeyHeld: Effect.die }),
      (id, execution) =>
        Effect.flatMap(find(execution), (row) => jobs.atomically((now) => toStored(jobs.get(id) ?? row, now)))
    ),
    fork: ForkMemory.make(jobs, table, queue, find),
    ...RunningStepsMemory.make(jobs, table),
    ...ExecutionListMemory.make(jobs, table, summary),
    streams,
    values,
    show
  })
})

export const layer: Layer.Layer<Workflows, never, JobTable | WorkflowTable | Queue | JobAdmin> = Layer.effect(
  Workflows,
  make
)
