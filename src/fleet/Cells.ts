import {
  Clock,
  Config,
  Context,
  Duration,
  Effect,
  Either,
  ExecutionStrategy,
  Exit,
  Layer,
  Option,
  Redacted,
  type Runtime,
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

/** Calls of an open cell fail at once for this many milliseconds after its server refused a connection. */
const refusedFor = 250

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
    /** Why the server of an open cell refused a connection a moment ago, if it did. */
    readonly refusal: (cell: Cell) => CellUnavailable | undefined
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

/** Identifies the database of the cell whose services run it. */
export const identityOf = Effect.gen(function* () {
  const { sql } = yield* Database
  const [row] = yield* mapErrors(sql.unsafe<{ cluster: string }>(`select ${ServerIdentity.cluster} as cluster`))
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

    const openers = new Map<Cell, Effect.Effect<OpenCell, CellUnavailable>>()
    for (const cell of fleet.cells.values()) {
      const turn = yield* Effect.makeSemaphore(1)
      let failed: { readonly error: CellUnavailable; readonly at: number } | undefined
      const attempt = Effect.gen(function* () {
        const known = opened.get(cell)
        if (known !== undefined) return known
        if (failed !== undefined && (yield* Clock.currentTimeMillis) - failed.at < retryAfter)
          return yield* failed.error
        const built = yield* Effect.either(build(cell))
        if (Either.isRight(built)) {
          opened.set(cell, built.right)
          return built.right
        }
        const error = new CellUnavailable(cell.name, { detail: built.left.message, nothingWritten: true })
        failed = { error, at: yield* Clock.currentTimeMillis }
        return yield* error
      })
      openers.set(cell, turn.withPermits(1)(attempt))
    }

    const refusals = new Map<Cell, { readonly error: CellUnavailable; readonly until: number }>()
    const refusal = (cell: Cell) => {
      const last = refusals.get(cell)
      return last !== undefined && performance.now() < last.until ? last.error : undefined
    }
    const inCell =
      (cell: Cell) =>
      <E>(error: E): E | CellUnavailable => {
        if (!(error instanceof DatabaseUnavailable) || error instanceof CellUnavailable) return error
        const outage = new CellUnavailable(cell.name, error)
        if (error.connectionRefused) refusals.set(cell, { error: outage, until: performance.now() + refusedFor })
        return outage
      }

    const open = (cell: Cell) =>
      Effect.suspend(() => {
        const known = opened.get(cell)
        if (known === undefined) return openers.get(cell) ?? Effect.dieMessage("no such cell")
        return refusal(cell) ?? Effect.succeed(known)
      })

    const first = yield* Effect.forEach(fleet.cells.values(), (cell) => Effect.either(open(cell)), {
      concurrency: "unbounded"
    })
    const failures = first.filter(Either.isLeft).map(({ left }) => left.message)
    if (failures.length === fleet.cells.size) return yield* new FleetUnavailable({ reasons: failures })
    for (const failure of failures) yield* Effect.logWarning(failure)
    return { fleet, open, opened: (cell) => opened.get(cell), refusal, inCell }
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
