import type { JobId } from "../../core/Ids.js"
import type { Deferred, Step, Tags } from "./Execution.js"
import type { Lifetime } from "./LifetimesMemory.js"

// Rows of the workflow tables in the memory layers.

export interface ChildLink {
  readonly parent: string
  readonly name: string
  readonly position: number
  readonly child: JobId
  readonly owned: boolean
  readonly endedAt: number | undefined
}

export type StoredDeferred = Deferred & {
  readonly execution: string
  readonly early: boolean
  /** Number of values of a signal, in the row of the first one. */
  readonly arrived?: number | undefined
  /** Size of the values after the first as JSON, in the same row. */
  readonly arrivedBytes?: number | undefined
  /** The id that the sender of a value chose. */
  readonly valueId?: string | undefined
}

/** A generation of a stream. The chunks are JSON texts. */
export interface StoredStream {
  readonly name: string
  readonly generation: number
  readonly attempt: number
  readonly startedAt: number
  readonly bytes: number
  /** Only ever appended to. The first `count` belong to this row. */
  readonly chunks: Array<string>
  readonly count: number
  /** How the stream had ended when the execution continued with a new journal. */
  readonly outcome: string | undefined
}

/** The recorded result of the attempt that writes the stream, or of a later one that failed before it wrote. */
export const resultOf = (steps: ReadonlyArray<Step>, { attempt, name }: StoredStream): Step | undefined =>
  steps.findLast(
    (step) =>
      step.name === name && step.attempt >= attempt && step.reopenedAt === undefined && step.outcome !== "retrying"
  )

/** The journal, streams, waits and links of an execution. */
export interface ExecutionRecords {
  readonly steps: ReadonlyArray<Step>
  readonly streams: ReadonlyMap<string, StoredStream>
  readonly deferreds: ReadonlyArray<StoredDeferred>
  readonly links: ReadonlyArray<ChildLink>
  readonly lifetime: Lifetime
  readonly tags: Tags
}
