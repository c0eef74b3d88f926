import { userInfo } from "node:os"
import * as Options from "@effect/cli/Options"
import { Effect, Option } from "effect"
import { Caller } from "../http/access/Caller.js"

/** Why an operator does what they do, for the audit. */
export const reason = Options.text("reason").pipe(Options.withDescription("Why, for the audit."), Options.optional)

/** A user without a name, as in some containers, is known by a number. */
const nameOf = (): string => {
  try {
    return userInfo().username
  } catch {
    return String(process.getuid?.() ?? "unknown")
  }
}

/** Whoever types a command may do everything: they hold the key to the database. */
export const acting =
  (given: Option.Option<string>) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.provideService(effect, Caller, {
      who: `cli:${nameOf()}`,
      role: "admin",
      until: undefined,
      session: undefined,
      reason: Option.getOrUndefined(given)
    })
