import { Effect } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as Setting from "../core/Setting.js"
import * as AccessRetentionConfig from "../crew/AccessRetentionConfig.js"
import * as ClusterConfig from "../crew/ClusterConfig.js"
import * as CrewConfig from "../crew/CrewConfig.js"
import * as Janitor from "../crew/loops/Janitor.js"
import * as SchedulerConfig from "../crew/loops/SchedulerConfig.js"
import * as Sweeper from "../crew/loops/Sweeper.js"
import * as MetricsConfig from "../crew/MetricsConfig.js"
import * as DatabaseClock from "../database/DatabaseClock.js"
import * as DatabaseConfig from "../database/DatabaseConfig.js"
import * as GatewayConfig from "../gateway/config/GatewayConfig.js"
import * as CmdExecConfig from "../handlers/CmdExecConfig.js"
import * as AccessConfig from "../http/access/AccessConfig.js"
import * as ServerConfig from "../http/ServerConfig.js"
import * as RouteConfig from "../queue/settings/RouteConfig.js"
import * as Logging from "../telemetry/Logging.js"
import * as Masking from "../telemetry/Masking.js"
import * as TracingConfig from "../telemetry/tracing/TracingConfig.js"
import * as UploadsConfig from "../uploads/UploadsConfig.js"
import * as PullConfig from "./uploads/PullConfig.js"

/** All settings, in the order shown by `nightshift config` and the docs. */
export const all: ReadonlyArray<Setting.Setting<unknown>> = [
  DatabaseConfig.settings,
  ServerConfig.settings,
  GatewayConfig.settings,
  AccessConfig.settings,
  CrewConfig.settings,
  RouteConfig.settings,
  ClusterConfig.settings,
  Janitor.settings,
  SchedulerConfig.settings,
  CmdExecConfig.settings,
  MetricsConfig.settings,
  UploadsConfig.settings,
  Sweeper.settings,
  PullConfig.settings,
  DatabaseClock.settings,
  AccessRetentionConfig.settings,
  Logging.settings,
  TracingConfig.settings,
  Masking.settings
].flatMap((group) => Object.values<Setting.Setting<unknown>>(group))

/** Reads every setting, so that one start reports all invalid ones at once. */
export const validate: Effect.Effect<void, ConfigError> = Effect.asVoid(
  Setting.group(Object.fromEntries(all.map((setting) => [setting.key, setting])))
)
