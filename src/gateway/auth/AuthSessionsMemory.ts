import { Clock, Duration, Effect, Layer, Option } from "effect"
import { AuthSessions, Guess, guessLimit } from "./AuthSessions.js"

interface Guesses {
  readonly failures: number
  readonly since: number
  readonly lockedUntil: number | undefined
}

const window = Duration.toMillis(guessLimit.window)

const hasLapsed = ({ lockedUntil, since }: Guesses, now: number) =>
  lockedUntil === undefined ? since + window <= now : lockedUntil <= now

/** In memory, for a process without a database. Sign-ins are lost when it ends. */
export const layer: Layer.Layer<AuthSessions> = Layer.sync(AuthSessions, () => {
  const sessions = new Map<number, number>()
  const guesses = new Map<number, Guesses>()

  const count = (user: number, now: number): Guesses => {
    const known = guesses.get(user)
    const before = known === undefined || hasLapsed(known, now) ? undefined : known
    const failures = (before?.failures ?? 0) + 1
    const lockedUntil = before?.lockedUntil ?? (failures >= guessLimit.failures ? now + window : undefined)
    const after = { failures, since: before?.since ?? now, lockedUntil }
    guesses.set(user, after)
    return after
  }

  const forget = <A>(map: Map<number, A>, isOver: (value: A) => boolean): number => {
    const over = [...map].filter(([, value]) => isOver(value))
    for (const [user] of over) map.delete(user)
    return over.length
  }

  return {
    open: (user, ttl) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        sessions.set(user, now + Duration.toMillis(ttl))
        guesses.delete(user)
      }),
    find: (user) =>
      Effect.map(Clock.currentTimeMillis, (now) =>
        Option.filter(Option.fromNullable(sessions.get(user)), (until) => until > now)
      ),
    close: (user) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const until = sessions.get(user)
        sessions.delete(user)
        return until !== undefined && until > now
      }),
    guess: (user) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const { failures, lockedUntil } = count(user, now)
        return failures > guessLimit.failures
          ? Guess.Locked({ until: lockedUntil ?? now })
          : Guess.Allowed({ left: guessLimit.failures - failures })
      }),
    sweep: Effect.map(Clock.currentTimeMillis, (now) => ({
      sessions: forget(sessions, (until) => until <= now),
      guesses: forget(guesses, (each) => hasLapsed(each, now))
    }))
  }
})
