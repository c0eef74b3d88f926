import type { Effect } from "effect"
import type { Pods } from "../../cluster/Pods.js"
import type { Database } from "../../database/Database.js"
import type { DatabaseConfig } from "../../database/DatabaseConfig.js"
import type { DatabaseUrl } from "../../database/DatabaseUrl.js"
import type { HistoryPorts } from "../../history/HistoryPorts.js"
import type { MetricsConfig } from "../../history/MetricsConfig.js"
import type { Events } from "../../queue/events/Events.js"
import type { Queue } from "../../queue/Queue.js"
import type { JobSearch } from "../../queue/search/JobSearch.js"
import type { Queues } from "../../queue/settings/QueueSettings.js"
import type { Storage } from "../../uploads/Storage.js"
import type { ClusterConfig } from "../../worker/ClusterConfig.js"

/** The result of a check. Only status `fail` makes the command exit with code 1. */
export interface Finding {
  readonly check: string
  readonly status: "ok" | "warn" | "fail"
  /** The observation, in one sentence. */
  readonly found: string
  /** What to do about it. */
  readonly fix?: string
}

/** Services available to checks. The schema is current when they run. */
export type Services =
  | Database
  | DatabaseUrl
  | DatabaseConfig
  | HistoryPorts
  | Events
  | Queue
  | Queues
  | JobSearch
  | Pods
  | Storage
  | ClusterConfig
  | MetricsConfig

/** One check. `run` may fail: the runner reports its error as a finding. */
export interface Check {
  readonly name: string
  readonly run: Effect.Effect<ReadonlyArray<Omit<Finding, "check">>, unknown, Services>
}

export const ok = (found: string) => ({ status: "ok", found }) as const
export const warn = (found: string, fix: string) => ({ status: "warn", found, fix }) as const
export const fail = (found: string, fix: string) => ({ status: "fail", found, fix }) as const
