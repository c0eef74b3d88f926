import { Schema } from "effect"
import { Expected } from "../../core/ExpectedError.js"

/** What happened to jobs that were to move. */
export interface Moved {
  readonly moved: number
  /** Ids that the other cell had already. Their old copies were deleted. */
  readonly known: number
  /** Moved without their dedupe key, because another job has it there. */
  readonly withoutKey: number
  /** Executions that exist in both cells. They stay. */
  readonly refused: ReadonlyArray<string>
}

/** The cells do not have the same jobs after a step. Nothing was deleted. */
export class MoveMismatch extends Expected<MoveMismatch>(409)("MoveMismatch", {
  from: Schema.String,
  to: Schema.String,
  expected: Schema.Int,
  found: Schema.Int
}) {
  override get message(): string {
    return `Cell ${this.to} stored ${this.found} of ${this.expected} jobs of cell ${this.from}. These jobs stay in ${this.from}; run the command again.`
  }
}

export const none: Moved = { moved: 0, known: 0, withoutKey: 0, refused: [] }

export const plus = (a: Moved, b: Moved): Moved => ({
  moved: a.moved + b.moved,
  known: a.known + b.known,
  withoutKey: a.withoutKey + b.withoutKey,
  refused: [...a.refused, ...b.refused]
})
