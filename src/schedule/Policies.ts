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

/** What is asked of a schedule that is due: it was to fire at `due`, and now it is `now`. Epoch milliseconds. */
export interface Span {
  readonly due: number
  readonly now: number
  /** How late a tick may be fired and still be in time. */
  readonly onTime: number
}

/**
 * The ticks that a schedule still has to fire. A tick that is not older than `onTime` counts as fired in time even where
 * missed runs are not made up for.
 */
export const owed = (missed: Missed, expression: Expression, { due, now, onTime }: Span): ReadonlyArray<number> => {
  // As a rule one is due, and it is that one: also when a zone's rules have changed since it was written down.
  if (expression.next(due) > now) return missed === "none" && now - due > onTime ? [] : [due]
  if (typeof missed === "object") return expression.last(due, now, missed.all)
  const ticks = expression.last(due, now, 1)
  return missed === "one" ? ticks : ticks.filter((tick) => now - tick <= onTime)
}

/** The first and the last tick before those that are owed: what is given up. */
export const givenUp = (
  expression: Expression,
  { due, now }: Span,
  owed: ReadonlyArray<number>
): { readonly since: number; readonly at: number } | undefined => {
  const [first = now + 1] = owed
  return first <= due ? undefined : { since: due, at: expression.last(due, first - 1, 1)[0] ?? due }
}
