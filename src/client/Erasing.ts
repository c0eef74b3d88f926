import { Duration } from "effect"
import type { DurationInput } from "../core/DurationInput.js"
import * as Eraser from "../erasure/Eraser.js"
import type { Engine, Ports } from "./Engine.js"
import { checkKnown, durationOf, namesOf } from "./Options.js"

/** How the data of a subject is erased. */
export interface EraseOptions {
  /** Jobs that have not ended: `cancel` them and wait, or `skip` them. [cancel] */
  readonly running?: "cancel" | "skip" | undefined
  /** How long to wait for jobs that run. [1m] */
  readonly deadline?: DurationInput | undefined
  /** Recorded in the audit log. [none] */
  readonly reason?: string | undefined
}

/** What was erased. */
export interface ErasedView {
  /** Number of things that were erased, by what they are. */
  readonly erased: Readonly<
    Record<"jobs" | "events" | "batches" | "schedules" | "uploads" | "copies" | "quotes", number>
  >
  /** Up to 20 jobs that have not ended. Their data is still stored. */
  readonly unfinished: ReadonlyArray<{
    /** Id of the job. */
    readonly id: string
    /** Kind of the job. */
    readonly kind: string
    /** Id of the execution, if the job is one. */
    readonly execution: string | undefined
    /** Whether the job runs. */
    readonly running: boolean
    /** Whether it was asked to stop. */
    readonly asked: boolean
  }>
  /** Whether nothing is left, except for jobs that were to be skipped. */
  readonly done: boolean
}

const known = namesOf<EraseOptions>({ running: 0, deadline: 0, reason: 0 })

/** @internal */
export const make =
  (engine: Engine<Ports>) =>
  async (subject: string, options: EraseOptions = {}): Promise<ErasedView> => {
    checkKnown(options, known, "an option of erase")
    const { deadline = "1m", reason, running = "cancel" } = options
    const wait = Duration.toMillis(durationOf("deadline", deadline))
    return engine.wait(Eraser.eraseUntil(subject, { running, deadline: wait, who: "code", reason }))
  }
