import { userInfo } from "node:os"
import { Effect } from "effect"
import { Caller } from "../http/access/Caller.js"
import * as Input from "./kit/Input.js"

export const reason = Input.optional(Input.text, "Reason to record in the audit log.")

/** Falls back to the uid: in some containers the user has no name. */
const nameOf = (): string => {
  try {
    return userInfo().username
  } catch {
    return String(process.getuid?.() ?? "unknown")
  }
}

/** Runs an effect as admin in the name of the OS user. CLI users need no token: they already have database access. */
export const acting =
  (reason: string | undefined) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.provideService(effect, Caller, {
      who: `cli:${nameOf()}`,
      role: "admin",
      until: undefined,
      session: undefined,
      reason
    })
