import { Schema } from "effect"
import type { Expression } from "./Expression.js"

/** What happens when a schedule is to fire while the job of its last fire is not over. */
export const Overlap = Schema.Literal("allow", "skip")
export type Overlap = typeof Overlap.Type

/** How many missed runs may be made up for at once: one request to the queue. */
export const mostMissed = 1_000

/**
 * What happens to runs whose time passed while nobody could fire them: one for all of them, none, or each, the latest
 * first where there are more than the limit.
 */
export const Missed = Schema.Union(
  Schema.Literal("one", "none"),
  Schema.Struct({ all: Schema.Int.pipe(Schema.between(1, mostMissed)) })
)
export type Missed = typeof Missed.Type

/**
 * The ticks that a schedule still has to fire: it was to fire at `due`, and now it is `now`. A tick that is not older than
 * `onTime` counts as fired in time even where missed runs are not made up for.
 */
export const owed = (
  missed: Missed,
  expression: Expression,
  span: { readonly due: number; readonly now: number; readonly onTime: number }
): ReadonlyArray<number> => {
  const { due, now, onTime } = span
  // As a rule one is due, and it is that one: also when a zone's rules have changed since it was written down.
  if (expression.next(due) > now) return missed === "none" && now - due > onTime ? [] : [due]
  if (typeof missed === "object") return expression.last(due, now, missed.all)
  const ticks = expression.last(due, now, 1)
  return missed === "one" ? ticks : ticks.filter((tick) => now - tick <= onTime)
}
