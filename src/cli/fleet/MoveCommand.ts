import { Console, Duration, Effect } from "effect"
import { span } from "../../core/SpanText.js"
import { plainNames } from "../../core/Storable.js"
import { cellsOf, type Fleet, namesOf } from "../../fleet/Fleet.js"
import * as FleetConfig from "../../fleet/FleetConfig.js"
import * as Moved from "../../fleet/move/Moved.js"
import { isQueueName } from "../../queue/NewJob.js"
import * as CommonOptions from "../CommonOptions.js"
import { SomeFailed, UsageError } from "../Failure.js"
import * as Command from "../kit/Command.js"
import * as Input from "../kit/Input.js"
import * as Settings from "../Settings.js"
import { counted, print, printJson, table } from "../Terminal.js"
import * as MoveCells from "./MoveCells.js"
import * as MovePlan from "./MovePlan.js"
import * as MoveRun from "./MoveRun.js"

/** Jobs per second that a move copies, for the estimate of a dry run. A guess: it has not been measured. */
const perSecond = 3_000

interface Given {
  readonly queues: ReadonlyArray<string>
  readonly to: string | undefined
  readonly from: string | undefined
  readonly deadline: Duration.Duration
  readonly returnRunning: boolean
  readonly dryRun: boolean
  readonly json: boolean
}

const placementOf = (fleet: Fleet, { queues, to }: Given) =>
  Effect.gen(function* () {
    const bad = queues.find((queue) => !isQueueName(queue))
    if (bad !== undefined) {
      const message = `${JSON.stringify(bad)} is not a queue name: use ${plainNames}.`
      return yield* new UsageError({ message })
    }
    const names = to?.split(",").map((name) => name.trim())
    const cells =
      names === undefined ? undefined : yield* Effect.forEach(names, (name) => FleetConfig.cellOf(fleet, name))
    if (cells !== undefined && new Set(cells).size < cells.length)
      return yield* new UsageError({ message: `--to names a cell twice: ${to}.` })
    return { fleet, queues: [...new Set(queues)], to: cells } satisfies MovePlan.Placement
  })

const heading = ["QUEUE", "FROM", "TO", "WAITING", "RUNNING"]

const run = (given: Given) =>
  Effect.gen(function* () {
    const fleet = yield* FleetConfig.required
    const placement = yield* placementOf(fleet, given)
    const open = yield* MoveCells.opener
    const chosen = given.from === undefined ? [...fleet.cells.values()] : [yield* FleetConfig.cellOf(fleet, given.from)]
    const targets = placement.queues.flatMap((queue) => MovePlan.cellsFor(placement, queue))
    const sources = yield* Effect.forEach(chosen, open)
    const sides = yield* Effect.forEach(new Set([...chosen, ...targets]), open)
    const leaving = (yield* Effect.forEach(placement.queues, (queue) =>
      Effect.forEach(sources, (from) => MovePlan.leaving(placement, queue, from))
    )).flat(2)
    const total = leaving.reduce((sum, { jobs, running }) => sum + jobs + running, 0)
    const moving: MoveRun.Run = {
      placement,
      sources,
      sides,
      open,
      deadline: given.deadline,
      returns: given.returnRunning,
      say: (line) => (given.json ? Effect.void : Console.log(line)),
      has: (queue, cell) =>
        cellsOf(fleet, queue).includes(cell) || leaving.some((part) => part.queue === queue && part.from.cell === cell),
      total,
      moved: Moved.none,
      isListChanged: false,
      refused: new Set()
    }
    yield* MoveRun.refuse(moving)
    const plan = leaving.map(({ from, jobs, queue, running, to }) => ({
      queue,
      from: from.cell.name,
      to: to.name,
      waiting: jobs,
      running
    }))
    const seconds = Math.max(1, Math.ceil(total / perSecond))
    if (given.dryRun) {
      const rows = plan.map((row) => Object.values(row).map(String))
      yield* print(given.json, { plan, seconds }, table(heading, rows))
      if (given.json) return
      const changes = placement.queues.filter(
        (queue) => namesOf(MovePlan.cellsFor(placement, queue)) !== namesOf(cellsOf(fleet, queue))
      )
      if (changes.length > 0)
        yield* Console.log(`The list would place ${changes.join(", ")} in ${namesOf(placement.to ?? [])}.`)
      return yield* Console.log(
        `${counted(total, "job")} would move, in about ${span(seconds)} after running jobs have ended. Nothing was changed.`
      )
    }
    const released = yield* MoveRun.move(moving)
    const { known, moved, refused, withoutKey } = moving.moved
    if (given.json) yield* printJson({ plan, moved, released, known, withoutKey, refused })
    else {
      yield* Console.log(
        moved + released === 0 ? "no job had to move" : `moved ${counted(moved, "job")}; ${released} can start now`
      )
      if (known > 0)
        yield* Console.log(
          `deleted ${counted(known, "old copy", "old copies")} of jobs that the other cell has already`
        )
      if (withoutKey > 0)
        yield* Console.log(
          `${counted(withoutKey, "job")} lost the dedupe key, which another job has in the new cell: both run`
        )
    }
    if (refused.length > 0)
      return yield* new SomeFailed({
        reasons: refused.map(
          (execution) =>
            `The execution ${execution} exists in both cells, so it was not moved. Cancel one of them, and run the command again.`
        )
      })
  }).pipe(Effect.scoped, Settings.configured({}))

export const move = Command.make({
  about: "Move queues and their unfinished jobs to other cells, or continue an interrupted move.",
  args: { queues: Input.several(Input.text, "The queues. Those with common workflows or batches move together.") },
  options: {
    to: Input.optional(
      Input.text,
      "The cells that have the queues afterwards: one, or several like a,b to divide them by key. Without it, jobs move to where the list places them. Jobs of a key keep their order, except those that are stored with the old list after it has changed, and keys of a cell that is removed: if that matters, pause the queues in all cells until all producers have the new list."
    ),
    from: Input.optional(Input.text, "Move only the jobs of this cell (default all cells)."),
    deadline: Input.withDefault<Duration.Duration, Duration.Duration>(
      Input.duration,
      Duration.minutes(5),
      "How long to wait for running jobs (default 5m)."
    ),
    returnRunning: Input.flag("After the deadline, return running jobs to the queue and discard what they have done."),
    dryRun: Input.flag("Print what would move, and change nothing."),
    json: CommonOptions.json
  },
  examples: {
    "nightshift fleet move mail --to mail-2 --dry-run": "see how many jobs would move",
    "nightshift fleet move mail --to mail-2": "move the queue",
    "nightshift fleet move mail --to mail,mail-2,mail-3": "divide it over one more cell",
    "nightshift fleet move mail": "move jobs that were stored with an old list"
  },
  run
})
