import { Effect, Layer } from "effect"
import { Pods, type StoredPod } from "../cluster/Pods.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import { DatabaseHealth, type Sessions } from "../history/DatabaseHealth.js"
import { ClusterConfig } from "./ClusterConfig.js"

/** How many connections the live processes may open together, and how many the server accepts. */
export interface ConnectionBudget extends Sessions {
  readonly processes: number
  readonly planned: number
}

/** Workers of one process share its pools. */
const plannedBy = (pods: ReadonlyArray<StoredPod>): ReadonlyMap<string, number> => {
  const planned = new Map<string, number>()
  for (const { connections, host } of pods) {
    if (connections === undefined) continue
    const process = `${host.name} ${host.pid}`
    planned.set(process, Math.max(planned.get(process) ?? 0, connections))
  }
  return planned
}

export const read: Effect.Effect<ConnectionBudget, DatabaseError, Pods | DatabaseHealth | ClusterConfig> = Effect.gen(
  function* () {
    const { lease } = yield* ClusterConfig
    const live = yield* Effect.flatMap(Pods, (pods) => pods.live(lease))
    const sessions = yield* Effect.flatMap(DatabaseHealth, (health) => health.sessions)
    const planned = plannedBy(live)
    return { ...sessions, processes: planned.size, planned: [...planned.values()].reduce((sum, each) => sum + each, 0) }
  }
)

export const isExceeded = ({ limit, others, planned }: ConnectionBudget): boolean => planned + others > limit

const counted = (count: number, one: string, many: string) => `${count} ${count === 1 ? one : many}`

/** The numbers as a sentence without the final period. */
export const summary = ({ limit, others, planned, processes }: ConnectionBudget): string =>
  `${counted(processes, "live process", "live processes")} may open ${planned} connections to PostgreSQL, other programs have ${others}, and the server accepts ${limit}`

export const advice =
  "Lower DATABASE_POOL and DATABASE_HANDLER_POOL, raise max_connections, or connect through a pooler such as PgBouncer"

/** Warns at the start of a process if the cluster can use up the connections of the server. Does not delay the start. */
export const layer: Layer.Layer<never, never, Pods | DatabaseHealth | ClusterConfig> = Layer.scopedDiscard(
  read.pipe(
    Effect.flatMap((budget) =>
      isExceeded(budget) ? Effect.logWarning(`${summary(budget)}. ${advice}.`) : Effect.void
    ),
    Effect.catchAll((error) => Effect.logDebug("could not count the connections of the cluster", error)),
    Effect.forkScoped
  )
)
