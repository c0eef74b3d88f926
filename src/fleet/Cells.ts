import {
  Config,
  Context,
  Duration,
  Effect,
  Either,
  ExecutionStrategy,
  Exit,
  Fiber,
  Layer,
  Option,
  Redacted,
  Runtime,
  Schema,
  Scope
} from "effect"
import * as CellTag from "../core/CellTag.js"
import { Expected } from "../core/ExpectedError.js"
import { Database } from "../database/Database.js"
import { announcesRetries } from "../database/DatabaseBoot.js"
import { settings as databaseSettings } from "../database/DatabaseConfig.js"
import { DatabaseUnavailable, mapErrors } from "../database/DatabaseError.js"
import * as ServerIdentity from "../database/ServerIdentity.js"
import * as Nightshift from "../worker/Nightshift.js"
import { CellUnavailable } from "./CellUnavailable.js"
import { type Cell, cellOfId, type Fleet } from "./Fleet.js"

/** The services of one cell. */
export type CellServices = Layer.Layer.Success<ReturnType<typeof Nightshift.client>>

/** A cell that answers. */
export interface OpenCell {
  readonly cell: Cell
  readonly services: Context.Context<CellServices>
  readonly runtime: Runtime.Runtime<CellServices>
  /** Identifies its database among those of all servers. */
  readonly identity: string
}

/** Why a cell could not be opened. */
interface StartFailure {
  readonly message: string
}

/** No cell of the fleet can be used. */
export class FleetUnavailable extends Expected<FleetUnavailable>(503)("FleetUnavailable", {
  /** Why each cell cannot be used, one sentence each. */
  reasons: Schema.Array(Schema.String)
}) {
  override get message(): string {
    return `No cell of the fleet is available. ${this.reasons.join(" ")}`
  }
}

/** A cell that could not be opened is tried again after this many milliseconds. */
const retryAfter = 1_000

/** Calls of an open cell fail at once for this many milliseconds after no connection could be opened. */
const refusedFor = 250

/** Calls of a cell that did not answer wait this many milliseconds for the next attempt, then fail like the last one. */
export const patience = 500

/** Why a cell could not be reached, and until when calls fail at once, by `performance.now()`. */
interface Outage {
  readonly error: CellUnavailable
  readonly until: number
}

/** How long to repeat attempts to reach a cell, unless DATABASE_BOOT_TIMEOUT is set: callers wait for it. */
const openTimeout = Duration.millis(500)

/** Cells that are asked at once for an id that names none of them. */
const atOnce = 8

/** The cells of a fleet, each with its own connections. */
export class Cells extends Context.Tag("nightshift/fleet/Cells")<
  Cells,
  {
    /** The cells and their queues. */
    readonly fleet: Fleet
    /** Returns a cell that answers. Fails with CellUnavailable, at once if it did not answer a moment ago. */
    readonly open: (cell: Cell) => Effect.Effect<OpenCell, CellUnavailable>
    /** The cell if it is open already. */
    readonly opened: (cell: Cell) => OpenCell | undefined
    /** Whether the cell did not answer when it was last tried. */
    readonly isDown: (cell: Cell) => boolean
    /** Turns an outage of a cell's database into CellUnavailable, and remembers a refused connection. */
    readonly inCell: (cell: Cell) => <E>(error: E) => E | CellUnavailable
  }
>() {
  /** Opens all cells. Cells that do not answer are tried again when they are used. Fails if none answers. */
  static readonly layer = (fleet: Fleet, options: CellOptions = {}): Layer.Layer<Cells, FleetUnavailable> =>
    Cells.layerFrom(fleet, (cell) => clientOf(cell, options))

  /** The same on services of the caller's choice. Their ids name the cell. */
  static readonly layerFrom = (
    fleet: Fleet,
    servicesOf: (cell: Cell) => Layer.Layer<CellServices, StartFailure>
  ): Layer.Layer<Cells, FleetUnavailable> => Layer.scoped(Cells, make(fleet, servicesOf))
}

/** Options of the connections to each cell. */
export type CellOptions = Pick<Nightshift.ClientOptions, "pool" | "handlerPool" | "codec">

/** The statement that identifies a database. */
export const identityQuery = `select ${ServerIdentity.cluster} as cluster`

/** Identifies the database of the cell whose services run it. */
export const identityOf = Effect.gen(function* () {
  const { sql } = yield* Database
  const [row] = yield* mapErrors(sql.unsafe<{ cluster: string }>(identityQuery))
  return row?.cluster ?? ""
})

/** Identifies the tables of the cell: its database and its schema. */
export const identityOfTables = Effect.gen(function* () {
  return `${yield* identityOf} ${(yield* Database).schema}`
})

/** The other connection strings of a cell. Those of this process's environment are of another database. */
export const otherUrlsOf = ({ listen, read }: Cell): Pick<Nightshift.ClientOptions, "listenUrl" | "readUrl"> => ({
  listenUrl: listen ?? Redacted.make(""),
  readUrl: read ?? Redacted.make("")
})

const clientOf = (cell: Cell, options: CellOptions) =>
  Layer.unwrapEffect(
    Effect.map(Config.option(Config.string(databaseSettings.bootTimeout.key)), (given) =>
      Nightshift.client({
        ...options,
        databaseUrl: cell.database,
        schema: cell.schema,
        ...otherUrlsOf(cell),
        ...(Option.isNone(given) ? { bootTimeout: openTimeout } : {})
      })
    )
  )

const make = (
  fleet: Fleet,
  servicesOf: Parameters<typeof Cells.layerFrom>[1]
): Effect.Effect<typeof Cells.Service, FleetUnavailable, Scope.Scope> =>
  Effect.gen(function* () {
    const scope = yield* Effect.scope
    const opened = new Map<Cell, OpenCell>()

    const build = (cell: Cell) =>
      Effect.gen(function* () {
        const own = yield* Scope.fork(scope, ExecutionStrategy.sequential)
        const exit = yield* Effect.gen(function* () {
          const services = Layer.locally(servicesOf(cell), CellTag.current, cell)
          const runtime = yield* Scope.extend(Layer.toRuntime(services), own)
          const identity = yield* Effect.provide(identityOf, runtime)
          return { cell, runtime, services: runtime.context, identity }
        }).pipe(Effect.locally(announcesRetries, false), Effect.exit)
        if (Exit.isFailure(exit)) yield* Scope.close(own, exit)
        return yield* exit
      })

    const outages = new Map<Cell, Outage>()
    const inCell =
      (cell: Cell) =>
      <E>(error: E): E | CellUnavailable => {
        if (!(error instanceof DatabaseUnavailable) || error instanceof CellUnavailable) return error
        const outage = new CellUnavailable(cell.name, error)
        if (error.connectionRefused) outages.set(cell, { error: outage, until: performance.now() + refusedFor })
        return outage
      }

    /** Opens a cell, or asks whether one that was open answers again. */
    const attempt = (cell: Cell) =>
      Effect.suspend(() => {
        const known = opened.get(cell)
        return known === undefined ? build(cell) : Effect.as(Effect.provide(identityOf, known.runtime), known)
      }).pipe(
        Effect.mapError((error) => {
          const outage = inCell(cell)(error)
          if (outage instanceof CellUnavailable) return outage
          return new CellUnavailable(cell.name, { detail: outage.message, nothingWritten: true })
        }),
        Effect.tapBoth({
          onSuccess: (open) =>
            Effect.sync(() => {
              opened.set(cell, open)
              outages.delete(cell)
            }),
          onFailure: (error) =>
            Effect.sync(() => {
              const pause = opened.has(cell) ? refusedFor : retryAfter
              outages.set(cell, { error, until: performance.now() + pause })
            })
        })
      )

    const fork = Runtime.runFork(yield* Effect.runtime<never>())
    const attempts = new Map<Cell, { readonly fiber: Fiber.RuntimeFiber<OpenCell, CellUnavailable>; at: number }>()
    /** All calls share one attempt. It goes on without them: a server that is gone does not refuse connections. */
    const shared = (cell: Cell) => {
      const running = attempts.get(cell)
      if (running !== undefined && running.fiber.unsafePoll() === null) return running
      const begun = { fiber: fork(attempt(cell), { scope }), at: performance.now() }
      attempts.set(cell, begun)
      return begun
    }

    const open = (cell: Cell) =>
      Effect.suspend(() => {
        const known = opened.get(cell)
        const outage = outages.get(cell)
        if (outage === undefined) return known === undefined ? Fiber.join(shared(cell).fiber) : Effect.succeed(known)
        const now = performance.now()
        if (now < outage.until) return outage.error
        const { at, fiber } = shared(cell)
        const duration = Math.max(0, at + patience - now)
        return Effect.timeoutFail(Fiber.join(fiber), { duration, onTimeout: () => outage.error })
      })

    const first = yield* Effect.forEach(fleet.cells.values(), (cell) => Effect.either(open(cell)), {
      concurrency: "unbounded"
    })
    const failures = first.filter(Either.isLeft).map(({ left }) => left.message)
    if (failures.length === fleet.cells.size) return yield* new FleetUnavailable({ reasons: failures })
    for (const failure of failures) yield* Effect.logWarning(failure)
    return { fleet, open, opened: (cell) => opened.get(cell), isDown: (cell) => outages.has(cell), inCell }
  })

/** Runs an effect on the services of a cell. An outage of its database becomes CellUnavailable. */
export const on =
  (cells: typeof Cells.Service, cell: Cell) =>
  <A, E>(effect: Effect.Effect<A, E, CellServices>): Effect.Effect<A, E | CellUnavailable> =>
    Effect.flatMap(cells.open(cell), ({ runtime }) =>
      Effect.mapError(Effect.provide(effect, runtime), cells.inCell(cell))
    )

/**
 * Runs an effect on the cell that has the object with this id: the one that the id names, and if that does not have it,
 * all others at once. `isMissing` says whether an error means that a cell does not have it.
 */
export const onHolder = <A, E>(
  cells: typeof Cells.Service,
  id: string,
  isMissing: (error: E) => boolean,
  effect: Effect.Effect<A, E, CellServices>
): Effect.Effect<A, E | CellUnavailable> => {
  const named = cellOfId(cells.fleet, id)
  const others = [...cells.fleet.cells.values()].filter((cell) => cell !== named)
  const missing = (error: E | CellUnavailable) => !(error instanceof CellUnavailable) && isMissing(error as E)
  const inOthers = (notThere: E | undefined) =>
    Effect.gen(function* () {
      const found = yield* Effect.forEach(others, (cell) => Effect.either(on(cells, cell)(effect)), {
        concurrency: atOnce
      })
      const has = found.find(
        (result) => Either.isRight(result) || !(result.left instanceof CellUnavailable || missing(result.left))
      )
      if (has !== undefined) return yield* has
      // A cell that does not answer may have it.
      const unknown = found.find((result) => Either.isLeft(result) && result.left instanceof CellUnavailable)
      const [absent] = found
      if (unknown !== undefined) return yield* unknown
      return notThere === undefined && absent !== undefined ? yield* absent : yield* Effect.fail(notThere as E)
    })
  if (named === undefined) return inOthers(undefined)
  return Effect.catchAll(on(cells, named)(effect), (error) =>
    missing(error) && others.length > 0 ? inOthers(error as E) : Effect.fail(error)
  )
}
