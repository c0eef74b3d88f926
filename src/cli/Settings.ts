import { Effect } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as AccessCleanup from "../access/AccessCleanup.js"
import * as Setting from "../core/Setting.js"
import { announcesRetries } from "../database/DatabaseBoot.js"
import * as DatabaseClock from "../database/DatabaseClock.js"
import * as DatabaseConfig from "../database/DatabaseConfig.js"
import * as FleetConfig from "../fleet/FleetConfig.js"
import * as GatewayConfig from "../gateway/config/GatewayConfig.js"
import * as CmdExecConfig from "../handlers/CmdExecConfig.js"
import * as MetricsConfig from "../history/MetricsConfig.js"
import * as AccessConfig from "../http/access/AccessConfig.js"
import * as ServerConfig from "../http/ServerConfig.js"
import * as HealthOptions from "../http/server/HealthAddress.js"
import * as JobLogs from "../queue/logs/JobLogs.js"
import * as RouteConfig from "../queue/settings/RouteConfig.js"
import * as Streams from "../queue/workflow/Streams.js"
import * as SchedulerConfig from "../schedule/SchedulerConfig.js"
import * as Seal from "../seal/Seal.js"
import * as LogConfig from "../telemetry/LogConfig.js"
import * as Logging from "../telemetry/Logging.js"
import * as Masking from "../telemetry/Masking.js"
import * as TracingConfig from "../telemetry/tracing/TracingConfig.js"
import * as Sweeper from "../uploads/Sweeper.js"
import * as UploadsConfig from "../uploads/UploadsConfig.js"
import * as ClusterConfig from "../worker/ClusterConfig.js"
import * as WorkerConfig from "../worker/WorkerConfig.js"
import * as Environment from "./Environment.js"
import * as FleetFlags from "./FleetFlags.js"
import * as McpConfig from "./mcp/McpConfig.js"
import * as PullConfig from "./uploads/PullConfig.js"

/** Settings that belong together, under the heading of the settings page. */
export interface Section {
  readonly title: string
  readonly settings: ReadonlyArray<Setting.Setting<unknown>>
}

const section = (
  title: string,
  ...groups: ReadonlyArray<Readonly<Record<string, Setting.Setting<unknown>>>>
): Section => ({
  title,
  settings: groups.flatMap((group) => Object.values(group))
})

/** All settings in reading order. */
export const sections: ReadonlyArray<Section> = [
  section("Database", DatabaseConfig.settings),
  section(
    "HTTP server and access",
    ServerConfig.settings,
    AccessConfig.settings,
    AccessCleanup.settings,
    McpConfig.settings
  ),
  section("Sealed values", Seal.settings),
  section("Worker", WorkerConfig.settings, HealthOptions.settings, RouteConfig.settings),
  section("Cluster and scheduler", ClusterConfig.settings, DatabaseClock.settings, SchedulerConfig.settings),
  section("Fleet", FleetConfig.settings),
  section("Workflows", Streams.settings),
  section("Bots and webhooks", GatewayConfig.settings),
  section("Commands", CmdExecConfig.settings),
  section("Uploads", UploadsConfig.settings, Sweeper.settings, PullConfig.settings),
  section(
    "Metrics, logs and traces",
    MetricsConfig.settings,
    LogConfig.settings,
    JobLogs.settings,
    TracingConfig.settings,
    Masking.settings
  )
]

export const all: ReadonlyArray<Setting.Setting<unknown>> = sections.flatMap(({ settings }) => settings)

/** Reads all settings, so that one start reports every invalid value, and then the timeouts that depend on each other. */
export const validate: Effect.Effect<void, ConfigError> = Effect.asVoid(
  Effect.zipRight(
    Setting.group(Object.fromEntries(all.map((setting) => [setting.key, setting]))),
    Effect.suspend(() => ClusterConfig.config)
  )
)

const bootTimeout = DatabaseConfig.settings.bootTimeout.key

/** A command that a person waits for reports an unreachable database soon, unless DATABASE_BOOT_TIMEOUT is set. */
const brief = (flags: Environment.Texts): Environment.Texts =>
  Environment.make(flags).lookUp(bootTimeout) === undefined ? { ...flags, [bootTimeout]: "3s" } : flags

/** Runs a command with its flags as configuration. Validates all settings before the command starts. */
export const configured =
  (flags: Environment.Texts) =>
  <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<A, E | FleetFlags.FleetError, R> =>
    Effect.locally(configuredService(brief(flags))(work), announcesRetries, false)

/** Like `configured`, for commands that often start together with the database and wait for it longer. */
export const configuredService =
  (flags: Environment.Texts) =>
  <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<A, E | FleetFlags.FleetError, R> =>
    FleetFlags.inCell(flags, (all) =>
      Effect.zipRight(validate, Effect.provide(work, Logging.layer)).pipe(
        Effect.withConfigProvider(Environment.make(all).provider)
      )
    )
