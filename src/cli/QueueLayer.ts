import { Effect, Layer, Schema } from "effect"
import type { ConfigError } from "effect/ConfigError"
import type { Audit } from "../access/Audit.js"
import * as AuditPg from "../access/AuditPg.js"
import type { Tokens } from "../access/Tokens.js"
import * as TokensPg from "../access/TokensPg.js"
import type { Pods } from "../cluster/Pods.js"
import * as PodsPg from "../cluster/PodsPg.js"
import { Database } from "../database/Database.js"
import type { DatabaseRejected, DatabaseUnreachable } from "../database/DatabaseBoot.js"
import * as DatabaseClock from "../database/DatabaseClock.js"
import { DatabaseConfig } from "../database/DatabaseConfig.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { EmbeddedPostgresError } from "../database/embedded/EmbeddedPostgres.js"
import * as Listener from "../database/Listener.js"
import { type MigrationError, Migrations } from "../database/Migrations.js"
import * as Package from "../database/Package.js"
import * as HistoryPg from "../history/HistoryPg.js"
import type { MinuteBuckets } from "../history/MinuteBuckets.js"
import * as QueuePg from "../queue/QueuePg.js"
import type { QueuePorts } from "../queue/QueuePorts.js"
import type { Transactions } from "../queue/Transactions.js"
import type { RateLimits } from "../rate-limits/RateLimits.js"
import * as RateLimitsPg from "../rate-limits/RateLimitsPg.js"
import type { Schedules } from "../schedule/Schedules.js"
import * as SchedulesPg from "../schedule/SchedulesPg.js"
import * as Seal from "../seal/Seal.js"
import { Metrics } from "../telemetry/Metrics.js"
import { Tracing } from "../telemetry/tracing/Tracing.js"
import * as DatabaseChoice from "./DatabaseChoice.js"

/** The database schema is older than this release. */
export class SchemaBehind extends Schema.TaggedError<SchemaBehind>()("SchemaBehind", { missing: Schema.Int }) {
  override get message(): string {
    const migrations = this.missing === 1 ? "1 migration is" : `${this.missing} migrations are`
    return `${migrations} not applied. Run \`nightshift migrate\`.`
  }
}

const upToDate = Layer.effectDiscard(
  Effect.gen(function* () {
    const { pending } = yield* Effect.flatMap(Migrations, (migrations) => migrations.state)
    if (pending.length > 0) return yield* new SchemaBehind({ missing: pending.length })
  })
)

/** The services that commands use. */
export type QueueServices = QueuePorts | Transactions | Schedules | MinuteBuckets | Pods | RateLimits | Tokens | Audit

// Short-lived commands do not listen for notifications.
const ports: Layer.Layer<QueueServices, ConfigError, Database> = Layer.mergeAll(
  SchedulesPg.layer,
  PodsPg.layer,
  RateLimitsPg.layer,
  TokensPg.layer,
  AuditPg.layer
).pipe(
  Layer.provideMerge(Seal.layerForCommand(QueuePg.layer)),
  Layer.provide(Listener.layerPolling),
  Layer.provideMerge(HistoryPg.counting),
  Layer.provide(Tracing.layer(Package.version.text)),
  Layer.provide(Metrics.layer)
)

/** The services over the configured database, with the database's clock. Fails if migrations are pending. */
export const layerForCommand: Layer.Layer<
  QueueServices | Database,
  | SchemaBehind
  | MigrationError
  | DatabaseClock.ClockTooUncertain
  | DatabaseError
  | DatabaseUnreachable
  | DatabaseRejected
  | DatabaseChoice.NoDatabase
  | EmbeddedPostgresError
  | ConfigError
> = ports.pipe(
  Layer.provide(DatabaseClock.layer),
  Layer.provide(upToDate),
  Layer.provide(Migrations.layer),
  Layer.provideMerge(Database.layer),
  Layer.provide(DatabaseChoice.layerForCommand),
  Layer.provide(DatabaseConfig.layer)
)
