import { Clock, Duration, Effect, Layer } from "effect"
import { Database } from "../../database/Database.js"
import { mapErrors } from "../../database/DatabaseError.js"
import { fragments } from "../../database/SqlInstant.js"
import { DeadLetters, type LetterState } from "./DeadLetters.js"

const make = Effect.gen(function* () {
  const { schema, sql } = yield* Database
  const table = sql(`${schema}.bot_dead_letter`)
  const { instant } = fragments(sql)

  return DeadLetters.of({
    intend: ({ bot, chat, job }) =>
      Effect.gen(function* () {
        const at = instant(yield* Clock.currentTimeMillis)
        const taken = yield* mapErrors(sql`
          insert into ${table} as known (job_id, bot, chat_id, state, intended_at)
          values (${job}::uuid, ${bot}, ${chat}, 'intended', ${at})
          on conflict (job_id) do update set state = 'intended', intended_at = excluded.intended_at, settled_at = null
          where known.state = 'withdrawn'
          returning 1`)
        if (taken.length > 0) return undefined
        const rows = yield* mapErrors(
          sql<{ state: LetterState }>`select state from ${table} where job_id = ${job}::uuid`
        )
        return rows[0]?.state ?? "unknown"
      }),
    record: (job, result) =>
      Effect.gen(function* () {
        const at = instant(yield* Clock.currentTimeMillis)
        yield* mapErrors(sql`update ${table} set state = ${result}, settled_at = ${at}
          where job_id = ${job}::uuid and state = 'intended'`)
      }),
    purge: (olderThan) =>
      Effect.gen(function* () {
        const before = instant((yield* Clock.currentTimeMillis) - Duration.toMillis(olderThan))
        const rows = yield* mapErrors(sql`delete from ${table} where intended_at < ${before} returning 1`)
        return rows.length
      })
  })
})

export const layer: Layer.Layer<DeadLetters, never, Database> = Layer.effect(DeadLetters, make)
