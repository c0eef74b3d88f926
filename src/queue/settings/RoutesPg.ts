import * as SqlClient from "@effect/sql/SqlClient"
import { Clock, Effect, Layer, Option } from "effect"
import { Database } from "../../database/Database.js"
import { mapErrors } from "../../database/DatabaseError.js"
import { fragments } from "../../database/SqlInstant.js"
import { type Decide, decide, faultOf, type Route, Routes } from "./Routes.js"

// Every enqueue of a kind without a queue needs the routes, which change only with deploys, so they are cached for a
// second. If reading them fails, the cached routes stay in use.

const freshMillis = 1_000

const make = Effect.gen(function* () {
  const { schema, sql, transaction } = yield* Database
  const table = sql(`${schema}.route`)
  const all = mapErrors(sql<Route>`select prefix, queue from ${table} order by prefix collate "C"`)
  const turn = yield* Effect.makeSemaphore(1)
  let known: { readonly at: number; readonly decide: Decide } | undefined

  const read = Effect.gen(function* () {
    const at = yield* Clock.currentTimeMillis
    const routes = yield* all
    const rule = decide(routes)
    known = { at, decide: rule }
    return rule
  }).pipe(Effect.catchAll((error) => (known === undefined ? Effect.fail(error) : Effect.succeed(known.decide))))

  const freshAt = (now: number) =>
    known !== undefined && Math.abs(now - known.at) < freshMillis ? known.decide : undefined
  const fresh = Effect.map(Clock.currentTimeMillis, freshAt)
  const clock = yield* Effect.clock
  const orRead = (found: Decide | undefined) => (found === undefined ? read : Effect.succeed(found))

  const current = Effect.flatMap(fresh, (found) =>
    found !== undefined
      ? Effect.succeed(found)
      : Effect.flatMap(Effect.serviceOption(SqlClient.TransactionConnection), (own) =>
          // One fiber reads for all that wait, except in a transaction, which must read on its own connection and could
          // deadlock if it waited for the reader.
          Option.isSome(own) ? read : turn.withPermits(1)(Effect.flatMap(fresh, orRead))
        )
  )

  const registerOne = (prefix: string, queue: string | null, now: number) => {
    const at = fragments(sql).instant(now)
    return queue === null
      ? sql`delete from ${table} where prefix = ${prefix}`
      : sql`
          insert into ${table} as known (prefix, queue, registered_at, updated_at)
          values (${prefix}, ${queue}, ${at}, ${at})
          on conflict (prefix) do update set queue = excluded.queue, updated_at = excluded.updated_at
          where known.queue <> excluded.queue`
  }

  return Routes.of({
    all,
    current,
    cached: () => freshAt(clock.unsafeCurrentTimeMillis()),
    register: (declared) =>
      Effect.gen(function* () {
        const fault = faultOf(declared)
        if (fault !== undefined) return yield* fault
        // Registered in prefix order, so that two pods that start at once do not deadlock.
        const byPrefix = Object.entries(declared).sort(([a], [b]) => (a < b ? -1 : 1))
        if (byPrefix.length === 0) return
        const now = yield* Clock.currentTimeMillis
        yield* transaction(
          Effect.forEach(byPrefix, ([prefix, queue]) => registerOne(prefix, queue, now), { discard: true })
        )
        yield* Effect.sync(() => {
          known = undefined
        })
      })
  })
})

export const layer: Layer.Layer<Routes, never, Database> = Layer.effect(Routes, make)
