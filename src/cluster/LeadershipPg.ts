import { Clock, Duration, Effect, Layer, Option } from "effect"
import type { PodId } from "../core/Ids.js"
import type { Term } from "../core/Term.js"
import { Database } from "../database/Database.js"
import { mapErrors } from "../database/DatabaseError.js"
import { Leadership, TermOver } from "./Leadership.js"

interface LeaderRow {
  readonly pod: PodId
  readonly term: Term
  readonly until: number
}

const make = Effect.gen(function* () {
  const { schema, sql } = yield* Database
  const table = sql(`${schema}.leader`)
  const instant = (millis: number) => sql`pg_catalog.to_timestamp(${millis}::float8 / 1000)`

  return Leadership.of({
    campaign: (pod, lease) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        // Who finds the lease in other hands matches no row: it locks nothing and writes nothing.
        const rows = yield* mapErrors(sql<{ term: Term }>`
          update ${table}
          set pod_id = ${pod}, leased_until = ${instant(now + Duration.toMillis(lease))},
            -- A term that is over stays over, even when nobody else has led since.
            term = term + case when pod_id = ${pod} and leased_until > ${instant(now)} then 0 else 1 end
          where pod_id is null or pod_id = ${pod} or leased_until <= ${instant(now)}
          returning term`)
        return Option.map(Option.fromNullable(rows[0]), ({ term }) => term)
      }),

    resign: (pod, term) =>
      mapErrors(
        Effect.asVoid(sql`
          update ${table} set pod_id = null, leased_until = null where pod_id = ${pod} and term = ${term}`)
      ),

    assertTerm: (term) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const rows = yield* mapErrors(sql`
          -- Others cannot take the lease while this transaction holds the row; renewing it does not wait. One that is left
          -- open by a process that was stopped must not keep it for ever: the server ends it when the lease is over.
          with held as materialized (
            select leased_until from ${table} where term = ${term} and leased_until > ${instant(now)} for key share
          )
          select set_config('idle_in_transaction_session_timeout',
            least(ceil(extract(epoch from leased_until - ${instant(now)}) * 1000), 2147483647)::int::text, true)
          from held`)
        if (rows.length === 0) return yield* new TermOver({ term })
      }),

    leader: Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const rows = yield* mapErrors(sql<LeaderRow>`
        select pod_id as pod, term, floor(extract(epoch from leased_until) * 1000)::float8 as until
        from ${table} where leased_until > ${instant(now)}`)
      return Option.fromNullable(rows[0])
    })
  })
})

export const layer: Layer.Layer<Leadership, never, Database> = Layer.effect(Leadership, make)
