import { Schema } from "effect"
import type { Expression } from "./Expression.js"
import type * as Settings from "./ScheduleSettings.js"

export const Overlap: Schema.Schema<Settings.Overlap> = Schema.Literal("allow", "skip")
export type Overlap = Settings.Overlap

/** Maximum number of missed runs to catch up on at once; they are enqueued in one request. */
export const maxMissedRuns = 1_000

export const Missed: Schema.Schema<Settings.Missed> = Schema.Union(
  Schema.Literal("one", "none"),
  Schema.Struct({ all: Schema.Int.pipe(Schema.between(1, maxMissedRuns)) })
)
export type Missed = Settings.Missed

/** The due time of a schedule and the current time, in epoch milliseconds. */
export interface Span {
  readonly due: number
  readonly now: number
  /** Maximum delay, in milliseconds, of a tick that still counts as on time. */
  readonly onTime: number
}

/**
 * Returns the ticks to fire now. A tick that is at most `onTime` late is not a missed run, so it fires even if missed
 * runs are skipped.
 */
export const ticksToFire = (
  missed: Missed,
  expression: Expression,
  { due, now, onTime }: Span
): ReadonlyArray<number> => {
  // Usually exactly one tick is due. It fires as stored, even if the zone's rules have changed since it was computed.
  if (now <= due || expression.next(due) > now) return missed === "none" && now - due > onTime ? [] : [due]
  if (typeof missed === "object") return expression.last(due, now, missed.all)
  const ticks = expression.last(due, now, 1)
  return missed === "one" ? ticks : ticks.filter((tick) => now - tick <= onTime)
}

/** Returns the first and the last missed tick before the ticks to fire. */
export const missedBefore = (
  expression: Expression,
  { due, now }: Span,
  firing: ReadonlyArray<number>
): { readonly since: number; readonly at: number } | undefined => {
  const first = firing[0] ?? now + 1
  return first <= due ? undefined : { since: due, at: expression.last(due, first - 1, 1)[0] ?? due }
}
