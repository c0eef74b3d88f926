import { Clock, Duration, Effect, Layer, Option } from "effect"
import { steadyMillis, steadyNow } from "../core/ChangeWatch.js"
import type { PodId } from "../core/Ids.js"
import type { Term } from "../core/Term.js"
import { Database } from "../database/Database.js"
import { mapErrors } from "../database/DatabaseError.js"
import { fragments, micros } from "../database/SqlInstant.js"
import { Leadership, TermOver } from "./Leadership.js"
import * as LeadershipWatch from "./LeadershipWatch.js"

interface LeaderRow {
  readonly pod: PodId
  readonly term: Term
  readonly until: number
}

interface CampaignRow {
  readonly term: Term
  /** Microseconds as text; nothing when the lease is free. */
  readonly until: string | null
  readonly won: boolean
}

/** The least that a transaction of the leader may stand idle, when its lease is over or not of this process. */
const leastIdle = 1_000

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
        const asked = yield* steadyNow
        const gone = watch.expired(lease, asked)
        // Who finds the lease in other hands matches no row: it locks nothing and writes nothing.
        const rows = yield* mapErrors(sql<CampaignRow>`
          with taken as (
            update ${table}
            set pod_id = ${pod}, leased_until = ${instant(now + Duration.toMillis(lease))},
              -- A term that ended stays ended, even if no other pod has led since.
              term = term
                + case when pod_id = ${pod} and term = ${watch.termOf(pod, asked) ?? null}::int then 0 else 1 end
            where pod_id is null or pod_id = ${pod}
              -- Still exactly as it was a whole lease ago. What its instant says is not asked.
              or (term = ${gone?.term ?? null}::int and ${exact} = ${gone?.until ?? null}::bigint)
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
        watch.took(pod, row.term, lease, asked)
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
        const idle = Math.min(Math.ceil(left > 0 ? left : leastIdle), 2_147_483_647)
        const rows = yield* mapErrors(sql`
          -- Others cannot take the lease while this transaction holds the row; renewing it does not wait. One that is left
          -- open by a process that was stopped must not keep it for ever: the server ends it when the lease is over.
          with held as materialized (
            select term from ${table} where term = ${term} and pod_id is not null for key share
          )
          select set_config('idle_in_transaction_session_timeout', ${idle}::int::text, true) from held`)
        if (rows.length === 0) return yield* new TermOver({ term })
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
