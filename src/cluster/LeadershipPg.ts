import { Clock, Duration, Effect, Layer, Option } from "effect"
import { steadyMillis, steadyNow } from "../core/ChangeWatch.js"
import type { PodId, Term } from "../core/Ids.js"
import { Database } from "../database/Database.js"
import { mapErrors } from "../database/DatabaseError.js"
import { fragments, micros } from "../database/SqlInstant.js"
import { Leadership, TermEnded } from "./Leadership.js"
import * as LeadershipWatch from "./LeadershipWatch.js"

interface LeaderRow {
  readonly pod: PodId
  readonly term: Term
  readonly until: number
}

interface CampaignRow {
  readonly term: Term
  /** Microseconds as text; null when the lease is free. */
  readonly until: string | null
  readonly won: boolean
}

/** Idle timeout in milliseconds of a leader's transaction whose lease has expired or is held by another process. */
const minIdleMillis = 1_000

const make = Effect.gen(function* () {
  const { schema, sql } = yield* Database
  const table = sql(`${schema}.leader`)
  const watchOf = LeadershipWatch.make()
  const { instant, millis } = fragments(sql)
  const exact = sql.literal(micros("leased_until"))

  return Leadership.of({
    campaign: (pod, lease) =>
      Effect.gen(function* () {
        const watch = watchOf(yield* Effect.clock)
        const now = yield* Clock.currentTimeMillis
        const sentAt = yield* steadyNow
        const expired = watch.expired(lease, sentAt)
        // When another pod holds the lease, the update matches no row, so it takes no lock and writes nothing.
        const rows = yield* mapErrors(sql<CampaignRow>`
          with taken as (
            update ${table}
            set pod_id = ${pod}, leased_until = ${instant(now + Duration.toMillis(lease))},
              -- An expired term never becomes valid again, even if no other pod has led since.
              term = term
                + case when pod_id = ${pod} and term = ${watch.termOf(pod, sentAt) ?? null}::int then 0 else 1 end
            where pod_id is null or pod_id = ${pod}
              -- The row has not changed for a full lease. The timestamp is not compared with a clock.
              or (term = ${expired?.term ?? null}::int and ${exact} = ${expired?.until ?? null}::bigint)
            returning term, leased_until
          )
          select term, ${exact}::text as until, true as won from taken
          union all
          select term, ${exact}::text, false from ${table} where not exists (select from taken)`)
        const row = rows[0]
        const seen = row === undefined || row.until === null ? undefined : { term: row.term, until: row.until }
        watch.saw(seen, yield* steadyNow)
        if (row?.won !== true) {
          watch.lost(pod)
          return Option.none()
        }
        watch.took(pod, row.term, lease, sentAt)
        return Option.some(row.term)
      }),

    resign: (pod, term) =>
      mapErrors(
        Effect.asVoid(sql`
          update ${table} set pod_id = null, leased_until = null
          where pod_id = ${pod} and term = coalesce(${term ?? null}::int, term)`)
      ),

    assertTerm: (term) =>
      Effect.gen(function* () {
        const clock = yield* Effect.clock
        const left = watchOf(clock).leftOf(term, steadyMillis(clock)) ?? 0
        const idle = Math.min(Math.ceil(left > 0 ? left : minIdleMillis), 2_147_483_647)
        const rows = yield* mapErrors(sql`
          -- for key share blocks a change of leader until the commit, but not a renewal. The idle timeout makes the
          -- server end the transaction when the lease expires, so that a suspended process cannot hold the lock
          -- forever.
          with held as materialized (
            select term from ${table} where term = ${term} and pod_id is not null for key share
          )
          select set_config('idle_in_transaction_session_timeout', ${idle}::int::text, true) from held`)
        if (rows.length === 0) return yield* new TermEnded({ term })
      }),

    leader: Effect.map(
      mapErrors(sql<LeaderRow>`
        select pod_id as pod, term, ${millis("leased_until")} as until
        from ${table} where pod_id is not null`),
      (rows) => Option.fromNullable(rows[0])
    )
  })
})

export const layer: Layer.Layer<Leadership, never, Database> = Layer.effect(Leadership, make)
