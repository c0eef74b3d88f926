import { Duration } from "effect"
import * as Suspension from "../../core/Suspension.js"
import type { ClaimedExecution } from "../Queue.js"
import type { Deferred, Journal } from "./Execution.js"

/** A difference between the code of an execution and its journal. */
export interface Difference {
  /** The recorded step, or the wait, that the code did not request. */
  readonly recorded: string
  /** Whether `recorded` is a wait that the execution was suspended on. */
  readonly isOpen?: boolean
  /** The step that the code requested instead, if any. */
  readonly requested: string | undefined
}

/**
 * How long an execution waits before the code is tried again. During a rolling deploy, processes with the code that wrote
 * the journal are alive, so the first tries come within seconds. Later ones come after half of the time that the execution
 * has been waiting for other code.
 */
const pause = { first: Duration.toMillis("1 second"), longest: Duration.toMillis("10 minutes") }

const pauseOf = (waits: ReadonlyArray<Deferred>, now: number): number => {
  const since = waits.filter(({ kind, waiting }) => kind === "changed" && waiting).map(({ createdAt }) => createdAt)
  return Math.min(pause.longest, Math.max(pause.first, (now - Math.min(now, ...since)) / 2))
}

/** Whether an execution waits for other code. */
export const isChanged = (waits: ReadonlyArray<Suspension.Wait>): boolean =>
  waits.some(({ kind }) => kind === "changed")

/** Says how the code differs from the journal. */
export const textOf = ({ isOpen = false, recorded, requested }: Difference): string => {
  const instead = requested === undefined ? "its code ended without it" : `its code does "${requested}" instead`
  return isOpen ? `it waits for "${recorded}", but ${instead}` : `step "${recorded}" is recorded, but ${instead}`
}

/** Suspends an execution whose payload the code cannot decode. */
export const ofPayload = (
  reason: string,
  { journal, woken }: Pick<ClaimedExecution, "journal" | "woken">,
  now: number
): Suspension.Suspension =>
  Suspension.make({
    woken,
    changed: reason,
    // Without its journal it is not known how long the execution has waited.
    waits: [
      {
        kind: "changed",
        name: "payload",
        dueAt: now + (journal === undefined ? pause.longest : pauseOf(journal.waits, now))
      }
    ],
    error: `The code has changed: it cannot decode the payload of this execution: ${reason}. Deploy code that can: a schema that accepts the payload, or an upcaster from its version.`
  })

/** Suspends an execution whose code does not follow its journal. */
export const suspension = (
  difference: Difference,
  { waits, woken }: Pick<Journal, "waits" | "woken">,
  now: number,
  advice: string
): Suspension.Suspension => {
  const changed = textOf(difference)
  return Suspension.make({
    woken,
    changed,
    waits: [{ kind: "changed", name: difference.recorded, dueAt: now + pauseOf(waits, now) }],
    error: `The code has changed: ${changed}. Deploy code that follows the journal, ${advice}. Code that reads the clock or a random number outside a step also causes this: read it in a step.`
  })
}
