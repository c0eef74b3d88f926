import { Context, Effect, Either, Exit, Layer, Runtime } from "effect"
import type { JobId } from "../core/Ids.js"
import type { NewJob } from "../queue/NewJob.js"
import {
  type ClaimedJob,
  type Enqueued,
  type EnqueueError,
  Queue,
  type Recovered,
  type Submit,
  submitterOf
} from "../queue/Queue.js"
import { isRouted, routed } from "../queue/settings/Routes.js"
import { Cells, on } from "./Cells.js"
import { type Cell, cellOfId, cellsOf, place } from "./Fleet.js"
import * as Placing from "./Placing.js"

// The queue over all cells. Each call goes to the cell of its queue and key; calls about the whole queue go to every cell.

/** What happened to one of several jobs. */
export type EachEnqueued = Either.Either<Enqueued, EnqueueError>

/** Stores jobs of several cells. */
export class EnqueueEach extends Context.Tag("nightshift/fleet/EnqueueEach")<
  EnqueueEach,
  /** Stores jobs, all or none in each cell, and returns what happened to each job, in the same order. */
  (jobs: ReadonlyArray<NewJob>) => Effect.Effect<ReadonlyArray<EachEnqueued>>
>() {}

interface Held {
  readonly id: JobId
}

const sumOf = (all: ReadonlyArray<Recovered>): Recovered =>
  all.reduce(
    (sum, { cancelled, poisoned, rescued }) => ({
      rescued: sum.rescued + rescued,
      poisoned: sum.poisoned + poisoned,
      cancelled: sum.cancelled + cancelled
    }),
    { rescued: 0, poisoned: 0, cancelled: 0 }
  )

/** Groups by cell, in the order of the first of each. */
export const byCell = <A>(items: ReadonlyArray<A>, cellOf: (item: A) => Cell): ReadonlyMap<Cell, ReadonlyArray<A>> => {
  const groups = new Map<Cell, Array<A>>()
  for (const item of items) {
    const cell = cellOf(item)
    const group = groups.get(cell)
    if (group === undefined) groups.set(cell, [item])
    else group.push(item)
  }
  return groups
}

const make = Effect.gen(function* () {
  const cells = yield* Cells
  const { fleet } = cells
  const all = [...fleet.cells.values()]
  const routes = yield* Placing.routesOf(cells)
  /** Cells of claimed jobs whose id does not name their cell. */
  const strays = new Map<JobId, Cell>()

  const queueOf =
    (cell: Cell) =>
    <A, E>(use: (queue: typeof Queue.Service) => Effect.Effect<A, E>) =>
      on(cells, cell)(Effect.flatMap(Queue, use))
  const everywhere = <A, E>(use: (queue: typeof Queue.Service) => Effect.Effect<A, E>) =>
    Effect.forEach(all, (cell) => queueOf(cell)(use), { concurrency: "unbounded" })
  const holderOf = ({ id }: Held) => strays.get(id) ?? cellOfId(fleet, id) ?? fleet.main
  /** The parts of a list by cell. A list of ends that is passed again must reach its cells as the same parts. */
  const parts = new WeakMap<ReadonlyArray<Held>, ReadonlyMap<Cell, ReadonlyArray<Held>>>()
  const partsOf = (items: ReadonlyArray<Held>) => {
    const known = parts.get(items) ?? byCell(items, holderOf)
    parts.set(items, known)
    return known
  }
  const inHolders = <I extends Held, A, E>(
    items: ReadonlyArray<I>,
    use: (queue: typeof Queue.Service, items: ReadonlyArray<I>) => Effect.Effect<A, E>
  ) =>
    Effect.forEach(partsOf(items), ([cell, some]) => queueOf(cell)((queue) => use(queue, some as ReadonlyArray<I>)), {
      concurrency: "unbounded"
    })

  const enqueue: typeof Queue.Service.enqueue = (jobs) =>
    Effect.gen(function* () {
      const placed = yield* Placing.placeAll(cells, routes, jobs)
      const cell = yield* Placing.oneCell(placed, fleet.main)
      yield* Placing.checkTransaction(cells, cell)
      return yield* queueOf(cell)((queue) => queue.enqueue(placed.map(({ job }) => job)))
    })

  const enqueueInside: typeof Queue.Service.enqueueInside = (run, jobs) =>
    Effect.gen(function* () {
      const placed = yield* Placing.placeAll(cells, routes, jobs)
      const cell = yield* Placing.oneCell(placed, fleet.main)
      yield* Placing.checkOuter(cells, cell, run)
      return yield* queueOf(cell)((queue) =>
        queue.enqueueInside(
          run,
          placed.map(({ job }) => job)
        )
      )
    })

  const enqueueEach: typeof EnqueueEach.Service = (jobs) =>
    Effect.gen(function* () {
      const placed = yield* Placing.placeAll(cells, routes, jobs)
      const results: Array<EachEnqueued> = []
      yield* Effect.forEach(
        byCell([...placed.entries()], ([, { cell }]) => cell),
        ([cell, some]) => {
          const stored = queueOf(cell)((queue) => queue.enqueue(some.map(([, { job }]) => job)))
          return Effect.map(Effect.either(stored), (answer) => {
            some.forEach(([index], place) => {
              results[index] = Either.map(answer, (all) => all[place] as Enqueued)
            })
          })
        },
        { concurrency: "unbounded", discard: true }
      )
      return results
    })

  /** For jobs that need the routes, and cells that are not open or did not answer. */
  const submitLater = yield* submitterOf(enqueue)
  /** The submitters of open cells. */
  const submitters = new Map<Cell, Submit>()
  const directOf = (cell: Cell): Submit | undefined => {
    const found = submitters.get(cell)
    const opened = found === undefined ? cells.opened(cell) : undefined
    if (opened === undefined) return found
    const made = Runtime.runSync(opened.runtime)(Effect.flatMap(Queue, (queue) => queue.submitter))
    submitters.set(cell, made)
    return made
  }
  const submit: Submit = (given, onResult) => {
    const queueOf = isRouted(given) ? routes.cached() : undefined
    const job = queueOf === undefined ? given : routed(given, queueOf)
    const cell = isRouted(job) ? undefined : place(fleet, job)
    const direct = cell === undefined ? undefined : directOf(cell)
    if (cell === undefined || direct === undefined || cells.isDown(cell)) return submitLater(job, onResult)
    direct(job, (exit) => onResult(Exit.isSuccess(exit) ? exit : Exit.mapError(exit, cells.inCell(cell))))
  }

  const queue = Queue.of({
    enqueue,
    enqueueInside,
    submitter: Effect.succeed(submit),
    claim: (request) =>
      Effect.gen(function* () {
        const claimed: Array<ClaimedJob> = []
        for (const cell of cellsOf(fleet, request.queue)) {
          const limit = request.limit - claimed.length
          if (limit <= 0) break
          const jobs = yield* queueOf(cell)((queue) => queue.claim({ ...request, limit }))
          for (const { id } of jobs) if (cellOfId(fleet, id) !== cell) strays.set(id, cell)
          claimed.push(...jobs)
        }
        return claimed
      }),
    finalize: (ends, whenLocked) =>
      Effect.tap(
        Effect.map(
          inHolders(ends, (queue, some) => queue.finalize(some, whenLocked)),
          (lost) => lost.flat()
        ),
        () =>
          Effect.sync(() => {
            for (const { id } of ends) strays.delete(id)
          })
      ),
    heartbeat: (held) =>
      Effect.map(
        inHolders(held, (queue, some) => queue.heartbeat(some)),
        (pulses) => ({
          lost: pulses.flatMap(({ lost }) => lost),
          cancelRequested: pulses.flatMap(({ cancelRequested }) => cancelRequested)
        })
      ),
    attempts: (pod, held) =>
      Effect.map(
        Effect.forEach(
          byCell([...held.entries()], ([, job]) => holderOf(job)),
          ([cell, some]) =>
            Effect.map(
              queueOf(cell)((queue) =>
                queue.attempts(
                  pod,
                  some.map(([, job]) => job)
                )
              ),
              (found) => some.map(([index], place) => [index, found[place]] as const)
            ),
          { concurrency: "unbounded" }
        ),
        (found) => {
          const byIndex = new Map(found.flat())
          return held.map((_, index) => byIndex.get(index))
        }
      ),
    progress: (job, progress) => queueOf(holderOf(job))((queue) => queue.progress(job, progress)),
    nextDue: (queues) =>
      Effect.map(
        everywhere((queue) => queue.nextDue(queues)),
        (found) => {
          const first = new Map<string, number>()
          for (const [name, at] of found.flatMap((each) => [...each]))
            first.set(name, Math.min(at, first.get(name) ?? at))
          return first
        }
      ),
    pendingQueues: Effect.map(
      everywhere((queue) => queue.pendingQueues),
      (found) => [...new Set(found.flat())].sort()
    ),
    recoverAbandoned: (quietFor) =>
      Effect.map(
        everywhere((queue) => queue.recoverAbandoned(quietFor)),
        sumOf
      ),
    recoverStuck: (stuckFor) =>
      Effect.map(
        everywhere((queue) => queue.recoverStuck(stuckFor)),
        sumOf
      ),
    recoverOrphaned: (pods) =>
      Effect.map(
        everywhere((queue) => queue.recoverOrphaned(pods)),
        (found) => ({ ...sumOf(found), left: [...new Set(found.flatMap(({ left }) => left))] })
      ),
    makeFollowUps: (kinds, compute) =>
      Effect.map(
        everywhere((queue) => queue.makeFollowUps(kinds, compute)),
        (found) => ({
          made: found.reduce((sum, { made }) => sum + made, 0),
          failed: found.flatMap(({ failed }) => failed)
        })
      ),
    purge: (doneRetention, fence) =>
      Effect.map(
        everywhere((queue) => queue.purge(doneRetention, fence)),
        (found) => ({
          done: found.reduce((sum, { done }) => sum + done, 0),
          dead: found.reduce((sum, { dead }) => sum + dead, 0)
        })
      )
  })
  return Context.make(Queue, queue).pipe(Context.add(EnqueueEach, enqueueEach))
})

/** The queue over all cells. */
export const layer: Layer.Layer<Queue | EnqueueEach, never, Cells> = Layer.effectContext(make)
