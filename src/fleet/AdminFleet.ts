import { Context, Effect, Layer, Predicate } from "effect"
import { sum } from "../core/Count.js"
import type { JobId } from "../core/Ids.js"
import { State } from "../core/StoredJob.js"
import { type JobActions, JobAdmin } from "../queue/JobAdmin.js"
import { JobLogs } from "../queue/logs/JobLogs.js"
import { choices } from "../queue/search/JobFilter.js"
import { JobSearch, maxFound, type QueueCounts, SortRefused } from "../queue/search/JobSearch.js"
import { type QueueSettings, Queues } from "../queue/settings/QueueSettings.js"
import * as RateShare from "../queue/settings/RateShare.js"
import { type CellServices, Cells, on, onHolder } from "./Cells.js"
import { CellUnavailable } from "./CellUnavailable.js"
import { type Cell, cellOfId, cellsOf } from "./Fleet.js"
import { byCell } from "./QueueFleet.js"

// Reads and acts over all cells. What has an id goes to the cell that has it; what has a queue goes to the cells of the queue.

const isNotFound = (error: unknown) => Predicate.isTagged(error, "JobNotFound")
const isForgotten = (error: unknown) =>
  Predicate.isTagged(error, "UndoRefused") && Predicate.hasProperty(error, "why") && error.why === "forgotten"

const newestFirst = (a: { readonly id: string }, b: { readonly id: string }) => (a.id < b.id ? 1 : -1)

/** Counts of a queue that several cells have. */
const together = (queue: string, parts: ReadonlyArray<QueueCounts>): QueueCounts => {
  const counts = State.literals.map((state) => [state, sum(parts.map(({ counts }) => counts[state]))])
  const oldest = parts.filter(({ oldestDueAt }) => oldestDueAt !== undefined)
  const [first] = oldest.toSorted((a, b) => (a.oldestDueAt ?? 0) - (b.oldestDueAt ?? 0))
  return {
    queue,
    counts: Object.fromEntries(counts) as QueueCounts["counts"],
    oldestDueAge: first?.oldestDueAge,
    oldestDueAt: first?.oldestDueAt
  }
}

const make = Effect.gen(function* () {
  const cells = yield* Cells
  const { fleet } = cells
  const all = [...fleet.cells.values()]

  /** Uses a port of the cell that has a job. */
  const ofJob = <I extends CellServices, S, A, E>(
    id: JobId,
    port: Context.Tag<I, S>,
    use: (port: S) => Effect.Effect<A, E, CellServices>,
    isMissing: (error: unknown) => boolean = isNotFound
  ) => onHolder(cells, id, isMissing, Effect.flatMap(port, use))

  /** Uses a port of several cells. */
  const inEach = <I extends CellServices, S, A, E>(
    some: ReadonlyArray<Cell>,
    port: Context.Tag<I, S>,
    use: (port: S) => Effect.Effect<A, E>
  ) => Effect.forEach(some, (cell) => on(cells, cell)(Effect.flatMap(port, use)), { concurrency: "unbounded" })
  const everywhere = <I extends CellServices, S, A, E>(
    port: Context.Tag<I, S>,
    use: (port: S) => Effect.Effect<A, E>
  ) => inEach(all, port, use)

  /** The cells that may have jobs that match a filter. */
  const cellsFor = (queue: string | ReadonlyArray<string> | undefined) => {
    const names = choices(queue)
    return names === undefined ? all : [...new Set(names.flatMap((name) => cellsOf(fleet, name)))]
  }

  const search = JobSearch.of({
    get: (id) => ofJob(id, JobSearch, (search) => search.get(id)),
    await: (id) => ofJob(id, JobSearch, (search) => search.await(id)),
    awaitEnd: (id) => ofJob(id, JobSearch, (search) => search.awaitEnd(id)),
    // Cursors of the default order are ids, which all cells understand. Other orders are those of one cell.
    list: (filter, request) =>
      Effect.gen(function* () {
        const some = cellsFor(filter.queue)
        const { by, descending } = request.sort ?? { by: "created", descending: true }
        if (by !== "created" && some.length > 1)
          return yield* new SortRefused({ by, cells: some.map(({ name }) => name) })
        const pages = yield* inEach(some, JobSearch, (search) => search.list(filter, request))
        const [only, ...others] = pages
        if (only !== undefined && others.length === 0) return only
        const merged = pages.flatMap(({ jobs }) => jobs).sort((a, b) => (descending ? 1 : -1) * newestFirst(a, b))
        // Beyond the first place where a cell's page ends, that cell may have more jobs.
        const ends = pages.flatMap(({ next }) => (next === undefined ? [] : [next])).sort()
        const end = descending ? ends.at(-1) : ends[0]
        const known = merged.filter(({ id }) => end === undefined || (descending ? id >= end : id <= end))
        const jobs = known.slice(0, request.limit)
        return { jobs, next: known.length > jobs.length ? jobs.at(-1)?.id : end }
      }),
    find: (text) =>
      everywhere(JobSearch, (search) => search.find(text)).pipe(
        Effect.map((found) => found.flat().sort(newestFirst).slice(0, maxFound))
      ),
    total: (filter, cap, timeout) =>
      inEach(cellsFor(filter.queue), JobSearch, (search) => search.total(filter, cap, timeout)).pipe(
        Effect.map((totals) => {
          const count = totals.reduce((whole, part) => whole + part.count, 0)
          return { count: Math.min(count, cap), exact: count <= cap && totals.every(({ exact }) => exact) }
        })
      ),
    counts: Effect.map(
      everywhere(JobSearch, (search) => search.counts),
      (found) => {
        const all = found.flat()
        const names = [...new Set(all.map(({ queue }) => queue))].sort()
        const partsOf = (name: string) => all.filter(({ queue }) => queue === name)
        return names.map((name) => together(name, partsOf(name)))
      }
    ),
    overdue: (before) =>
      everywhere(JobSearch, (search) => search.overdue(before)).pipe(Effect.map((found) => [...new Set(found.flat())]))
  })

  const actions = (of: (admin: typeof JobAdmin.Service) => JobActions): JobActions => ({
    cancel: (id) => ofJob(id, JobAdmin, (admin) => of(admin).cancel(id)),
    requeue: (id) => ofJob(id, JobAdmin, (admin) => of(admin).requeue(id)),
    runNow: (id) => ofJob(id, JobAdmin, (admin) => of(admin).runNow(id)),
    remove: (id) => ofJob(id, JobAdmin, (admin) => of(admin).remove(id))
  })

  const admin = JobAdmin.of({
    ...actions((admin) => admin),
    recordingUndo: (act) => actions((admin) => admin.recordingUndo(act)),
    edit: (id, edit) => ofJob(id, JobAdmin, (admin) => admin.edit(id, edit)),
    undo: (id, act) => ofJob(id, JobAdmin, (admin) => admin.undo(id, act), isForgotten),
    undoable: (acts) =>
      everywhere(JobAdmin, (admin) => admin.undoable(acts)).pipe(
        Effect.map((found) => new Set(found.flatMap((each) => [...each])))
      ),
    eraseUndo: (subject, act) =>
      everywhere(JobAdmin, (admin) => admin.eraseUndo(subject, act)).pipe(
        Effect.map((found) => found.reduce((whole, part) => whole + part, 0))
      ),
    pruneUndo: (olderThan) =>
      everywhere(JobAdmin, (admin) => admin.pruneUndo(olderThan)).pipe(
        Effect.map((found) => found.reduce((whole, part) => whole + part, 0))
      )
  })

  const logs = JobLogs.of({
    write: (logs) =>
      Effect.forEach(
        byCell(logs, ({ id }) => cellOfId(fleet, id) ?? fleet.main),
        ([cell, some]) => inEach([cell], JobLogs, (port) => port.write(some)),
        { discard: true }
      ),
    // A job without logs and a job of another cell look the same, so the job is read first.
    read: (id) =>
      ofJob(id, JobLogs, (port) =>
        Effect.zipRight(
          Effect.flatMap(JobSearch, (search) => search.get(id)),
          port.read(id)
        )
      ).pipe(Effect.catchTag("JobNotFound", () => Effect.succeed([])))
  })

  /** Settings of a queue in one of its cells, as those of the whole queue. */
  const whole = (queue: QueueSettings): QueueSettings => ({
    ...queue,
    rate: RateShare.together(queue.rate, cellsOf(fleet, queue.name).length)
  })

  /** Changes a queue in one of its cells after another. An error after the first one does not say that nothing was changed. */
  const ofQueue = <A, E>(name: string, use: (queues: typeof Queues.Service) => Effect.Effect<A, E>) =>
    Effect.map(
      Effect.forEach(cellsOf(fleet, name), (cell, place) =>
        Effect.mapError(inEach([cell], Queues, use), (error) =>
          place > 0 && error instanceof CellUnavailable
            ? new CellUnavailable(error.cell, { ...error, nothingWritten: false })
            : error
        )
      ),
      (found) => found[0]?.[0] as A
    )

  const queues = Queues.of({
    declare: (names) =>
      Effect.forEach(names, (name) => ofQueue(name, (port) => port.declare([name])), { discard: true }),
    declareSettings: (name, settings) => ofQueue(name, (port) => port.declareSettings(name, settings)),
    all: Effect.map(
      everywhere(Queues, (port) => port.all),
      (found) => {
        const byName = new Map<string, QueueSettings>()
        // A cell may have settings of a queue that has left it.
        for (const [place, some] of found.entries())
          for (const queue of some)
            if (!byName.has(queue.name) || cellsOf(fleet, queue.name)[0] === all[place]) byName.set(queue.name, queue)
        return [...byName.values()].map(whole).sort((a, b) => (a.name < b.name ? -1 : 1))
      }
    ),
    get: (name) =>
      Effect.map(
        inEach(cellsOf(fleet, name).slice(0, 1), Queues, (port) => port.get(name)),
        ([first]) => whole(first as QueueSettings)
      ),
    change: (name, patch) =>
      Effect.map(
        ofQueue(name, (port) => port.change(name, RateShare.inPatch(patch, cellsOf(fleet, name).length))),
        ({ after, before }) => ({ after: whole(after), before: whole(before) })
      ),
    known: (name) => {
      const opened = cells.opened(cellsOf(fleet, name)[0] ?? fleet.main)
      const known = opened === undefined ? undefined : Context.get(opened.services, Queues).known(name)
      return known === undefined ? undefined : whole(known)
    }
  })

  return Context.make(JobSearch, search).pipe(
    Context.add(JobAdmin, admin),
    Context.add(JobLogs, logs),
    Context.add(Queues, queues)
  )
})

/** Reads of jobs, acts on them, and settings of queues, over all cells. */
export const layer: Layer.Layer<JobSearch | JobAdmin | JobLogs | Queues, never, Cells> = Layer.effectContext(make)
