import { Effect } from "effect"
import type { JobId } from "../../core/Ids.js"
import { type Cell, cellsOf, type Fleet, rendezvous } from "../../fleet/Fleet.js"
import * as Mover from "../../fleet/move/Mover.js"
import { counted } from "../Terminal.js"
import type { OpenCell } from "./MoveCells.js"

// Which jobs of a cell belong in another one.

/** Where queues are to be. */
export interface Placement {
  readonly fleet: Fleet
  readonly queues: ReadonlyArray<string>
  /** The new cells of all queues. Undefined: those of the list. */
  readonly to: ReadonlyArray<Cell> | undefined
}

export const cellsFor = ({ fleet, to }: Placement, queue: string): ReadonlyArray<Cell> => to ?? cellsOf(fleet, queue)

/** Whether no job of the queue may stay in the cell. */
export const leaves = (placement: Placement, queue: string, cell: Cell): boolean =>
  !cellsFor(placement, queue).includes(cell)

/**
 * The cell of a stored job. What a job is linked to is in the same cell: such jobs stay as long as the cell has the queue,
 * otherwise all of them go to the first cell. So do jobs without a key stay, which may be in any cell.
 */
export const placeOf = (placement: Placement, queue: string, from: Cell, job: Mover.PlacedRow): Cell => {
  const cells = cellsFor(placement, queue)
  const [first = from] = cells
  const key = job.key ?? job.dedupe_key
  if (cells.length === 1) return first
  if (job.linked || key === null) {
    if (cells.includes(from)) return from
    return job.linked ? first : (rendezvous(cells, job.id) ?? first)
  }
  return rendezvous(cells, key) ?? first
}

/** Whether all jobs of an interrupted move have their place where it takes them. */
export const isPlaced = (placement: Placement, way: Mover.Way, from: OpenCell, to: OpenCell) =>
  Effect.gen(function* () {
    const cells = cellsFor(placement, way.queue)
    if (!cells.includes(to.cell)) return false
    let misplaced = 0
    const compare = (jobs: ReadonlyArray<Mover.PlacedRow>) =>
      Effect.sync(() => {
        misplaced += jobs.filter((job) => placeOf(placement, way.queue, from.cell, job) !== to.cell).length
      })
    if (cells.length > 1)
      for (const side of [from, to]) yield* Mover.reads(side).eachWaiting(Mover.heldQueue(way), compare)
    return misplaced === 0
  })

/** Jobs of a queue that leave a cell, by the cell that they go to. */
export interface Leaving {
  readonly queue: string
  readonly from: OpenCell
  readonly to: Cell
  readonly jobs: number
  readonly running: number
}

const tieText = {
  child: (jobs: string, { other, queue }: Mover.Tie, cell: string) =>
    `Executions of queue ${queue} wait for ${jobs} of queue ${other}, which stays in ${cell}.`,
  parent: (jobs: string, { other, queue }: Mover.Tie, cell: string) =>
    `Executions of queue ${other}, which stays in ${cell}, wait for ${jobs} of queue ${queue}.`,
  batch: (jobs: string, { other, queue }: Mover.Tie, cell: string) =>
    `Batches of queue ${queue} have ${jobs} in queue ${other}, which stays in ${cell}.`,
  endpoint: (jobs: string, { queue }: Mover.Tie, cell: string) =>
    `${jobs} of queue ${queue} ${jobs.startsWith("1 ") ? "sends a webhook" : "send webhooks"} to endpoints, which stay in ${cell}.`
}

/** Why jobs of these queues cannot leave a cell: jobs of other queues need them. */
export const refusals = (placement: Placement, from: OpenCell) =>
  Effect.gen(function* () {
    const leaving = placement.queues.filter((queue) => leaves(placement, queue, from.cell))
    const groups = new Map<Cell | undefined, Array<string>>()
    for (const queue of leaving) {
      const [first] = cellsFor(placement, queue)
      groups.set(first, [...(groups.get(first) ?? []), queue])
    }
    const found = yield* Effect.forEach(groups, ([to, queues]) => {
      const held = queues.map((queue) => Mover.heldQueue({ queue, from: from.cell.name, to: to?.name ?? "" }))
      return Effect.map(Mover.reads(from).ties([...queues, ...held]), (ties) =>
        ties.map((tie) => {
          const words = counted(tie.jobs, "job")
          const queue = Mover.wayOf(tie.queue)?.queue ?? tie.queue
          const reason = tieText[tie.tie](words, { ...tie, queue }, from.cell.name)
          return tie.tie === "endpoint"
            ? `${reason} Wait until these jobs have ended.`
            : `${reason} Move both queues in one command: \`nightshift fleet move ${[...queues, tie.other].join(" ")} --to ${to?.name ?? ""}\`. Or wait until these jobs have ended.`
        })
      )
    })
    return found.flat()
  })

/** Running jobs of a queue that must end before they can leave a cell. */
export const running = (placement: Placement, queue: string, from: OpenCell) =>
  Effect.map(Mover.reads(from).running(queue), (jobs) =>
    jobs.filter((job) => placeOf(placement, queue, from.cell, job) !== from.cell)
  )

/** Counts the jobs of a queue that leave a cell, with those that an interrupted move holds. */
export const leaving = (placement: Placement, queue: string, from: OpenCell) =>
  Effect.gen(function* () {
    const reads = Mover.reads(from)
    const counts = new Map<Cell, { jobs: number; running: number }>()
    const count = (to: Cell, part: "jobs" | "running", by = 1) => {
      const known = counts.get(to) ?? { jobs: 0, running: 0 }
      counts.set(to, { ...known, [part]: known[part] + by })
    }
    yield* reads.eachWaiting(queue, (jobs) =>
      Effect.sync(() => {
        for (const job of jobs) count(placeOf(placement, queue, from.cell, job), "jobs")
      })
    )
    for (const job of yield* reads.running(queue)) count(placeOf(placement, queue, from.cell, job), "running")
    for (const to of cellsFor(placement, queue)) {
      const held = yield* reads.count(Mover.heldQueue({ queue, from: from.cell.name, to: to.name }))
      if (held > 0) count(to, "jobs", held)
    }
    return [...counts].flatMap(
      ([to, { jobs, running }]): ReadonlyArray<Leaving> =>
        to === from.cell ? [] : [{ queue, from, to, jobs, running }]
    )
  })

/**
 * Takes the waiting jobs of a queue that leave a cell out of the queue, and returns those that run. No job of the queue starts
 * meanwhile: the second job of a key must not start because the first was taken out before it, and a job that is about to start
 * must not be missed.
 */
export const hold = (
  placement: Placement,
  queue: string,
  from: OpenCell,
  to: ReadonlyArray<OpenCell>,
  refused: ReadonlySet<string>
) =>
  Mover.withoutClaims(
    from,
    queue,
    Effect.gen(function* () {
      // In this order: a job that ends in between returns to the queue, and is taken out.
      const left = yield* running(placement, queue, from)
      let isFirst = true
      yield* Mover.reads(from).eachWaiting(queue, (jobs) => {
        const leaving = jobs.flatMap((job) => {
          const to = placeOf(placement, queue, from.cell, job)
          if (to === from.cell || (job.dedupe_key !== null && refused.has(job.dedupe_key))) return []
          return [{ id: job.id, into: Mover.heldQueue({ queue, from: from.cell.name, to: to.name }) }]
        })
        if (leaving.length === 0) return Effect.void
        const before = isFirst ? Mover.precede(from, to, queue) : Effect.void
        isFirst = false
        return Effect.zipRight(before, Mover.hold(from, queue, leaving))
      })
      return left
    })
  )

/** Finished jobs that go with those that leave: holders of dedupe keys, ended children, and ended jobs of open batches. */
export const finished = (placement: Placement, queue: string, from: OpenCell, to: Cell) =>
  Effect.gen(function* () {
    const reads = Mover.reads(from)
    const holders = (yield* reads.finished(queue)).filter((job) => placeOf(placement, queue, from.cell, job) === to)
    const held = Mover.heldQueue({ queue, from: from.cell.name, to: to.name })
    const ids: ReadonlyArray<JobId> = [...holders.map(({ id }) => id), ...(yield* reads.companions([held]))]
    return [...new Set(ids)]
  })
