import { Context, Effect, Layer, Predicate, Scope } from "effect"
import { Audit } from "../../access/Audit.js"
import { Database } from "../../database/Database.js"
import { identityOfTables } from "../../fleet/Cells.js"
import type { Cell } from "../../fleet/Fleet.js"
import type * as Mover from "../../fleet/move/Mover.js"
import { type QueueSettings, Queues } from "../../queue/settings/QueueSettings.js"
import { SomeFailed } from "../Failure.js"
import * as QueueLayer from "../QueueLayer.js"
import { changed } from "../queues/QueuesCommand.js"
import * as Settings from "../Settings.js"

// The cells of a move, and the settings of its queues in them.

/** A cell whose database is open. */
export interface OpenCell extends Mover.Side {
  readonly identity: string
  readonly services: Context.Context<QueueLayer.QueueServices | Database>
}

/** Opens cells, each once. Refuses two with the same tables: a job would be its own copy, and be deleted as one. */
export const opener = Effect.map(Effect.scope, (scope) => {
  const open = new Map<Cell, OpenCell>()
  return (cell: Cell) =>
    Effect.gen(function* () {
      const known = open.get(cell)
      if (known !== undefined) return known
      const services = yield* Layer.build(QueueLayer.layerForCommand).pipe(
        Scope.extend(scope),
        Settings.configured({ NIGHTSHIFT_CELL: cell.name })
      )
      const identity = yield* Effect.provide(identityOfTables, services)
      const twin = [...open.values()].find((each) => each.identity === identity)
      if (twin !== undefined)
        return yield* new SomeFailed({
          reasons: [
            `Cells ${twin.cell.name} and ${cell.name} are the same database and schema. Give each cell its own, and run the command again. Nothing was changed.`
          ]
        })
      const opened = { cell, services, identity, database: Context.get(services, Database) }
      open.set(cell, opened)
      return opened
    })
})

const inCell = <A, E>(cell: OpenCell, effect: Effect.Effect<A, E, QueueLayer.QueueServices | Database>) =>
  Effect.provide(effect, cell.services)

/** Recorded with every change of a move, so that a later run knows what an earlier one has paused. */
const reasonOf = "nightshift fleet move"

/** The settings of a queue in a cell, if it has any. */
export const settingsIn = (cell: OpenCell, queue: string) =>
  inCell(
    cell,
    Effect.flatMap(Queues, (queues) => queues.get(queue)).pipe(
      Effect.catchTag("QueueNotFound", () => Effect.succeed(undefined))
    )
  )

/** Pauses a queue. Returns whether it was open. */
export const pause = (cell: OpenCell, queue: string) =>
  Effect.gen(function* () {
    if ((yield* settingsIn(cell, queue))?.paused === true) return false
    yield* inCell(cell, changed(queue, { paused: true }, reasonOf))
    return true
  })

/** Recorded with a pause that a new cell has because an operator has paused the queue in an old one. */
const keptReason = `${reasonOf}: paused in the old cell`

const isPaused = (state: unknown) => Predicate.hasProperty(state, "paused") && state.paused === true

/** Who has paused a queue, if it is paused. */
const pausedBy = (cell: OpenCell, queue: string) =>
  Effect.gen(function* () {
    if ((yield* settingsIn(cell, queue))?.paused !== true) return undefined
    const { entries } = yield* inCell(
      cell,
      Effect.flatMap(Audit, (audit) => audit.list({ target: queue, act: "queue.change" }, { limit: 100 }))
    )
    const isMove = (reason: string | undefined) => reason === reasonOf || reason === keptReason
    const last = entries.find(
      ({ after, before, reason }) => isPaused(before) !== isPaused(after) || (isPaused(after) && isMove(reason))
    )
    // A program that pauses a queue leaves no entry.
    if (last === undefined || !isPaused(last.after) || !isMove(last.reason)) return "operator"
    return last.reason === reasonOf ? "move" : "kept"
  })

/** Resumes a queue that a move has paused. One that an operator has paused stays so. Undefined if it was not paused. */
export const resume = (cell: OpenCell, queue: string) =>
  Effect.gen(function* () {
    const by = yield* pausedBy(cell, queue)
    if (by !== "move") return by === undefined ? undefined : "still paused"
    yield* inCell(cell, changed(queue, { paused: false }, reasonOf))
    return "resumed"
  })

/**
 * Pauses a queue in a new cell if an operator has paused it in an old one. Returns that one if the queue was not paused so
 * already. Without such a cell, a pause of an interrupted move is one of this move.
 */
export const keepPaused = (old: ReadonlyArray<OpenCell>, to: OpenCell, queue: string) =>
  Effect.gen(function* () {
    const by = yield* pausedBy(to, queue)
    const states = yield* Effect.forEach(old, (from) => pausedBy(from, queue))
    const source = old.find((_, place) => states[place] === "operator" || states[place] === "kept")
    if (source === undefined && by !== "kept") return undefined
    if (source !== undefined && (by === "operator" || by === "kept")) return undefined
    yield* inCell(to, changed(queue, { paused: true }, source === undefined ? reasonOf : keptReason))
    return source
  })

/** Gives a queue in a new cell the settings of another cell. Returns false if it has settings of its own. */
export const copySettings = (cell: OpenCell, { name, ...from }: QueueSettings, rate: QueueSettings["rate"]) =>
  Effect.gen(function* () {
    const before = yield* settingsIn(cell, name)
    if (before !== undefined && before.revision > 1) return false
    const queues = Context.get(cell.services, Queues)
    yield* queues.declare([name])
    const { backoff, depthCap = null, maxWorkers, perKey = null, retainDead = null, retainDone = null } = from
    const patch = { maxWorkers, retainDone, retainDead, backoff, rate: rate ?? null, perKey, depthCap }
    yield* inCell(cell, changed(name, patch, reasonOf))
    return true
  })
