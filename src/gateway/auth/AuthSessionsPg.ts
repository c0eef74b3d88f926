import { Clock, Duration, Effect, Layer, Option } from "effect"
import { Database } from "../../database/Database.js"
import { mapErrors } from "../../database/DatabaseError.js"
import { fragments } from "../../database/SqlInstant.js"
import { AuthSessions, Guess, guessLimit } from "./AuthSessions.js"

const windowMillis = Duration.toMillis(guessLimit.window)

const make = Effect.gen(function* () {
  const { schema, sql } = yield* Database
  const sessions = sql(`${schema}.bot_session`)
  const guesses = sql(`${schema}.bot_guess`)
  const { instant, millis } = fragments(sql)

  const open = (user: number, ttl: Duration.Duration, now: number) => {
    const until = instant(now + Duration.toMillis(ttl))
    return sql`
      with forgiven as (delete from ${guesses} where user_id = ${user})
      insert into ${sessions} (user_id, started_at, expires_at) values (${user}, ${instant(now)}, ${until})
      on conflict (user_id) do update set started_at = excluded.started_at, expires_at = excluded.expires_at`
  }

  /** Counts an attempt. The row lock serializes concurrent attempts of one user. */
  const count = (user: number, now: number) => {
    const at = instant(now)
    const lapsed = sql`coalesce(known.locked_until, known.since + make_interval(secs => ${windowMillis / 1000})) <= ${at}`
    return sql<{ failures: number; locked_until: number | null }>`
      insert into ${guesses} as known (user_id, failures, since) values (${user}, 1, ${at})
      on conflict (user_id) do update set
        failures = case when ${lapsed} then 1 else known.failures + 1 end,
        since = case when ${lapsed} then ${at} else known.since end,
        locked_until = case
          when ${lapsed} then null
          when known.locked_until is null and known.failures + 1 >= ${guessLimit.failures}
            then ${instant(now + windowMillis)}
          else known.locked_until end
      returning failures, ${millis("locked_until")} as locked_until`
  }

  return AuthSessions.of({
    open: (user, ttl) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => Effect.asVoid(mapErrors(open(user, ttl, now)))),
    find: (user) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const rows = yield* mapErrors(
          sql<{ until: number }>`select ${millis("expires_at")} as until from ${sessions}
            where user_id = ${user} and expires_at > ${instant(now)}`
        )
        return Option.map(Option.fromNullable(rows[0]), ({ until }) => until)
      }),
    close: (user) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const rows = yield* mapErrors(
          sql<{ live: boolean }>`delete from ${sessions} where user_id = ${user}
            returning expires_at > ${instant(now)} as live`
        )
        return rows[0]?.live === true
      }),
    guess: (user) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const [row] = yield* mapErrors(count(user, now))
        const failures = row?.failures ?? 1
        return failures > guessLimit.failures
          ? Guess.Locked({ until: row?.locked_until ?? now })
          : Guess.Allowed({ left: guessLimit.failures - failures })
      }),
    sweep: Effect.gen(function* () {
      const at = yield* Clock.currentTimeMillis
      const now = instant(at)
      const before = instant(at - windowMillis)
      const ended = yield* mapErrors(sql`delete from ${sessions} where expires_at <= ${now} returning 1`)
      const lapsed = yield* mapErrors(sql`delete from ${guesses}
        where (locked_until is null and since <= ${before}) or locked_until <= ${now} returning 1`)
      return { sessions: ended.length, guesses: lapsed.length }
    })
  })
})

export const layer: Layer.Layer<AuthSessions, never, Database> = Layer.effect(AuthSessions, make)
