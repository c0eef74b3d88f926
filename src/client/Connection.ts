import { Config, ConfigProvider, Effect, GlobalValue, Layer, Redacted, Runtime } from "effect"
import type { Codec } from "../codec/Codec.js"
import * as CellTag from "../core/CellTag.js"
import { Database } from "../database/Database.js"
import { settings as databaseSettings } from "../database/DatabaseConfig.js"
import * as DatabaseUrl from "../database/DatabaseUrl.js"
import { otherUrlsOf } from "../fleet/Cells.js"
import type { Cell } from "../fleet/Fleet.js"
import { settings as sealSettings } from "../seal/Seal.js"
import * as Logging from "../telemetry/Logging.js"
import type { Log } from "../telemetry/LogSink.js"
import * as Nightshift from "../worker/Nightshift.js"
import * as Engine from "./Engine.js"
import { type CellOptions, connectFleet, type FleetOptions, type FleetShift, findCell } from "./FleetConnection.js"
import { checkCodec, checkKnown, checkLog, namesOf } from "./Options.js"
import * as Shift from "./Shift.js"
import { ClosedError, InvalidOptionError } from "./ShiftErrors.js"

// One connection pool per process: a second connect() with the same settings shares the open pool, and workers use the pool
// of their shift. The pool closes with its last user.

/** Options of `connect`. Absent ones are read from the environment. */
export interface ConnectOptions {
  /** The schema of Nightshift's tables. [DATABASE_SCHEMA, else nightshift] */
  readonly schema?: string | undefined
  /** Maximum number of connections of the shift and its workers. [DATABASE_POOL, else 4] */
  readonly pool?: number | undefined
  /** Maximum number of additional connections for handlers in transactions. [DATABASE_HANDLER_POOL, else 3] */
  readonly handlerPool?: number | undefined
  /**
   * Where log lines go, at the levels of LOG_LEVEL: `console`, an object with the same methods, a pino logger, or `false` for
   * nowhere. The first shift of a pool decides. [standard error, by LOG_FORMAT]
   */
  readonly log?: Log | undefined
  /** Seals payloads, results and other values before they are stored: `seal({ keys })` of `nightshift/codec`. [NIGHTSHIFT_SEAL_KEYS] */
  readonly codec?: Codec | undefined
}

const connectOptions = namesOf<ConnectOptions>({ schema: 0, pool: 0, handlerPool: 0, log: 0, codec: 0 })

interface Open {
  readonly engine: Promise<Engine.SharedPgEngine>
  /** Shifts that are open. */
  users: number
  /** Shifts that are open, or closing. */
  unclosed: number
  /** Whether a worker serves the metrics, which belong to the pool. */
  hasHealth: boolean
}

/** What a shift on PostgreSQL uses. @internal */
export interface Use {
  readonly open: Open
  readonly engine: Engine.SharedPgEngine
  /** Stops what runs on the shift: workers, and pages of Mission Control. */
  readonly stops: Set<() => Promise<void>>
  readonly isOpen: () => boolean
}

const open = GlobalValue.globalValue("nightshift/client/open", () => new Map<string, Open>())
const useOf = GlobalValue.globalValue("nightshift/client/useOf", () => new WeakMap<Shift.Shift, Use>())

/** Numbers codecs: shifts with different ones share no pool. */
const codecs = GlobalValue.globalValue("nightshift/client/codecs", () => ({
  ids: new WeakMap<Codec, number>(),
  last: 0
}))
const codecId = (codec: Codec): number => {
  const id = codecs.ids.get(codec) ?? ++codecs.last
  codecs.ids.set(codec, id)
  return id
}

/** Settings that two shifts with the same pool have in common. */
const poolSettings = [...Object.values(databaseSettings), ...Object.values(sealSettings)]

type Given = readonly [key: string, text: string]

/**
 * The settings of a pool: the options, else the environment as it is now. A program may change it for the next shift before the
 * services of this one have read it. Absent ones are blank.
 */
const given = (options: Readonly<Record<string, string | number | undefined>>): ReadonlyArray<Given> =>
  Runtime.runSync(Runtime.defaultRuntime)(
    Effect.forEach(poolSettings, ({ key }) => {
      const option = options[key]
      const text = option === undefined ? Config.withDefault(Config.string(key), "") : Effect.succeed(String(option))
      return Effect.map(text, (value): Given => [key, value])
    })
  )

const engineOf = (
  settings: ReadonlyArray<Given>,
  { codec, log }: ConnectOptions,
  cell: Cell | undefined
): Promise<Engine.SharedPgEngine> => {
  const provider = ConfigProvider.orElse(ConfigProvider.fromMap(new Map(settings)), ConfigProvider.fromEnv)
  const client = Layer.provide(
    Nightshift.client({ codec, ...(cell === undefined ? {} : otherUrlsOf(cell)) }),
    Layer.setConfigProvider(provider)
  )
  return Engine.make(Layer.provideMerge(Layer.locally(client, CellTag.current, cell), Logging.layerOf(log)))
}

/** Connects to a database, to a fleet of several, or to one cell of a fleet. */
export interface Connect {
  /** Connects to PostgreSQL, migrates the schema, and returns the shift. Without a url it reads DATABASE_URL. */
  (url?: string, options?: ConnectOptions): Promise<Shift.Shift>
  /** Connects to one cell of a fleet. Its shift can have workers. */
  (options: CellOptions): Promise<Shift.Shift>
  /** Connects to all cells of a fleet. Cells that do not answer are tried again when they are used. */
  (options: FleetOptions): Promise<FleetShift>
}

const connectAny = async (
  first?: string | FleetOptions | CellOptions,
  options?: ConnectOptions
): Promise<Shift.Shift | FleetShift> => {
  if (typeof first !== "object" || first === null) return connectTo(first, options)
  if (!("cell" in first) || first.cell === undefined) return connectFleet(first)
  const cell = await findCell(first)
  return connectTo(
    Redacted.value(cell.database),
    { schema: cell.schema, pool: first.pool, log: first.log, codec: first.codec },
    cell
  )
}

/**
 * Connects to PostgreSQL, migrates the schema, and returns the shift. Without a url it reads DATABASE_URL.
 *
 * @example
 * ```ts
 * import { connect } from "nightshift/client"
 *
 * await using shift = await connect("postgres://localhost/app", { pool: 10 })
 * console.log((await shift.queues.list()).map(({ name }) => name))
 * ```
 */
export const connect: Connect = connectAny as Connect

const connectTo = async (url?: string, options: ConnectOptions = {}, cell?: Cell): Promise<Shift.Shift> => {
  const fault = url === undefined ? undefined : DatabaseUrl.fault(url)
  if (fault !== undefined) throw new InvalidOptionError("url", `The first argument of connect() must be ${fault}.`)
  checkKnown(options, connectOptions, "an option of connect")
  checkLog(options.log)
  checkCodec(options.codec)
  const { codec, handlerPool, pool, schema } = options
  const settings = given({
    [databaseSettings.url.key]: url,
    [databaseSettings.schema.key]: schema,
    [databaseSettings.pool.key]: pool,
    [databaseSettings.handlerPool.key]: handlerPool
  })
  const name = JSON.stringify([settings, cell?.tag, codec && codecId(codec)])
  const used = open.get(name) ?? {
    engine: engineOf(settings, options, cell),
    users: 0,
    unclosed: 0,
    hasHealth: false
  }
  open.set(name, used)
  used.users += 1
  used.unclosed += 1
  try {
    const shared = await used.engine
    const engine = shared.open()
    const stops = new Set<() => Promise<void>>()
    const leave = async () => {
      used.users -= 1
      const isLast = used.users === 0
      if (isLast && open.get(name) === used) open.delete(name)
      // Jobs that run may use the shift until they have ended.
      if (stops.size > 0) await Promise.all([...stops].map((stop) => stop()))
      const finished = engine.close()
      if (isLast) await shared.run(Effect.flatMap(Database, ({ beginShutdown }) => beginShutdown(Effect.void)))
      await finished
      used.unclosed -= 1
      if (used.unclosed === 0) await shared.end()
    }
    let left: Promise<void> | undefined
    const shift = Shift.make(engine, Shift.watching(engine), () => (left ??= leave()))
    useOf.set(shift, { open: used, engine: shared, stops, isOpen: () => left === undefined })
    return shift
  } catch (error) {
    open.delete(name)
    throw error
  }
}

/** What a shift uses. Throws if the shift is closed. @internal */
export const usedBy = (shift: Shift.Shift, caller: string): Use => {
  const use = useOf.get(shift)
  if (use === undefined)
    throw new InvalidOptionError("shift", `The first argument of ${caller}() must be a shift that connect() returned.`)
  if (!use.isOpen()) throw new ClosedError()
  return use
}
