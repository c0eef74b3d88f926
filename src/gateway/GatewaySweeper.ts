import { Duration, Effect, Schedule } from "effect"
import type { Loop, Step } from "../core/Loop.js"
import { AuthSessions } from "./auth/AuthSessions.js"
import { DeadLetters } from "./dead/DeadLetters.js"

/** How long it is known what became of a message about a dead job. */
const letterRetention = Duration.days(30)

/** Forgets sign-ins that are over and wrong guesses that no longer count. */
const sweepSessions = (sessions: typeof AuthSessions.Service): Step => ({
  name: "sessions",
  timeout: "30 seconds",
  run: Effect.map(sessions.sweep, (swept) => ({ ...swept }))
})

const loop = (steps: Loop["steps"]): Loop => ({
  name: "gateway sweeper",
  about: "every 10m, forgetting sign-ins that are over",
  schedule: Schedule.spaced("10 minutes"),
  runAtStart: true,
  steps
})

/** Keeps small what the gateway remembers. */
export const make: Effect.Effect<Loop, never, AuthSessions | DeadLetters> = Effect.gen(function* () {
  const sessions = yield* AuthSessions
  const letters = yield* DeadLetters
  const purge = Effect.map(letters.purge(letterRetention), (count) => ({ letters: count }))
  return loop([sweepSessions(sessions), { name: "dead letters", timeout: "30 seconds", run: purge }])
})

/** The same for a process without a database. */
export const makeWithoutDatabase: Effect.Effect<Loop, never, AuthSessions> = Effect.map(AuthSessions, (sessions) =>
  loop([sweepSessions(sessions)])
)
