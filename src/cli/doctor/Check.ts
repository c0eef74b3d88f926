import type { Effect } from "effect"
import type { Pods } from "../../cluster/Pods.js"
import type { ClusterConfig } from "../../crew/ClusterConfig.js"
import type { MetricsConfig } from "../../crew/MetricsConfig.js"
import type { Database } from "../../database/Database.js"
import type { DatabaseConfig } from "../../database/DatabaseConfig.js"
import type { DatabaseUrl } from "../../database/DatabaseUrl.js"
import type { Measures } from "../../measures/Measures.js"
import type { Queue } from "../../queue/Queue.js"
import type { JobSearch } from "../../queue/search/JobSearch.js"
import type { Storage } from "../../uploads/Storage.js"

/** What a check found. Only what fails makes the command fail. */
export interface Finding {
  readonly check: string
  readonly status: "ok" | "warn" | "fail"
  /** What is the case, in one sentence. */
  readonly found: string
  /** What to do about it, where there is something to do. */
  readonly fix?: string
}

/** What a check may use: the database, whose schema is current, and the ports over it. */
export type Services =
  | Database
  | DatabaseUrl
  | DatabaseConfig
  | Measures
  | Queue
  | JobSearch
  | Pods
  | Storage
  | ClusterConfig
  | MetricsConfig

/** One thing to look at. It says what it found, and need not care that looking may fail. */
export interface Check {
  /** One word. */
  readonly name: string
  readonly look: Effect.Effect<ReadonlyArray<Omit<Finding, "check">>, unknown, Services>
}

export const ok = (found: string) => ({ status: "ok", found }) as const
export const warn = (found: string, fix: string) => ({ status: "warn", found, fix }) as const
export const fail = (found: string, fix: string) => ({ status: "fail", found, fix }) as const
