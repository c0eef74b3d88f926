import { Duration } from "effect"
import type { JobId, Lease } from "../../core/Ids.js"

// Limits how many steps run at once over the cluster. A step that finds no free permit waits in line with its execution
// suspended. A permit that becomes free is kept for the step that waits longest, which is woken to take it. Permits of a run
// that has ended are free, but only the next step that asks notices that: steps in line ask again after a while, those in
// front more often than those behind.

/** A permit that a step needs. */
export interface Permit {
  /** The execution of the step. */
  readonly execution: string
  /** The workflow and the name of the step in its code, whose permits are counted together. */
  readonly scope: string
  /** The name of the step in the journal. */
  readonly step: string
  /** How many steps of the scope may run at once. */
  readonly most: number
}

/** The answer to a step that asked for a permit or returned one. */
export interface PermitTurn {
  readonly granted: boolean
  /** Number of steps in line before this one. Counting stops at 1000. */
  readonly place: number
  /** Whether another step of the same execution is next. It was not woken, because its run may be waiting for it. */
  readonly ownIsNext: boolean
}

/** A step that waits for a permit, was called to take one, or holds one. */
export interface PermitRow {
  readonly jobId: JobId
  readonly execution: string
  readonly scope: string
  readonly step: string
  readonly since: number
  readonly calledAt: number | undefined
  readonly lease: Lease | undefined
}

/** How long a permit is kept for a step that was called. `turn_permit()` has the same time. */
export const callMillis = Duration.toMillis("30 seconds")

const pause = { first: Duration.toMillis("15 seconds"), longest: Duration.toMillis("10 minutes") }

/** How long a step in line waits before it asks again, unless it is called first. */
export const pauseOf = ({ most }: Permit, { place }: PermitTurn): number =>
  Math.min(pause.longest, pause.first * (1 + place / most))
