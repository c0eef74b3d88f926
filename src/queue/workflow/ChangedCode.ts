import { Duration } from "effect"
import * as Suspension from "../../core/Suspension.js"

/** What the code of an execution has not followed. */
export interface Difference {
  /** The recorded step that the code did not request. */
  readonly recorded: string
  /** What it requested instead, if anything. */
  readonly requested: string | undefined
}

/** How long an execution waits before the code is tried again: other code may have been deployed. */
const pause = Duration.toMillis("10 minutes")

/** Says how the code differs from the journal. */
export const textOf = ({ recorded, requested }: Difference): string => {
  const instead = requested === undefined ? "its code ended without it" : `its code does "${requested}" instead`
  return `step "${recorded}" is recorded, but ${instead}`
}

/** Suspends an execution whose code does not follow its journal. */
export const suspension = (
  difference: Difference,
  woken: number,
  now: number,
  advice: string
): Suspension.Suspension => {
  const changed = textOf(difference)
  return Suspension.make({
    woken,
    changed,
    waits: [{ kind: "changed", name: difference.recorded, dueAt: now + pause }],
    error: `The code has changed: ${changed}. Deploy code that follows the journal, ${advice}. Code that reads a clock or a random number between steps causes this, too: read it in a step.`
  })
}
