import type { SqlClient } from "@effect/sql/SqlClient"
import type { PgClient } from "@effect/sql-pg/PgClient"
import { ConfigProvider, Context, DefaultServices, Effect, FiberRef, Layer, Option, Redacted, Schema } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as AuditPg from "../access/AuditPg.js"
import type { Tokens } from "../access/Tokens.js"
import * as TokensPg from "../access/TokensPg.js"
import * as ClusterPg from "../cluster/ClusterPg.js"
import type { Leadership } from "../cluster/Leadership.js"
import type { Pods } from "../cluster/Pods.js"
import type { Shares } from "../cluster/Shares.js"
import type { Codec } from "../codec/Codec.js"
import { type DurationInput, decode, format } from "../core/DurationText.js"
import { Database, patiently } from "../database/Database.js"
import type { DatabaseRejected, DatabaseUnreachable } from "../database/DatabaseBoot.js"
import * as DatabaseClock from "../database/DatabaseClock.js"
import { DatabaseConfig } from "../database/DatabaseConfig.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import { DatabaseUrl } from "../database/DatabaseUrl.js"
import type { Hints } from "../database/Hints.js"
import * as Listener from "../database/Listener.js"
import { type MigrationError, Migrations } from "../database/Migrations.js"
import * as Package from "../database/Package.js"
import type { Handler } from "../handlers/Handler.js"
import * as HistoryPg from "../history/HistoryPg.js"
import type { HistoryPorts } from "../history/HistoryPorts.js"
import type { Operations } from "../queue/admin/Operations.js"
import type { Batches } from "../queue/batch/Batches.js"
import type { Endpoints } from "../queue/endpoints/Endpoints.js"
import type { Erasure } from "../queue/erasure/Erasure.js"
import type { Events } from "../queue/events/Events.js"
import type { DirectHandoff } from "../queue/handoff/DirectHandoff.js"
import type { JobAdmin } from "../queue/JobAdmin.js"
import type { Kinds } from "../queue/Kinds.js"
import type { JobLogs } from "../queue/logs/JobLogs.js"
import type { Queue } from "../queue/Queue.js"
import * as QueuePg from "../queue/QueuePg.js"
import type { JobOverview } from "../queue/search/JobOverview.js"
import type { JobSearch } from "../queue/search/JobSearch.js"
import type { DeclaredQueues } from "../queue/settings/QueueDeclaration.js"
import type { InvalidSetting, Queues } from "../queue/settings/QueueSettings.js"
import * as RouteConfig from "../queue/settings/RouteConfig.js"
import type { DeclaredRoutes, InvalidRoute, Routes } from "../queue/settings/Routes.js"
import type { Transactions } from "../queue/Transactions.js"
import type { Wakeups } from "../queue/Wakeups.js"
import type { JobDiagnosis } from "../queue/why/JobDiagnosis.js"
import { StreamLimits } from "../queue/workflow/Streams.js"
import type { Workflows } from "../queue/workflow/Workflows.js"
import type { DeclaredLimit, InvalidLimit } from "../rate-limits/Limit.js"
import type { RateLimits } from "../rate-limits/RateLimits.js"
import * as RateLimitsPg from "../rate-limits/RateLimitsPg.js"
import type { Schedule } from "../schedule/Schedule.js"
import type { InvalidSchedule } from "../schedule/ScheduleErrors.js"
import type { Schedules } from "../schedule/Schedules.js"
import * as SchedulesPg from "../schedule/SchedulesPg.js"
import * as Seal from "../seal/Seal.js"
import { Metrics } from "../telemetry/Metrics.js"
import { Tracing } from "../telemetry/tracing/Tracing.js"
import type { Storage } from "../uploads/Storage.js"
import * as StoragePg from "../uploads/StoragePg.js"
import { UploadsConfig } from "../uploads/UploadsConfig.js"
import { ClusterConfig } from "./ClusterConfig.js"
import * as ConnectionBudget from "./ConnectionBudget.js"
import * as PodLoops from "./PodLoops.js"
import * as Shutdown from "./Shutdown.js"
import type { WrittenEnd } from "./slots/JobMetrics.js"
import * as Worker from "./Worker.js"
import { WorkerConfig } from "./WorkerConfig.js"

/** Neither DATABASE_URL nor the option `databaseUrl` is set. */
export class DatabaseUrlMissing extends Schema.TaggedError<DatabaseUrlMissing>()("DatabaseUrlMissing", {}) {
  override get message(): string {
    return "Nightshift needs a database: set DATABASE_URL or pass its URL."
  }
}

type QueuePorts =
  | Queue
  | Queues
  | JobAdmin
  | JobSearch
  | JobLogs
  | Operations
  | Batches
  | Events
  | Endpoints
  | Erasure
  | Workflows
  | Kinds
  | Routes
  | Transactions
type Ports = QueuePorts | RateLimits | Hints | Pods | Shares | Leadership | Schedules | Storage | Tokens

/** The services that programs and handlers can use. `SqlClient` uses the current transaction. */
export type Services =
  | Ports
  | Wakeups
  | DirectHandoff
  | Database
  | SqlClient
  | PgClient
  | DatabaseClock.DatabaseTime
  | Metrics
  | HistoryPorts

/** Why a process cannot start: its settings, its database or the schema of its tables. */
export type FoundationError =
  | DatabaseUrlMissing
  | DatabaseUnreachable
  | DatabaseRejected
  | DatabaseClock.ClockTooUncertain
  | MigrationError
  | DatabaseError
  | ConfigError

const urlFromConfig = Layer.unwrapEffect(
  Effect.gen(function* () {
    const { url } = yield* DatabaseConfig
    return Option.isSome(url) ? DatabaseUrl.layerOf(url.value) : yield* new DatabaseUrlMissing()
  })
)

const migrated = Layer.effectDiscard(Effect.flatMap(Migrations, (migrations) => patiently(migrations.migrate)))

// The audit log is for handlers that change what operators see, such as endpoints.
const inbox = Layer.mergeAll(Layer.provide(StoragePg.layer, UploadsConfig.layer), TokensPg.layer, AuditPg.layer)

/** Database settings. Absent ones are read from the environment. */
export interface ClientOptions {
  /** Connection string of PostgreSQL: `postgres://user:password@host:5432/database`. [DATABASE_URL] */
  readonly databaseUrl?: Redacted.Redacted | undefined
  /** Schema of Nightshift's tables. [DATABASE_SCHEMA] */
  readonly schema?: string | undefined
  /** Connections for Nightshift's own statements. [DATABASE_POOL] */
  readonly pool?: number | undefined
  /** Additional connections for handlers. [DATABASE_HANDLER_POOL] */
  readonly handlerPool?: number | undefined
  /** Connection string for notifications, if `databaseUrl` leads to a pooler; empty for none. [DATABASE_LISTEN_URL] */
  readonly listenUrl?: Redacted.Redacted | undefined
  /** Connection string of a replica for lists of Mission Control; empty for none. [DATABASE_READ_URL] */
  readonly readUrl?: Redacted.Redacted | undefined
  /** How long to try to reach the database at the start. [DATABASE_BOOT_TIMEOUT] */
  readonly bootTimeout?: DurationInput | undefined
  /** Seals payloads, results and other values before they are stored. [NIGHTSHIFT_SEAL_KEYS] */
  readonly codec?: Codec | undefined
}

/** Options take precedence over the environment and are validated the same way. */
const databaseConfig = ({ bootTimeout, handlerPool, listenUrl, pool, readUrl, schema }: ClientOptions) => {
  const said = Object.entries({
    DATABASE_SCHEMA: schema,
    DATABASE_POOL: pool,
    DATABASE_HANDLER_POOL: handlerPool,
    DATABASE_LISTEN_URL: listenUrl === undefined ? undefined : Redacted.value(listenUrl),
    DATABASE_READ_URL: readUrl === undefined ? undefined : Redacted.value(readUrl),
    DATABASE_BOOT_TIMEOUT: bootTimeout === undefined ? undefined : format(decode(bootTimeout))
  })
  const given = new Map(said.flatMap(([key, value]) => (value === undefined ? [] : [[key, String(value)] as const])))
  if (given.size === 0) return DatabaseConfig.layer
  return Layer.unwrapEffect(
    Effect.map(FiberRef.get(DefaultServices.currentServices), (services) =>
      Layer.provide(
        DatabaseConfig.layer,
        Layer.setConfigProvider(
          ConfigProvider.orElse(ConfigProvider.fromMap(given), () =>
            Context.get(services, ConfigProvider.ConfigProvider)
          )
        )
      )
    )
  )
}

/** The queue on PostgreSQL for programs that enqueue jobs but run none. */
export const client = (
  options: ClientOptions = {}
): Layer.Layer<Services | JobDiagnosis | JobOverview, FoundationError> =>
  Layer.mergeAll(SchedulesPg.layer, ClusterPg.layer, RateLimitsPg.layer, inbox).pipe(
    Layer.provideMerge(Seal.layer(QueuePg.layer, options.codec)),
    Layer.provide(StreamLimits.layer),
    Layer.provideMerge(HistoryPg.counting),
    Layer.provideMerge(Tracing.layer(Package.version.text)),
    Layer.provideMerge(DatabaseClock.layer),
    Layer.provide(Listener.layer),
    Layer.provide(migrated),
    Layer.provide(Migrations.layer),
    Layer.provideMerge(Database.layer),
    Layer.provide(options.databaseUrl === undefined ? urlFromConfig : DatabaseUrl.layerOf(options.databaseUrl)),
    Layer.provide(databaseConfig(options)),
    Layer.provideMerge(Metrics.layer)
  )

/** What a worker runs: handlers, queues, schedules and limits. */
export interface WorkerOptions<R> {
  /** One handler for each kind that this process runs. */
  readonly handlers: ReadonlyArray<Handler<R>>
  /**
   * Queues that this process serves: names, or an object with the number of workers in this process, or the limits of the
   * whole cluster, of each: `{ mail: { workers: 20, perKey: 1, rate: "100/m" } }`. Workers by default: NIGHTSHIFT_SLOTS.
   */
  readonly queues: DeclaredQueues
  /** Queues by kind prefix, for kinds without a queue: `{ "gh.": "github" }`. NIGHTSHIFT_ROUTES takes precedence. */
  readonly routes?: DeclaredRoutes | undefined
  /** Recurring jobs. They are declared to the whole cluster and fired by its leader. */
  readonly schedules?: ReadonlyArray<Schedule> | undefined
  /** Rate limits that the handlers use. */
  readonly limits?: ReadonlyArray<DeclaredLimit> | undefined
  /** How long a stopping process waits for running jobs. [SHUTDOWN_GRACE] */
  readonly grace?: DurationInput | undefined
  /** Called after the end of an attempt of this process is written. Must not throw. */
  readonly onEnd?: ((end: WrittenEnd) => void) | undefined
}

/** Options of the worker and of its database connections. */
export interface NightshiftOptions<R> extends WorkerOptions<R>, ClientOptions {}

/** Why a worker cannot start: its queues, routes, limits or schedules are invalid. */
export type WorkerError =
  | Worker.NoQueues
  | Worker.BadQueueName
  | InvalidSetting
  | InvalidRoute
  | InvalidLimit
  | InvalidSchedule

const workerConfig = <R>({ grace, onEnd }: WorkerOptions<R>) =>
  Layer.effect(
    WorkerConfig,
    Effect.map(WorkerConfig, (config) => ({
      ...config,
      onEnd,
      grace: grace === undefined ? config.grace : decode(grace)
    }))
  ).pipe(Layer.provide(WorkerConfig.layer))

const workerOn = <R>(options: WorkerOptions<R>) =>
  Layer.unwrapEffect(
    Effect.map(RouteConfig.declared, (routes) =>
      Worker.layer({ ...options, routes: { ...options.routes, ...routes }, loops: Effect.all(PodLoops.onDatabase) })
    )
  )

/** Workers that run the handlers on an existing client. The client stays open when the workers stop. */
export const worker = <R>(
  options: WorkerOptions<R>
): Layer.Layer<Worker.Worker, WorkerError | DatabaseError | ConfigError, Services | R> =>
  Shutdown.logged(Layer.provideMerge(Layer.merge(Shutdown.layer, ConnectionBudget.layer), workerOn(options))).pipe(
    Layer.provide([workerConfig(options), ClusterConfig.layer, PodLoops.configs])
  )

/**
 * A complete process: the queue on PostgreSQL and workers that run the handlers.
 *
 * @example
 * ```ts
 * import { Effect, Layer, Schema } from "effect"
 * import { Handler, Job, Nightshift } from "nightshift"
 *
 * const Greet = Job.make("greet", { payload: Schema.Struct({ who: Schema.String }) })
 * const GreetHandler = Handler.make(Greet, ({ who }) => Effect.log(`hello ${who}`))
 * const Live = Nightshift.layer({ handlers: [GreetHandler], queues: { default: 10 } })
 * export const program = Layer.launch(Live)
 * ```
 */
export const layer = <R>(
  options: NightshiftOptions<R>
): Layer.Layer<Services | Worker.Worker, FoundationError | WorkerError, Exclude<R, Services>> => {
  const services: Layer.Layer<Services, FoundationError> = client(options)
  return Layer.provideMerge(worker(options), services)
}
