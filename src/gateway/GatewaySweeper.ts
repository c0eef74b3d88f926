import { Duration, Effect, Schedule } from "effect"
import type { Loop, Step } from "../core/Loop.js"
import { AuthSessions } from "./auth/AuthSessions.js"
import { DeadLetters } from "./dead/DeadLetters.js"

/** How long the state of a dead-letter message is kept. */
const letterRetention = Duration.days(30)

/** Deletes expired sign-ins and expired counts of wrong codes. */
const sweepSessions = (sessions: typeof AuthSessions.Service): Step => ({
  name: "sessions",
  timeout: "30 seconds",
  run: Effect.map(sessions.sweep, (swept) => ({ ...swept }))
})

const loop = (steps: Loop["steps"]): Loop => ({
  name: "gateway sweeper",
  about: "every 10m, deleting expired sign-ins",
  schedule: Schedule.spaced("10 minutes"),
  runAtStart: true,
  steps
})

/** Deletes expired sign-ins and old dead-letter records. */
export const make: Effect.Effect<Loop, never, AuthSessions | DeadLetters> = Effect.gen(function* () {
  const sessions = yield* AuthSessions
  const letters = yield* DeadLetters
  const purge = Effect.map(letters.purge(letterRetention), (count) => ({ letters: count }))
  return loop([sweepSessions(sessions), { name: "dead letters", timeout: "30 seconds", run: purge }])
})

/** The sweeper of a process without a database, which has no dead letters. */
export const makeWithoutDatabase: Effect.Effect<Loop, never, AuthSessions> = Effect.map(AuthSessions, (sessions) =>
  loop([sweepSessions(sessions)])
)
