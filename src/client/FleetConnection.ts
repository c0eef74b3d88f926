import { Cause, Context, Effect, Either, Layer, Runtime } from "effect"
import type { Codec } from "../codec/Codec.js"
import { Database } from "../database/Database.js"
import { Cells, onHolder } from "../fleet/Cells.js"
import type { Cell } from "../fleet/Fleet.js"
import * as FleetClient from "../fleet/FleetClient.js"
import * as FleetConfig from "../fleet/FleetConfig.js"
import type { FleetDeclaration } from "../fleet/FleetDeclaration.js"
import { JobNotFound } from "../queue/JobErrors.js"
import * as Logging from "../telemetry/Logging.js"
import type { Log } from "../telemetry/LogSink.js"
import { ClusterConfig } from "../worker/ClusterConfig.js"
import { explain } from "../worker/Explain.js"
import * as Engine from "./Engine.js"
import * as Enqueue from "./Enqueue.js"
import { fromCause } from "./FromCause.js"
import { checkCodec, checkKnown, checkLog, namesOf } from "./Options.js"
import * as Shift from "./Shift.js"
import { InvalidOptionError, type ShiftError } from "./ShiftErrors.js"

export type { CellDeclaration, DividedQueue, FleetDeclaration } from "../fleet/FleetDeclaration.js"

/** Options of `connect` for a fleet. */
export interface FleetOptions {
  /** The file with the cells and their queues, or the same as an object. */
  readonly fleet: string | FleetDeclaration
  /** Maximum number of connections to each cell. [DATABASE_POOL, else 4] */
  readonly pool?: number | undefined
  /** Where log lines go, like the option of `connect` for one database. [standard error, by LOG_FORMAT] */
  readonly log?: Log | undefined
  /** Seals payloads, results and other values, like the option of `connect` for one database. [NIGHTSHIFT_SEAL_KEYS] */
  readonly codec?: Codec | undefined
}

/** Options of `connect` for one cell of a fleet. */
export interface CellOptions extends FleetOptions {
  /** Name of the cell. */
  readonly cell: string
}

/** A job of `enqueueMany` that was not stored. */
export interface NotEnqueued {
  /** Distinguishes it from jobs that were stored. */
  readonly outcome: "failed"
  /** Why nothing was stored of the jobs that belong to the same cell. */
  readonly error: ShiftError
}

/** Options of `enqueueMany` over several cells. */
export interface AcrossCells {
  /** Stores the jobs of each cell all or none, and reports what happened to each job. */
  readonly acrossCells: true
}

type Shared = "enqueue" | "enqueueMany" | "publish" | "result" | "job" | "why" | "logs" | "cancel" | "requeue" | "close"

/**
 * The queue over all cells of a fleet. A job goes to the cell of its queue and key, and a lookup to the cell that its id
 * names. Events are published in the default cell. For everything else, connect to one cell: `connect({ fleet, cell: "mail" })`.
 */
export interface FleetShift extends Pick<Shift.Shift, Shared> {
  /** Names of the cells. */
  readonly cells: ReadonlyArray<string>
  /** Stores up to 1,000 jobs of one kind. They must belong to one cell, and all or none are stored. */
  enqueueMany<In, Result>(
    job: Enqueue.Enqueueable<In, Result>,
    payloads: ReadonlyArray<NoInfer<In>>,
    options?: Enqueue.EnqueueManyOptions<NoInfer<In>>
  ): Promise<ReadonlyArray<Enqueue.Enqueued<Result>>>
  /** The same for jobs of several cells: all or none within a cell. Returns what happened to each job, in the same order. */
  enqueueMany<In, Result>(
    job: Enqueue.Enqueueable<In, Result>,
    payloads: ReadonlyArray<NoInfer<In>>,
    options: Omit<Enqueue.EnqueueManyOptions<NoInfer<In>>, "tx"> & AcrossCells
  ): Promise<ReadonlyArray<Enqueue.Enqueued<Result> | NotEnqueued>>
  /** Calls `close()`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>
}

const fleetOptions = namesOf<CellOptions>({ fleet: 0, cell: 0, pool: 0, log: 0, codec: 0 })

const check = (options: FleetOptions) => {
  if (options.fleet === undefined)
    throw new InvalidOptionError(
      "fleet",
      'The first argument of connect() must be a URL like postgres://user:password@host:5432/database, or { fleet: "fleet.yaml" }. Options are the second.'
    )
  checkKnown(options, fleetOptions, "an option of connect for a fleet")
  checkLog(options.log)
  checkCodec(options.codec)
  const { fleet } = options
  if (typeof fleet !== "string" && (typeof fleet !== "object" || fleet === null))
    throw new InvalidOptionError("fleet", "fleet must be the path of a file, or an object with cells.")
}

/** Finds a cell of a fleet. @internal */
export const findCell = async (options: CellOptions): Promise<Cell> => {
  check(options)
  const found = await Runtime.runPromiseExit(Runtime.defaultRuntime)(
    Effect.flatMap(FleetClient.load(options.fleet), (fleet) => FleetConfig.cellOf(fleet, options.cell))
  )
  if (found._tag === "Success") return found.value
  throw fromCause(found.cause)
}

/** Limits how long a closing fleet waits for cells that do not answer. */
const beginShutdown = Effect.flatMap(Cells, ({ fleet, opened }) =>
  Effect.forEach(
    [...fleet.cells.values()].flatMap((cell) => opened(cell) ?? []),
    ({ services }) => Context.get(services, Database).beginShutdown(Effect.void),
    { discard: true }
  )
)

/** Connects to all cells of a fleet. @internal */
export const connectFleet = async (options: FleetOptions): Promise<FleetShift> => {
  check(options)
  const { codec, fleet, log, pool } = options
  const layer = Layer.provideMerge(FleetClient.layer(fleet, { pool, codec }), Logging.layerOf(log))
  const engine = await Engine.makeAlone(layer, beginShutdown)
  const cells = await engine.run(Cells)
  const watching: Shift.Watching = {
    ...Shift.watching(engine as unknown as Engine.PgEngine),
    explain: (id) =>
      engine.run(
        onHolder(cells, id, (error) => error instanceof JobNotFound, Effect.provide(explain(id), ClusterConfig.layer))
      )
  }
  // Of the ports that a shift uses, a fleet has those of the methods below.
  const shift = Shift.make(engine as unknown as Engine.Engine<Engine.Ports>, watching, engine.close)

  const enqueueEach = async <In, Result>(
    job: Enqueue.Enqueueable<In, Result>,
    payloads: ReadonlyArray<In>,
    options: Enqueue.EnqueueManyOptions<In>
  ): Promise<ReadonlyArray<Enqueue.Enqueued<Result> | NotEnqueued>> => {
    if (options.tx !== undefined)
      throw new InvalidOptionError("tx", "A transaction is of one cell: pass tx or acrossCells, not both.")
    Enqueue.checkJob("enqueue", job)
    const now = () => engine.clock.unsafeCurrentTimeMillis()
    const made = await Enqueue.newJobs(job, payloads, options, now)
    const ready = Either.getOrThrowWith(made, (error) => fromCause(Cause.fail(error)))
    const each = await engine.run(Effect.flatMap(FleetClient.EnqueueEach, (enqueueEach) => enqueueEach(ready)))
    return each.map((result) =>
      Either.isRight(result)
        ? Enqueue.enqueuedOf<Result>(result.right)
        : { outcome: "failed", error: fromCause(Cause.fail(result.left)) }
    )
  }

  const enqueueMany = async <In, Result>(
    job: Enqueue.Enqueueable<In, Result>,
    payloads: ReadonlyArray<In>,
    { acrossCells, ...options }: Enqueue.EnqueueManyOptions<In> & Partial<AcrossCells> = {}
  ) => (acrossCells === true ? enqueueEach(job, payloads, options) : shift.enqueueMany(job, payloads, options))

  const { cancel, close, enqueue, job, logs, publish, requeue, result, why } = shift
  return {
    cells: [...cells.fleet.cells.keys()],
    enqueue,
    enqueueMany: enqueueMany as FleetShift["enqueueMany"],
    publish,
    result,
    job,
    why,
    logs,
    cancel,
    requeue,
    close,
    [Symbol.asyncDispose]: close
  }
}
