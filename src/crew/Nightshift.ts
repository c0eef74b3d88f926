import type { SqlClient } from "@effect/sql/SqlClient"
import type { PgClient } from "@effect/sql-pg/PgClient"
import { Effect, Layer, Option, type Redacted, Schema } from "effect"
import type { ConfigError } from "effect/ConfigError"
import { Database } from "../database/Database.js"
import type { DatabaseRejected, DatabaseUnreachable } from "../database/DatabaseBoot.js"
import * as DatabaseClock from "../database/DatabaseClock.js"
import { DatabaseConfig } from "../database/DatabaseConfig.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import { DatabaseUrl } from "../database/DatabaseUrl.js"
import * as Listener from "../database/Listener.js"
import { type MigrationError, Migrations } from "../database/Migrations.js"
import type { Handler } from "../handlers/Handler.js"
import type { JobDesk } from "../queue/JobDesk.js"
import type { JobSearch } from "../queue/JobSearch.js"
import type { Kinds } from "../queue/Kinds.js"
import type { Queue } from "../queue/Queue.js"
import * as QueuePg from "../queue/QueuePg.js"
import type { Queues } from "../queue/QueueSettings.js"
import type { Transactions } from "../queue/Transactions.js"
import type { Wakeups } from "../queue/Wakeups.js"
import { Metrics } from "../telemetry/Metrics.js"
import * as Crew from "./Crew.js"
import { CrewConfig } from "./CrewConfig.js"
import { JanitorConfig } from "./Janitor.js"

/** Neither code nor environment says where the database is. */
export class DatabaseUrlMissing extends Schema.TaggedError<DatabaseUrlMissing>()("DatabaseUrlMissing", {}) {
  override get message(): string {
    return "Nightshift needs a database: set DATABASE_URL, or give `databaseUrl`."
  }
}

type Ports = Queue | Queues | JobDesk | JobSearch | Kinds | Transactions

/** What a program, and every handler, gets of Nightshift. `SqlClient` speaks in the surrounding transaction. */
export type Services = Ports | Wakeups | Database | SqlClient | PgClient | DatabaseClock.DatabaseTime | Metrics

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

/** The queue on PostgreSQL, without running any job: for programs that only enqueue. */
export const client = (
  options: { readonly databaseUrl?: Redacted.Redacted } = {}
): Layer.Layer<Services, FoundationError> =>
  QueuePg.layer.pipe(
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
  /** The queues that this process serves. */
  readonly queues: ReadonlyArray<string>
  /** [DATABASE_URL] */
  readonly databaseUrl?: Redacted.Redacted
}

/** A whole pod: the queue on PostgreSQL, and a crew that runs these handlers. */
export const layer = <R>(
  options: NightshiftOptions<R>
): Layer.Layer<Services | Crew.Crew, FoundationError | Crew.NoQueues | Crew.BadQueueName, Exclude<R, Services>> =>
  Crew.layer(options).pipe(
    Layer.provide(Layer.merge(CrewConfig.layer, JanitorConfig.layer)),
    Layer.provideMerge(client(options))
  )
