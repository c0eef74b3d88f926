import { Data } from "effect"
import type { JobId } from "../core/Ids.js"

/** What came of a tick, or of several in a row that nothing came of. Instants are epoch milliseconds. */
export type TickOutcome = Data.TaggedEnum<{
  Fired: { readonly at: number; readonly job: JobId }
  /** Fired when its time had long passed. */
  CaughtUp: { readonly at: number; readonly job: JobId }
  /** Not by the clock: somebody wanted a job at once. */
  Triggered: { readonly at: number; readonly job: JobId; readonly by: string }
  /** From the first of these ticks to the last, the job before was not over. */
  Skipped: { readonly since: number; readonly at: number }
  /** From the first of these ticks to the last, nobody could fire, and they are not made up for. */
  Missed: { readonly since: number; readonly at: number }
}>
export const TickOutcome = Data.taggedEnum<TickOutcome>()

/** How many a schedule remembers. */
export const mostRemembered = 20

/** What a schedule remembers, newest first, when these, oldest first, have come on top of what it knew. */
export const remembered = (
  known: ReadonlyArray<TickOutcome>,
  outcomes: ReadonlyArray<TickOutcome>
): ReadonlyArray<TickOutcome> => [...outcomes.toReversed(), ...known].slice(0, mostRemembered)

/** The last job that was stored, and the last tick that was passed over, where these tell of one. */
export const lastOf = (outcomes: ReadonlyArray<TickOutcome>) => ({
  fire: outcomes.findLast((outcome) => "job" in outcome),
  skip: outcomes.findLast(TickOutcome.$is("Skipped"))
})
