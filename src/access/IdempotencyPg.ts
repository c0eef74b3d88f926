import { Clock, Duration, Effect, Layer } from "effect"
import { Database } from "../database/Database.js"
import { DatabaseUnavailable, mapErrors } from "../database/DatabaseError.js"
import { purged } from "../database/Purge.js"
import { fragments } from "../database/SqlInstant.js"
import { digestOf } from "./ConstantTime.js"
import { Idempotency, IdempotencyKeyBusy, IdempotencyKeyReused } from "./Idempotency.js"

/** How long to wait for a concurrent request with the same key. */
const lockTimeout = "5s"
const purgeBatch = 5_000

const make = Effect.gen(function* () {
  const { schema, sql, transaction } = yield* Database
  const table = sql(`${schema}.idempotency`)
  const { instant } = fragments(sql)

  /**
   * Returns whether the key is new or its earlier use has expired. If a concurrent transaction holds the key, the
   * unique index makes this insert wait until that transaction ends.
   */
  const claim = (key: Buffer, content: Buffer, now: number, remembered: Duration.Duration) =>
    Effect.gen(function* () {
      const old = now - Duration.toMillis(remembered)
      yield* sql`select set_config('lock_timeout', ${lockTimeout}, true)`
      const claimed = yield* sql`
        insert into ${table} as known (key_hash, content_hash, created_at) values (${key}, ${content}, ${instant(now)})
        on conflict (key_hash) do update
          set content_hash = excluded.content_hash, created_at = excluded.created_at, answer = null
          where known.created_at <= ${instant(old)}
        returning 1`
      return claimed.length > 0
    }).pipe(
      mapErrors,
      Effect.catchIf(
        (error) => error instanceof DatabaseUnavailable && error.sqlState === "55P03",
        () => new IdempotencyKeyBusy()
      )
    )

  const answerOf = (key: Buffer, content: Buffer) =>
    Effect.gen(function* () {
      const [row] = yield* mapErrors(
        sql<{ same: boolean; answer: unknown }>`
          select content_hash = ${content} as same, answer from ${table} where key_hash = ${key}`
      )
      // A purge deleted the key between the two statements.
      if (row === undefined) return yield* new IdempotencyKeyBusy()
      return row.same ? row.answer : yield* new IdempotencyKeyReused()
    })

  return Idempotency.of({
    once: ({ content, key, remembered }, act) =>
      transaction(
        Effect.gen(function* () {
          const now = yield* Clock.currentTimeMillis
          // Only digests are stored.
          const [keyHash, contentHash] = [digestOf(key), digestOf(content)]
          if (!(yield* claim(keyHash, contentHash, now, remembered))) return yield* answerOf(keyHash, contentHash)
          const answer = yield* act(now)
          yield* mapErrors(
            sql`update ${table} set answer = ${JSON.stringify(answer)}::jsonb where key_hash = ${keyHash}`
          )
          return answer
        })
      ),

    purge: (olderThan) =>
      purged(olderThan, purgeBatch, (before) =>
        Effect.map(
          mapErrors(sql`delete from ${table} where key_hash in
            (select key_hash from ${table} where created_at < ${instant(before)} order by created_at limit ${purgeBatch}
            for update skip locked) returning 1`),
          ({ length }) => length
        )
      )
  })
})

export const layer: Layer.Layer<Idempotency, never, Database> = Layer.effect(Idempotency, make)
