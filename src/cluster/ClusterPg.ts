import { Effect, Layer } from "effect"
import { Database } from "../database/Database.js"
import { mapErrors } from "../database/DatabaseError.js"
import type { Listener } from "../database/Listener.js"
import { type Leadership, TermEnded } from "./Leadership.js"
import * as LeadershipPg from "./LeadershipPg.js"
import type { Pods } from "./Pods.js"
import * as PodsPg from "./PodsPg.js"
import { type Share, Shares } from "./Shares.js"

const makeShares = Effect.gen(function* () {
  const { schema, sql } = yield* Database
  const table = sql(`${schema}.share`)

  return Shares.of({
    all: mapErrors(sql<Share>`select queue, pod_id as pod, slots from ${table} order by queue, pod_id`),

    assign: (term, shares) =>
      Effect.gen(function* () {
        const rows = yield* mapErrors(sql`
          -- Locks the lease row for the duration of this statement, so that only the current leader can write.
          with reign as materialized (
            select term from ${sql(`${schema}.leader`)}
            where term = ${term} and pod_id is not null for key share
          ), assigned as (
            insert into ${table} as standing (queue, pod_id, slots, term)
            select given.queue, given.pod_id, given.slots, reign.term
            from reign, unnest(
              ${shares.map(({ queue }) => queue)}::text[],
              ${shares.map(({ pod }) => pod)}::uuid[],
              ${shares.map(({ slots }) => slots)}::smallint[]
            ) as given(queue, pod_id, slots)
            -- A fixed lock order, to avoid deadlocks with other writers.
            order by given.queue, given.pod_id
            on conflict (queue, pod_id) do update set slots = excluded.slots, term = excluded.term
          )
          select term from reign`)
        if (rows.length === 0) return yield* new TermEnded({ term })
      })
  })
})

const shares: Layer.Layer<Shares, never, Database> = Layer.effect(Shares, makeShares)

export const layer: Layer.Layer<Pods | Shares | Leadership, never, Database | Listener> = Layer.mergeAll(
  PodsPg.layer,
  shares,
  LeadershipPg.layer
)
