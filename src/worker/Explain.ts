import { Effect } from "effect"
import { Pods } from "../cluster/Pods.js"
import type { JobId } from "../core/Ids.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { JobNotFound } from "../queue/JobErrors.js"
import type { SearchTooSlow } from "../queue/search/JobSearch.js"
import { JobDiagnosis } from "../queue/why/JobDiagnosis.js"
import { judge, limitOf, type Why } from "../queue/why/Why.js"
import { RateLimits } from "../rate-limits/RateLimits.js"
import { ClusterConfig } from "./ClusterConfig.js"

/** Explains why a job is not running, or its state if it runs or has finished. */
export const explain = (
  id: JobId
): Effect.Effect<Why, JobNotFound | SearchTooSlow | DatabaseError, JobDiagnosis | Pods | RateLimits | ClusterConfig> =>
  Effect.gen(function* () {
    const { lease, staleAfter } = yield* ClusterConfig
    const standing = yield* Effect.flatMap(JobDiagnosis, (standings) => standings.of(id))
    const pods = yield* Effect.flatMap(Pods, ({ live }) => live(lease))
    const scope = limitOf(standing.job)
    const limits = yield* RateLimits
    const limit =
      scope === undefined
        ? undefined
        : yield* Effect.catchTag(limits.get(scope), "UnknownScope", () => Effect.succeed(undefined))
    return judge({ standing, pods, limit, staleAfter })
  })
