import type { Duration, Effect } from "effect"

/** One part of a pass, bounded in time; its failure does not keep the others from their turn. */
export interface Step {
  readonly name: string
  readonly deadline: Duration.DurationInput
  /** Does its part and says what it did; an empty report means that there was nothing to do. */
  readonly run: Effect.Effect<Report, unknown>
  /** How the log tells what it did, where that is not simply its report. */
  readonly told?: (report: Report) => string
  /** Told when it failed, or took too long. */
  readonly failed?: Effect.Effect<void>
}

/** What a step did, by name. */
export type Report = Readonly<Record<string, number>>

/** A background duty: what one turn of it is, and how often it turns. */
export interface Loop {
  readonly name: string
  /** What it goes by, said once when it starts. */
  readonly about: string
  readonly every: Duration.DurationInput
  /** Whether the first turn is at the start, or one interval later. */
  readonly atStart: boolean
  readonly steps: ReadonlyArray<Step>
}
