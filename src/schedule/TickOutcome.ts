import type { Data } from "effect"
import type { JobId } from "../core/Ids.js"
import * as Tagged from "../core/Tagged.js"

/** The outcome of a tick, or of several consecutive skipped or missed ticks. Instants are epoch milliseconds. */
export type TickOutcome = Data.TaggedEnum<{
  Fired: { readonly at: number; readonly job: JobId }
  /** Fired late, to catch up on a missed tick. */
  CaughtUp: { readonly at: number; readonly job: JobId }
  /** Fired on request of a user, outside the schedule's times. */
  Triggered: { readonly at: number; readonly job: JobId; readonly by: string }
  /** Skipped from the first to the last of these ticks because the previous job had not finished. */
  Skipped: { readonly since: number; readonly at: number }
  /** No leader could fire from the first to the last of these ticks, and they will not be caught up. */
  Missed: { readonly since: number; readonly at: number }
}>
export const TickOutcome = Tagged.taggedEnum<TickOutcome>({
  Fired: true,
  CaughtUp: true,
  Triggered: true,
  Skipped: true,
  Missed: true
})

/** Maximum number of outcomes kept per schedule. */
export const maxOutcomes = 20

/** Adds outcomes (oldest first) to the kept ones (newest first). */
export const remembered = (
  known: ReadonlyArray<TickOutcome>,
  outcomes: ReadonlyArray<TickOutcome>
): ReadonlyArray<TickOutcome> => outcomes.toReversed().concat(known).slice(0, maxOutcomes)

/** Returns the last outcome with a job and the last skipped tick. */
export const lastFireAndSkip = (outcomes: ReadonlyArray<TickOutcome>) => ({
  fire: outcomes.findLast((outcome) => "job" in outcome),
  skip: outcomes.findLast(TickOutcome.$is("Skipped"))
})
