import { Clock, Duration, Effect } from "effect"
import { type Cell, cellsOf, namesOf } from "../../fleet/Fleet.js"
import * as FleetConfig from "../../fleet/FleetConfig.js"
import * as Moved from "../../fleet/move/Moved.js"
import * as Mover from "../../fleet/move/Mover.js"
import { Queue } from "../../queue/Queue.js"
import * as RateShare from "../../queue/settings/RateShare.js"
import { SomeFailed } from "../Failure.js"
import * as ProgressBar from "../ProgressBar.js"
import { counted } from "../Terminal.js"
import * as FleetList from "./FleetList.js"
import * as MoveCells from "./MoveCells.js"
import * as MovePlan from "./MovePlan.js"

// Moves queues: hold and drain, copy, change the list, collect what came meanwhile, release. Every step can be repeated, and the
// next step is found from what the databases contain, so that a killed command is continued by running it again.

export interface Run {
  readonly placement: MovePlan.Placement
  /** Cells whose jobs move. */
  readonly sources: ReadonlyArray<MoveCells.OpenCell>
  /** These cells and those that get jobs. */
  readonly sides: ReadonlyArray<MoveCells.OpenCell>
  readonly open: Effect.Effect.Success<typeof MoveCells.opener>
  readonly deadline: Duration.Duration
  readonly returns: boolean
  readonly say: (line: string) => Effect.Effect<void>
  /** Whether the list places a queue in the cell, or the cell has jobs of it. */
  readonly has: (queue: string, cell: Cell) => boolean
  /** Jobs that are expected to move. */
  readonly total: number
  moved: Moved.Moved
  isListChanged: boolean
  readonly refused: Set<string>
}

const sourceAndTarget = ({ open, placement }: Run, way: Mover.Way) =>
  Effect.gen(function* () {
    const cell = (name: string) => FleetConfig.cellOf(placement.fleet, name)
    return [yield* open(yield* cell(way.from)), yield* open(yield* cell(way.to))] as const
  })

/** Ways of the jobs of these queues that move, in all open cells. */
export const waysOf = (run: Run) =>
  Effect.gen(function* () {
    const found = new Map<string, Mover.Way>()
    for (const side of run.sides) {
      const pending = yield* Effect.provide(
        Effect.flatMap(Queue, (queue) => queue.pendingQueues),
        side.services
      )
      for (const way of yield* Mover.reads(side).ways(pending))
        if (run.placement.queues.includes(way.queue)) found.set(Mover.heldQueue(way), way)
    }
    return [...found.values()]
  })

/** Returns the jobs of interrupted moves, except those of ways that are wanted. */
const goBack = <E>(
  run: Run,
  isWanted: (way: Mover.Way, from: MoveCells.OpenCell, to: MoveCells.OpenCell) => Effect.Effect<boolean, E>
) =>
  Effect.gen(function* () {
    for (const way of yield* waysOf(run)) {
      const [from, to] = yield* sourceAndTarget(run, way)
      if (yield* isWanted(way, from, to)) continue
      yield* Mover.back(from, to, way)
      const batches = Mover.batches(from, to)
      yield* batches.back
      // What had left belongs to the other cell now.
      yield* batches.move
      yield* batches.release
      yield* Mover.release(from, to, way)
    }
  })

const stillRunning = (jobs: ReadonlyArray<Mover.RunningRow>, cell: string, { deadline, isListChanged }: Run) =>
  new SomeFailed({
    reasons: [
      `${counted(jobs.length, "job")} of cell ${cell} did not end within ${Duration.format(deadline)}: ${jobs
        .slice(0, 5)
        .map(({ id, kind }) => `${kind} ${id}`)
        .join(", ")}${jobs.length > 5 ? ", …" : ""}.`,
      `${isListChanged ? "Waiting jobs of these keys are safe and do not start." : "Nothing was moved, and the queue runs where it was."} Run the command again with a longer --deadline, or with --return-running, which returns them to the queue and discards what they have done.`
    ]
  })

/** Holds the waiting jobs of a queue that leave a cell, until none of them runs any more. */
const drain = (run: Run, queue: string, from: MoveCells.OpenCell) =>
  Effect.gen(function* () {
    const until = (yield* Clock.currentTimeMillis) + Duration.toMillis(run.deadline)
    const others = MovePlan.cellsFor(run.placement, queue).filter((cell) => cell !== from.cell)
    const to = yield* Effect.forEach(others, run.open)
    for (;;) {
      let running = yield* MovePlan.hold(run.placement, queue, from, to, run.refused)
      if (running.length === 0) return
      while (running.length > 0 && (yield* Clock.currentTimeMillis) < until) {
        yield* ProgressBar.write(
          `waiting for ${counted(running.length, "running job")} of ${queue} in ${from.cell.name}`
        )
        yield* Effect.sleep("200 millis")
        running = yield* MovePlan.running(run.placement, queue, from)
      }
      if (running.length === 0) continue
      if (!run.returns) return yield* stillRunning(running, from.cell.name, run)
      const runAt = yield* Clock.currentTimeMillis
      const again = { _tag: "Again", runAt, counted: false, error: undefined, remember: undefined } as const
      const ends = running.map(({ id, lease }) => ({ id, lease, end: again }))
      yield* Effect.provide(
        Effect.flatMap(Queue, (port) => port.finalize(ends)),
        from.services
      )
      yield* run.say(`returned ${counted(running.length, "running job")} of ${queue} in ${from.cell.name}`)
    }
  })

/** Copies what is held for this way, and deletes it where it was. */
const carry = (run: Run, way: Mover.Way) =>
  Effect.gen(function* () {
    const [from, to] = yield* sourceAndTarget(run, way)
    const batches = Mover.batches(from, to)
    yield* batches.hold([Mover.heldQueue(way)])
    const finished = yield* MovePlan.finished(run.placement, way.queue, from, to.cell)
    let count = run.moved.moved
    const moved = yield* Mover.transferAll(from, to, way, finished, (jobs) => {
      count += jobs
      return ProgressBar.draw("moving", Math.min(count, run.total), run.total)
    })
    run.moved = Moved.plus(run.moved, moved)
    for (const execution of moved.refused) run.refused.add(execution)
  })

/** A queue in a cell. */
interface Source {
  readonly queue: string
  readonly from: MoveCells.OpenCell
}

const sourcesOf = (run: Run): ReadonlyArray<Source> =>
  run.placement.queues.flatMap((queue) => run.sources.map((from) => ({ queue, from })))

/** Cells that must not have the queue afterwards. */
const leavesIn = (run: Run) =>
  sourcesOf(run).filter(({ from, queue }) => MovePlan.leaves(run.placement, queue, from.cell))

/** The ways of all jobs that leave these cells, with those of an interrupted move. */
const allWays = (run: Run, sources: ReadonlyArray<Source>) =>
  Effect.map(waysOf(run), (found) => {
    const planned = sources.flatMap(({ from, queue }) =>
      MovePlan.cellsFor(run.placement, queue).flatMap(({ name }) =>
        name === from.cell.name ? [] : [{ queue, from: from.cell.name, to: name }]
      )
    )
    return [...new Map([...found, ...planned].map((way) => [Mover.heldQueue(way), way])).values()]
  })

const carryAll = (run: Run, sources: ReadonlyArray<Source>) =>
  Effect.gen(function* () {
    const ways = yield* allWays(run, sources)
    for (const way of ways) yield* carry(run, way)
    // Batches may have jobs of several queues.
    const pairs = new Map(ways.map((way) => [`${way.from}>${way.to}`, way]))
    for (const way of pairs.values()) {
      const [from, to] = yield* sourceAndTarget(run, way)
      yield* Mover.batches(from, to).move
    }
  })

/** Cells that get queues which they did not have: paused until the jobs have arrived, so that the order of keys is kept. */
const newIn = (run: Run) =>
  Effect.forEach(
    run.placement.queues.flatMap((queue) =>
      MovePlan.cellsFor(run.placement, queue)
        .filter((cell) => !cellsOf(run.placement.fleet, queue).includes(cell))
        .map((cell) => ({ queue, cell }))
    ),
    ({ cell, queue }) => Effect.map(run.open(cell), (to) => ({ queue, to }))
  )

/** Gives new cells the settings of the queue, with its share of the rate limit. */
const copySettings = (run: Run) =>
  Effect.gen(function* () {
    const added = yield* newIn(run)
    for (const queue of run.placement.queues) {
      const old = cellsOf(run.placement.fleet, queue)
      const cells = MovePlan.cellsFor(run.placement, queue)
      if (namesOf(cells) === namesOf(old)) continue
      const from = yield* run.open(old[0] ?? run.placement.fleet.main)
      const settings = yield* MoveCells.settingsIn(from, queue)
      if (settings === undefined) continue
      const whole = RateShare.together(settings.rate, old.length)
      const share = whole === undefined ? undefined : RateShare.of(whole, cells.length)
      for (const { queue: each, to } of added) {
        if (each !== queue) continue
        const isCopied = yield* MoveCells.copySettings(to, settings, share)
        yield* run.say(
          isCopied
            ? `copied the settings of ${queue} from ${from.cell.name} to ${to.cell.name}${share === undefined ? "" : `, with a rate of ${RateShare.text(share)}`}`
            : `${to.cell.name} has its own settings of ${queue}, which stay: compare them with those of ${from.cell.name}`
        )
        const leaving = run.sources.filter(({ cell }) => old.includes(cell))
        const paused = yield* MoveCells.keepPaused(leaving, to, queue)
        if (paused !== undefined)
          yield* run.say(`paused ${queue} in ${to.cell.name}, because an operator has paused it in ${paused.cell.name}`)
      }
      const staying = cells.filter((cell) => old.includes(cell))
      if (share !== undefined && staying.length > 0 && cells.length !== old.length)
        yield* run.say(
          `set the rate of ${queue} to ${RateShare.text(share)} in ${namesOf(staying)}: a rate limit holds in each cell`
        )
    }
  })

/** Names what stores jobs in a queue in a cell that it leaves, and does not move. */
const nameSources = (run: Run) =>
  Effect.forEach(leavesIn(run), ({ from, queue }) =>
    Effect.gen(function* () {
      const cell = from.cell.name
      const there = namesOf(MovePlan.cellsFor(run.placement, queue).slice(0, 1))
      const tell = (noun: string, names: ReadonlyArray<string>, advice: (them: string) => string) => {
        const [store, them] = names.length === 1 ? ["stores", "it"] : ["store", "them"]
        const found = `${counted(names.length, noun)} of ${cell} still ${store} jobs for ${queue} there`
        return names.length === 0 ? Effect.void : run.say(`${found}: ${names.join(", ")}. ${advice(them)}`)
      }
      const reads = Mover.reads(from)
      const schedules = (yield* reads.schedules(queue)).map(({ name }) => name)
      yield* tell("schedule", schedules, (them) => `Create ${them} in ${there} and remove ${them} here`)
      const subscribers = (yield* reads.subscribers(queue)).map(({ event, kind }) => `${event} ${kind}`)
      const command = `nightshift events unsubscribe <event> <subscriber> --cell ${cell}`
      yield* tell(
        "subscriber",
        subscribers,
        (them) =>
          `Events stay in the cell where they are published: publish in ${there}, and remove ${them} with \`${command}\``
      )
    })
  )

export const refuse = (run: Run) =>
  Effect.gen(function* () {
    const reasons = (yield* Effect.forEach(run.sources, (from) => MovePlan.refusals(run.placement, from))).flat()
    if (reasons.length > 0) return yield* new SomeFailed({ reasons })
  })

/** Before the list changes: all jobs that leave a cell for good are copied. On a failure the queue runs on where it was. */
const empty = (run: Run) => {
  const leaving = leavesIn(run)
  const paused = new Set<Source>()
  return Effect.gen(function* () {
    for (const source of leaving) {
      const { from, queue } = source
      if (!run.has(queue, from.cell) || !(yield* MoveCells.pause(from, queue))) continue
      paused.add(source)
      yield* run.say(`paused ${queue} in ${from.cell.name}`)
    }
    yield* Effect.forEach(leaving, ({ from, queue }) => drain(run, queue, from), { discard: true })
    // Executions that have just ended a run may have started jobs.
    yield* refuse(run)
  }).pipe(
    Effect.tapErrorTag("SomeFailed", () =>
      Effect.gen(function* () {
        const ways = yield* waysOf(run)
        const arrived = yield* Effect.forEach(ways, (way) =>
          Effect.flatMap(sourceAndTarget(run, way), ([, to]) => Mover.reads(to).count(Mover.heldQueue(way)))
        )
        // An earlier run has moved jobs: stay, and continue later.
        if (arrived.some((jobs) => jobs > 0)) return
        yield* goBack(run, () => Effect.succeed(false))
        // Cells that earlier moves have emptied stay paused.
        for (const source of leaving)
          if (paused.has(source) || cellsOf(run.placement.fleet, source.queue).includes(source.from.cell))
            yield* MoveCells.resume(source.from, source.queue)
      })
    )
  )
}

const switchList = (run: Run) =>
  Effect.gen(function* () {
    for (const queue of run.placement.queues) {
      const cells = MovePlan.cellsFor(run.placement, queue)
      if (namesOf(cells) === namesOf(cellsOf(run.placement.fleet, queue))) continue
      const lines = yield* FleetList.place(
        queue,
        cells.map(({ name }) => name)
      )
      yield* run.say(lines.join("\n"))
    }
  })

const verify = (run: Run) =>
  Effect.gen(function* () {
    const left = yield* waysOf(run)
    if (left.length === 0) return
    const reasons = left.map(
      ({ from, queue, to }) => `Some jobs of queue ${queue} could not move from ${from} to ${to}, and do not start.`
    )
    return yield* new SomeFailed({ reasons: [...reasons, "Run the command again."] })
  })

/** A cell that keeps a queue has lost some of its executions too. */
const sendStray = (run: Run) =>
  Effect.gen(function* () {
    const targets = new Set(run.placement.queues.flatMap((queue) => MovePlan.cellsFor(run.placement, queue)))
    for (const from of run.sources)
      for (const cell of targets) {
        if (cell === from.cell) continue
        const count = yield* Mover.sendStray(from, yield* run.open(cell))
        if (count > 0)
          yield* run.say(`sent ${counted(count, "signal")} that came to ${from.cell.name} on to ${cell.name}`)
      }
  })

export const move = (run: Run) =>
  Effect.gen(function* () {
    yield* goBack(run, (way, from, to) => MovePlan.isPlaced(run.placement, way, from, to))
    yield* copySettings(run)
    yield* empty(run)
    yield* carryAll(run, leavesIn(run))
    for (const { queue, to } of yield* newIn(run))
      if (yield* MoveCells.pause(to, queue))
        yield* run.say(`paused ${queue} in ${to.cell.name} until its jobs are there`)
    yield* switchList(run)
    run.isListChanged = true
    yield* Effect.forEach(sourcesOf(run), ({ from, queue }) => drain(run, queue, from), { discard: true })
    yield* carryAll(run, sourcesOf(run))
    yield* ProgressBar.clear
    let released = 0
    for (const way of yield* waysOf(run)) {
      const [from, to] = yield* sourceAndTarget(run, way)
      // Before its jobs, of which one is unfinished: the leader does not close it.
      yield* Mover.batches(from, to).release
      released += yield* Mover.release(from, to, way)
    }
    yield* verify(run)
    yield* sendStray(run)
    for (const queue of run.placement.queues)
      for (const cell of MovePlan.cellsFor(run.placement, queue)) {
        const became = yield* MoveCells.resume(yield* run.open(cell), queue)
        if (became === "resumed") yield* run.say(`resumed ${queue} in ${cell.name}`)
        // A pause of an earlier move looks like one of an operator once the audit log has lost it.
        if (became === "still paused")
          yield* run.say(
            `${queue} is paused in ${cell.name}, so its jobs do not start. If that is not intended: nightshift queues resume ${queue} --cell ${cell.name}`
          )
      }
    yield* nameSources(run)
    return released
  })
