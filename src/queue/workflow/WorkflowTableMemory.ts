import { Context, Effect, Layer } from "effect"
import type { JobId } from "../../core/Ids.js"
import type { Wait } from "../../core/Suspension.js"
import { die, isExecution, isLinked, type JobRow } from "../JobRowMemory.js"
import { JobTable } from "../JobTableMemory.js"
import type { DeferredKind, Step, StepKind, Tags } from "./Execution.js"
import {
  type ChildLink,
  type ExecutionRecords,
  resultOf,
  type StoredDeferred,
  type StoredStream
} from "./ExecutionRecords.js"
import { keptSignals } from "./KeptSignals.js"
import * as LifetimesMemory from "./LifetimesMemory.js"
import { isUndone, reopened, reopenedAt } from "./ReopenedJournal.js"
import { signalOf } from "./SignalValues.js"
import type { PermitRow } from "./StepPermits.js"

// The workflow tables of the memory layers. Every method runs inside a step of the job table.

type Jobs = typeof JobTable.Service

/** Kinds of steps that run code, which may have an undo. */
const effects: ReadonlyArray<StepKind> = ["run", "transaction", "stream"]

const keyOf = (kind: DeferredKind, name: string) => `${kind} ${name}`

const makeTable = (jobs: Jobs) => {
  const steps = new Map<JobId, ReadonlyArray<Step>>()
  const streams = new Map<JobId, ReadonlyMap<string, StoredStream>>()
  const deferreds = new Map<string, ReadonlyMap<string, StoredDeferred>>()
  const links = new Map<string, ReadonlyArray<ChildLink>>()
  const tags = new Map<JobId, Tags>()
  const parentsOf = new Map<JobId, Set<string>>()
  const permits = new Map<string, PermitRow>()

  /** Sets or deletes an entry and registers its undo. */
  const set = <K, V>(map: Map<K, V>, key: K, value: V | undefined) => {
    const before = map.get(key)
    if (value === undefined) map.delete(key)
    else map.set(key, value)
    jobs.onRollback(() => (before === undefined ? map.delete(key) : map.set(key, before)))
  }

  const lifetimes = LifetimesMemory.make(jobs, set)

  const executionRow = (execution: string): JobRow | undefined => {
    const row = jobs.holderOf(execution)
    return row !== undefined && isExecution(row) ? row : undefined
  }

  const putDeferred = (deferred: StoredDeferred) =>
    set(
      deferreds,
      deferred.execution,
      new Map(deferreds.get(deferred.execution)).set(keyOf(deferred.kind, deferred.name), deferred)
    )

  const deferred = (execution: string, kind: DeferredKind, name: string) =>
    deferreds.get(execution)?.get(keyOf(kind, name))

  const deferredsOf = (execution: string): ReadonlyArray<StoredDeferred> =>
    [...(deferreds.get(execution)?.values() ?? [])].sort(
      (a, b) => a.createdAt - b.createdAt || (a.name < b.name ? -1 : 1)
    )

  const setDeferreds = (execution: string, all: ReadonlyArray<StoredDeferred>) =>
    set(
      deferreds,
      execution,
      all.length === 0 ? undefined : new Map(all.map((each) => [keyOf(each.kind, each.name), each]))
    )

  const wake = (execution: string, now: number) => {
    const row = executionRow(execution)
    if (row === undefined || row.finishedAt !== undefined || (row.woken === 0 && row.run === undefined)) return
    const runAt = row.run === undefined ? Math.min(row.runAt, now) : row.runAt
    jobs.put({ ...row, woken: (row.woken ?? 0) + 1, runAt })
  }

  /** Counts the end of a job in the waits of executions. */
  const countEnd = (child: JobId, now: number) => {
    for (const parent of parentsOf.get(child) ?? []) {
      const own = links.get(parent) ?? []
      const ended = own.filter((link) => link.child === child && link.endedAt === undefined)
      if (ended.length === 0) continue
      set(
        links,
        parent,
        own.map((link) => (ended.includes(link) ? { ...link, endedAt: now } : link))
      )
      for (const name of new Set(ended.map((link) => link.name))) {
        const wait = deferred(parent, "children", name)
        if (wait === undefined) continue
        const remaining = (wait.remaining ?? 0) - ended.filter((link) => link.name === name).length
        putDeferred({ ...wait, remaining, completedAt: remaining <= 0 ? now : undefined })
        if (remaining <= 0) wake(parent, now)
      }
    }
  }

  const forget = (row: JobRow) => {
    set(steps, row.id, undefined)
    for (const [key, { jobId }] of permits) if (jobId === row.id) set(permits, key, undefined)
    if (streams.has(row.id)) set(streams, row.id, undefined)
    lifetimes.put(row.id, undefined)
    if (tags.has(row.id)) set(tags, row.id, undefined)
    const execution = row.dedupe?.key
    if (execution === undefined || !isExecution(row)) return
    set(deferreds, execution, undefined)
    set(links, execution, undefined)
  }

  const isOver = (id: JobId) => jobs.get(id)?.finishedAt !== undefined

  const below = (row: JobRow, seen = new Set<JobId>()): ReadonlyArray<JobRow> => {
    const own = isExecution(row) && row.dedupe !== undefined ? (links.get(row.dedupe.key) ?? []) : []
    return own.flatMap(({ child, owned }) => {
      const found = owned && !seen.has(child) ? jobs.get(child) : undefined
      if (found === undefined) return []
      seen.add(child)
      return [found, ...below(found, seen)]
    })
  }

  /** Makes an execution wait again for children of these links that have not ended. */
  const awaitAgain = (execution: string, own: ReadonlyArray<ChildLink>) => {
    const again = own.filter(
      ({ child, endedAt }) => endedAt !== undefined && jobs.get(child) !== undefined && !isOver(child)
    )
    const names = new Set(again.map(({ name }) => name))
    if (again.length === 0) return names
    set(
      links,
      execution,
      (links.get(execution) ?? []).map((link) => (again.includes(link) ? { ...link, endedAt: undefined } : link))
    )
    for (const name of names) {
      const wait = deferred(execution, "children", name)
      if (wait === undefined) continue
      const ends = again.filter((link) => link.name === name).length
      // A wait with an exit is one for the first child.
      const remaining = wait.exit === undefined ? Math.max(0, wait.remaining ?? 0) + ends : 1
      putDeferred({ ...wait, completedAt: undefined, remaining })
    }
    return names
  }

  /** Makes an execution wait again for restored children, unless it has recorded the end of that wait. */
  const awaitRestored = (execution: string, isRestored: (child: JobId) => boolean) => {
    const row = executionRow(execution)
    if (row === undefined || row.finishedAt !== undefined) return
    const recorded = (steps.get(row.id) ?? []).filter(
      (step) => step.kind === "children" && step.reopenedAt === undefined
    )
    const own = (links.get(execution) ?? []).filter(
      ({ child, name }) => isRestored(child) && !recorded.some((step) => step.name === name)
    )
    awaitAgain(execution, own)
  }

  return {
    /** The records of an execution, to restore them after its deletion. */
    recordsOf: (row: JobRow): ExecutionRecords | undefined =>
      !isExecution(row) || row.dedupe === undefined
        ? undefined
        : {
            steps: steps.get(row.id) ?? [],
            streams: streams.get(row.id) ?? new Map(),
            deferreds: deferredsOf(row.dedupe.key),
            links: links.get(row.dedupe.key) ?? [],
            lifetime: lifetimes.of(row.id),
            tags: tags.get(row.id) ?? {}
          },
    /** Restores the records of a deleted execution. A signal that was sent meanwhile is kept. */
    revive: (row: JobRow, records: ExecutionRecords) => {
      const execution = row.dedupe?.key
      if (execution === undefined) return
      set(steps, row.id, records.steps)
      set(streams, row.id, records.streams)
      set(tags, row.id, records.tags)
      set(links, execution, records.links)
      lifetimes.put(row.id, records.lifetime)
      const merged = new Map(deferreds.get(execution))
      for (const each of records.deferreds) {
        const key = keyOf(each.kind, each.name)
        const meanwhile = merged.get(key)
        const isOpen = each.completedAt === undefined && meanwhile !== undefined
        const arrived = Math.max(each.arrived ?? 0, meanwhile?.arrived ?? 0)
        const arrivedBytes = Math.max(each.arrivedBytes ?? 0, meanwhile?.arrivedBytes ?? 0)
        const kept = arrived === 0 ? each : { ...each, arrived, arrivedBytes }
        merged.set(key, isOpen ? { ...kept, completedAt: meanwhile.completedAt, exit: meanwhile.exit } : kept)
      }
      setDeferreds(execution, [...merged.values()])
    },
    /**
     * Connects a restored job with its parents and children again: a parent that has not used the end of a child waits for
     * it again, and waits that ended meanwhile are completed, except for children that the same undo restores later.
     */
    reconnect: (row: JobRow, isLater: (child: JobId) => boolean, now: number) => {
      for (const parent of parentsOf.get(row.id) ?? []) awaitRestored(parent, (child) => child === row.id)
      const execution = isExecution(row) ? row.dedupe?.key : undefined
      if (execution !== undefined) {
        awaitRestored(execution, () => true)
        for (const { child, endedAt } of links.get(execution) ?? [])
          if (endedAt === undefined && !isLater(child) && (jobs.get(child) === undefined || isOver(child)))
            countEnd(child, now)
        if (deferredsOf(execution).some((wait) => wait.waiting && wait.completedAt !== undefined)) wake(execution, now)
      }
      if (row.finishedAt !== undefined) countEnd(row.id, now)
    },
    streamsOf: (id: JobId): ReadonlyMap<string, StoredStream> => streams.get(id) ?? new Map(),
    putStream: (id: JobId, stream: StoredStream) => set(streams, id, new Map(streams.get(id)).set(stream.name, stream)),
    tagsOf: (id: JobId): Tags => tags.get(id) ?? {},
    setTags: (id: JobId, all: Tags) => set(tags, id, all),
    stepsOf: (id: JobId): ReadonlyArray<Step> => steps.get(id) ?? [],
    setSteps: (id: JobId, all: ReadonlyArray<Step>) =>
      set(
        steps,
        id,
        [...all].sort((a, b) => a.sequence - b.sequence || a.attempt - b.attempt)
      ),
    /** The names of the steps that are done and not undone, as the end of an error. */
    notUndone: (id: JobId): string => {
      const all = steps.get(id) ?? []
      const isOpen = (step: Step) => step.outcome === "done" && step.reopenedAt === undefined && !isUndone(step, all)
      const open = all.filter((step) => effects.includes(step.kind) && isOpen(step)).reverse()
      return open.length === 0 ? "" : `; not undone: ${open.map(({ name }) => name).join(", ")}`.slice(0, 1_000)
    },
    /** Steps that wait for a permit or hold one, by job and step. */
    permits,
    lifetimes,
    /** Ends the journal of an execution, and its streams. Signals that its code has not received are kept. */
    renew: (row: JobRow, now: number) => {
      const execution = row.dedupe?.key ?? ""
      const own = steps.get(row.id) ?? []
      const eventWaits = lifetimes.endEventWaits(row.id, own)
      const others = deferredsOf(execution).filter((each) => !eventWaits.has(signalOf(each)))
      setDeferreds(execution, keptSignals(others, own, now))
      set(links, execution, undefined)
      const written = [...(streams.get(row.id) ?? [])].map(([name, stream]): [string, StoredStream] => {
        const outcome = resultOf(own, stream)?.outcome ?? stream.outcome ?? "interrupted"
        return [name, { ...stream, outcome }]
      })
      if (written.length > 0) set(streams, row.id, new Map(written))
      set(steps, row.id, undefined)
      lifetimes.renewed(row.id)
    },
    /** Children of a step, except for one, no longer belong to their parent. */
    disown: (execution: string, name: string, except: number) =>
      set(
        links,
        execution,
        (links.get(execution) ?? []).map((link) =>
          link.name === name && link.position !== except ? { ...link, owned: false } : link
        )
      ),
    deferred,
    deferredsOf,
    setDeferreds,
    putDeferred,
    executionRow,
    wake,
    countEnd,
    forget,
    below,
    linksOf: (execution: string): ReadonlyArray<ChildLink> => links.get(execution) ?? [],
    parentsOf: (child: JobId): ReadonlyArray<string> => [...(parentsOf.get(child) ?? [])],
    /** Whether an execution that has not ended waits for the job. */
    isAwaited: (child: JobId): boolean =>
      [...(parentsOf.get(child) ?? [])].some((parent) => {
        const row = executionRow(parent)
        const isOpen = (links.get(parent) ?? []).some((link) => link.child === child && link.endedAt === undefined)
        return isOpen && row !== undefined && row.finishedAt === undefined
      }),
    unlink: (parent: string) => {
      for (const { child } of links.get(parent) ?? []) parentsOf.get(child)?.delete(parent)
    },
    link: (parent: string, added: ReadonlyArray<ChildLink>) => {
      set(links, parent, [...(links.get(parent) ?? []), ...added])
      for (const { child } of added) parentsOf.set(child, (parentsOf.get(child) ?? new Set<string>()).add(parent))
    },

    /** Stores the waits of a suspension. Returns whether one is already complete. */
    suspend: (execution: string, waits: ReadonlyArray<Wait>, now: number): boolean => {
      const listed = new Set(waits.map(({ kind, name }) => keyOf(kind, name)))
      const others = deferredsOf(execution).filter(({ kind, name }) => !listed.has(keyOf(kind, name)))
      const stored = waits.map(({ dueAt, kind, limit, name }): StoredDeferred => {
        const known = deferred(execution, kind, name)
        if (known !== undefined && (kind === "changed" || kind === "limit" || kind === "retry")) {
          const isNext = kind === "retry" ? known.dueAt !== dueAt : !known.waiting
          const createdAt = isNext ? now : known.createdAt
          return { ...known, waiting: true, dueAt, createdAt, exit: limit ?? known.exit }
        }
        if (known !== undefined) return { ...known, waiting: true, dueAt: known.dueAt ?? dueAt }
        const fresh = { exit: limit, remaining: undefined, completedAt: undefined, waiting: true, early: false }
        return { execution, kind, name, dueAt, createdAt: now, ...fresh }
      })
      // Without other waits the run did not get as far as before: the next one must know what the execution waited for.
      const isFurther = waits.some(({ kind }) => kind !== "changed")
      const left = isFurther ? others.map((each) => ({ ...each, waiting: false })) : others
      setDeferreds(execution, [...left, ...stored])
      return stored.some(({ completedAt }) => completedAt !== undefined)
    },

    /** Prepares the journal of a requeued execution for another run. */
    reopenFailed: (row: JobRow, now: number) => {
      const execution = isExecution(row) ? row.dedupe?.key : undefined
      if (execution === undefined) return
      const before = {
        steps: steps.get(row.id) ?? [],
        deferreds: deferredsOf(execution),
        links: links.get(execution) ?? []
      }
      const after = reopened(before, now)
      set(steps, row.id, after.steps)
      set(links, execution, after.links)
      setDeferreds(execution, after.deferreds)
    },

    /** Requeues the dead children of a requeued execution, which waits for them again. */
    requeueBelow: (row: JobRow, now: number, requeue: (child: JobRow) => void) => {
      const execution = isExecution(row) ? row.dedupe?.key : undefined
      if (execution === undefined) return
      const isFailed = (name: string) =>
        (steps.get(row.id) ?? []).some(
          (step) => step.name === name && step.kind === "children" && step.outcome === "failed"
        )
      const own = (links.get(execution) ?? []).filter(({ name, owned }) => owned || isFailed(name))
      for (const { child } of own) {
        const found = jobs.get(child)
        if (found?.status === "dead") requeue(found)
      }
      const names = awaitAgain(
        execution,
        (links.get(execution) ?? []).filter(({ name, owned }) => owned || isFailed(name))
      )
      if (names.size === 0) return
      set(
        steps,
        row.id,
        (steps.get(row.id) ?? []).map((step) =>
          step.kind === "children" && names.has(step.name) ? reopenedAt(step, now) : step
        )
      )
    },

    /** Cancels a job: a pending plain job is dead, an execution runs again and undoes its steps. */
    cancelled: (row: JobRow, now: number): JobRow => {
      if (row.status === "pending" && !isExecution(row)) {
        return die(row, { reason: "cancelled", counted: true, error: undefined, remember: undefined }, now)
      }
      return {
        ...row,
        cancelRequestedAt: row.cancelRequestedAt ?? now,
        updatedAt: now,
        ...(isExecution(row)
          ? { woken: (row.woken ?? 0) + 1, runAt: row.run === undefined ? Math.min(row.runAt, now) : row.runAt }
          : {})
      }
    },

    /** Deletes early signals without an execution, the values of a signal together: their numbers have no gaps. */
    purgeEarly: (before: number) => {
      for (const [execution, all] of [...deferreds]) {
        if (executionRow(execution) !== undefined) continue
        const rows = [...all.values()]
        const recent = new Set(rows.filter(({ createdAt }) => createdAt >= before).map(signalOf))
        setDeferreds(
          execution,
          rows.filter((each) => !each.early || recent.has(signalOf(each)))
        )
      }
    }
  }
}

/** Journal, waits and links of executions in memory. */
export class WorkflowTable extends Context.Tag("nightshift/queue/WorkflowTableMemory")<
  WorkflowTable,
  ReturnType<typeof makeTable>
>() {
  static readonly layer: Layer.Layer<WorkflowTable, never, JobTable> = Layer.effect(
    WorkflowTable,
    Effect.map(JobTable, (jobs) => {
      const table = makeTable(jobs)
      // Called for every end and deletion of a job.
      jobs.onRow((before, after, now) => {
        const row = after ?? before
        if (row === undefined || !isLinked(row)) return
        if (after === undefined) table.forget(row)
        const isOver = after === undefined || (after.finishedAt !== undefined && before?.finishedAt === undefined)
        if (isOver && before?.finishedAt === undefined) table.countEnd(row.id, after?.finishedAt ?? now)
      })
      return table
    })
  )
}
