import { Effect } from "effect"
import type { IdGenerator } from "../../core/Ids.js"
import type { Database } from "../../database/Database.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import type { AttemptEnd } from "../AttemptEnd.js"
import type { ClaimSql } from "../claim/ClaimSql.js"
import type { HeldLeases } from "../claim/HeldLeases.js"
import type { StampedJobs } from "../enqueue/NewJob.js"
import type { StoreError } from "../enqueue/StorePg.js"
import * as SqlArrays from "../SqlArrays.js"
import type { DirectHandoff } from "./DirectHandoff.js"
import * as JobOffer from "./JobOffer.js"

/** Offers jobs to free workers of this process, stored in PostgreSQL by one statement. */
export const make = (
  { direct }: typeof Database.Service,
  statements: Pick<ClaimSql, "insertClaimed">,
  ids: IdGenerator,
  leases: HeldLeases,
  directHandoff: typeof DirectHandoff.Service,
  returnJobs: (ends: ReadonlyArray<AttemptEnd>) => Effect.Effect<unknown, DatabaseError>,
  again: (jobs: StampedJobs, now: number) => Effect.Effect<unknown, StoreError>
) =>
  JobOffer.make({
    ids,
    directHandoff,
    returnJobs,
    again,
    onTaken: (lease, jobs) =>
      leases.took(
        lease,
        jobs.map(({ id }) => id)
      ),
    insertClaimed: (jobs, lease, pod, now) => {
      const [first] = jobs
      const parameters = [
        first?.queue,
        now,
        SqlArrays.ofPlain(jobs.map(({ id }) => id)),
        lease,
        pod,
        first?.kind,
        first?.version,
        SqlArrays.ofJson(jobs.map(({ payload }) => payload)),
        first?.priority,
        SqlArrays.ofPlain(jobs.map(({ runAt }) => runAt)),
        first?.maxAttempts
      ]
      return Effect.map(direct.rows(statements.insertClaimed, parameters), ([row]) => row?.[0] === true)
    }
  })
