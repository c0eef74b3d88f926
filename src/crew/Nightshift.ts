import type { SqlClient } from "@effect/sql/SqlClient"
import type { PgClient } from "@effect/sql-pg/PgClient"
import { Effect, Layer, Option, type Redacted, Schema } from "effect"
import type { ConfigError } from "effect/ConfigError"
import type { Tokens } from "../access/Tokens.js"
import * as TokensPg from "../access/TokensPg.js"
import * as ClusterPg from "../cluster/ClusterPg.js"
import type { Leadership } from "../cluster/Leadership.js"
import type { Pods } from "../cluster/Pods.js"
import type { Shares } from "../cluster/Shares.js"
import { Database } from "../database/Database.js"
import type { DatabaseRejected, DatabaseUnreachable } from "../database/DatabaseBoot.js"
import * as DatabaseClock from "../database/DatabaseClock.js"
import { DatabaseConfig } from "../database/DatabaseConfig.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import { DatabaseUrl } from "../database/DatabaseUrl.js"
import * as Listener from "../database/Listener.js"
import { type MigrationError, Migrations } from "../database/Migrations.js"
import * as Package from "../database/Package.js"
import type { Signals } from "../database/Signals.js"
import type { Handler } from "../handlers/Handler.js"
import type { InvalidLimit } from "../limits/Limit.js"
import type { RateLimit } from "../limits/RateLimit.js"
import type { RateLimits } from "../limits/RateLimits.js"
import * as RateLimitsPg from "../limits/RateLimitsPg.js"
import type { Measures } from "../measures/Measures.js"
import type { JobAdmin } from "../queue/admin/JobAdmin.js"
import type { Operations } from "../queue/admin/Operations.js"
import type { DirectHandoff } from "../queue/handoff/DirectHandoff.js"
import type { Kinds } from "../queue/Kinds.js"
import type { Queue } from "../queue/Queue.js"
import * as QueuePg from "../queue/QueuePg.js"
import type { JobSearch } from "../queue/search/JobSearch.js"
import type { Queues } from "../queue/settings/QueueSettings.js"
import * as RouteConfig from "../queue/settings/RouteConfig.js"
import type { DeclaredRoutes, InvalidRoute, Routes } from "../queue/settings/Routes.js"
import type { Transactions } from "../queue/Transactions.js"
import type { Wakeups } from "../queue/Wakeups.js"
import type { Schedule } from "../schedule/Schedule.js"
import type { InvalidSchedule } from "../schedule/ScheduleErrors.js"
import type { Schedules } from "../schedule/Schedules.js"
import * as SchedulesPg from "../schedule/SchedulesPg.js"
import { Metrics } from "../telemetry/Metrics.js"
import { Tracing } from "../telemetry/tracing/Tracing.js"
import type { Storage } from "../uploads/Storage.js"
import * as StoragePg from "../uploads/StoragePg.js"
import { UploadsConfig } from "../uploads/UploadsConfig.js"
import { ClusterConfig } from "./ClusterConfig.js"
import * as Crew from "./Crew.js"
import { CrewConfig } from "./CrewConfig.js"
import { JanitorConfig } from "./loops/Janitor.js"
import { SchedulerConfig } from "./loops/SchedulerConfig.js"
import { SweeperConfig } from "./loops/Sweeper.js"
import * as MeasuresLayer from "./MeasuresLayer.js"
import { MetricsConfig } from "./MetricsConfig.js"
import * as Shutdown from "./Shutdown.js"

export class DatabaseUrlMissing extends Schema.TaggedError<DatabaseUrlMissing>()("DatabaseUrlMissing", {}) {
  override get message(): string {
    return "Nightshift needs a database: set DATABASE_URL, or pass `databaseUrl`."
  }
}

type QueuePorts = Queue | Queues | JobAdmin | JobSearch | Operations | Kinds | Routes | Transactions
type Ports = QueuePorts | RateLimits | Signals | Pods | Shares | Leadership | Schedules | Storage | Tokens

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
  | Measures

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

const migrated = Layer.effectDiscard(Effect.flatMap(Migrations, (migrations) => migrations.migrate))

const inbox = Layer.merge(Layer.provide(StoragePg.layer, UploadsConfig.layer), TokensPg.layer)

const configs = Layer.mergeAll(
  CrewConfig.layer,
  ClusterConfig.layer,
  JanitorConfig.layer,
  SchedulerConfig.layer,
  SweeperConfig.layer,
  MetricsConfig.layer
)

/** The queue on PostgreSQL for programs that enqueue jobs but run none. */
export const client = (
  options: { readonly databaseUrl?: Redacted.Redacted } = {}
): Layer.Layer<Services, FoundationError> =>
  Layer.mergeAll(SchedulesPg.layer, ClusterPg.layer, RateLimitsPg.layer, inbox).pipe(
    Layer.provideMerge(QueuePg.layer),
    Layer.provideMerge(MeasuresLayer.counting),
    Layer.provide(Tracing.layer(Package.version.text)),
    Layer.provideMerge(DatabaseClock.layer),
    Layer.provide(Listener.layer),
    Layer.provide(migrated),
    Layer.provide(Migrations.layer),
    Layer.provideMerge(Database.layer),
    Layer.provide(options.databaseUrl === undefined ? urlFromConfig : DatabaseUrl.layerOf(options.databaseUrl)),
    Layer.provide(DatabaseConfig.layer),
    Layer.provideMerge(Metrics.layer)
  )

export interface NightshiftOptions<R> {
  readonly handlers: ReadonlyArray<Handler<R>>
  /** Queues that this process serves. */
  readonly queues: ReadonlyArray<string>
  /** Queues by kind prefix, for kinds without a queue: `{ "gh.": "github" }`. NIGHTSHIFT_ROUTES takes precedence. */
  readonly routes?: DeclaredRoutes
  /** Recurring jobs. They are declared to the whole cluster and fired by its leader. */
  readonly schedules?: ReadonlyArray<Schedule>
  /** Rate limits that the handlers use. */
  readonly limits?: ReadonlyArray<RateLimit>
  /** [DATABASE_URL] */
  readonly databaseUrl?: Redacted.Redacted
}

/** A complete pod: the queue on PostgreSQL and workers that run the handlers. */
export const layer = <R>(
  options: NightshiftOptions<R>
): Layer.Layer<
  Services | Crew.Crew,
  FoundationError | Crew.NoQueues | Crew.BadQueueName | InvalidRoute | InvalidLimit | InvalidSchedule,
  Exclude<R, Services>
> =>
  Shutdown.layer.pipe(
    Layer.provideMerge(
      Layer.unwrapEffect(
        Effect.map(RouteConfig.declared, (routes) =>
          Crew.layer({ ...options, routes: { ...options.routes, ...routes } })
        )
      )
    ),
    Layer.provide([configs, MeasuresLayer.sampling]),
    Layer.provideMerge(client(options))
  )
