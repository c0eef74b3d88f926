import { Context, Effect, Layer, Predicate } from "effect"
import type { ConfigError } from "effect/ConfigError"
import type { JobId } from "../../core/Id.js"
import * as Setting from "../../core/Setting.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import type { HeldJob } from "../Queue.js"
import type { StreamChunk, StreamState, StreamSummary } from "./Execution.js"
import { type ExecutionNotFound, type LeaseLost, StreamFailed, StreamNotFound } from "./WorkflowErrors.js"

export const settings = {
  chunkBytes: Setting.bytes(
    { key: "STREAM_MAX_CHUNK", about: "Maximum size of one chunk that a workflow writes to a stream, as JSON." },
    "64KiB"
  ),
  streamBytes: Setting.bytes(
    { key: "STREAM_MAX_SIZE", about: "Maximum size of all chunks of a workflow's stream, as JSON." },
    "64MiB"
  )
}

/** Maximum sizes of streams and their chunks. */
export class StreamLimits extends Context.Reference<StreamLimits>()("nightshift/queue/StreamLimits", {
  defaultValue: (): Setting.Values<typeof settings> => ({ chunkBytes: 64 * 1024, streamBytes: 64 * 1024 * 1024 })
}) {
  static readonly layer: Layer.Layer<StreamLimits, ConfigError> = Layer.effect(StreamLimits, Setting.group(settings))
}

/** Chunks to store together. */
export interface StreamBatch {
  /** Name of the stream, which is that of its step. */
  readonly name: string
  readonly generation: number
  /** Number of the first chunk, from 0. */
  readonly number: number
  readonly count: number
  /** Size of the stream up to and including these chunks. */
  readonly bytes: number
  /** The chunks as a JSON array. */
  readonly text: string
}

/** Where a reader continues. */
export interface StreamPosition {
  readonly job: JobId
  readonly name: string
  /** The generation that `number` belongs to; undefined for the current one. A newer one is read from its start. */
  readonly generation: number | undefined
  /** Number of the next chunk. Negative: this many chunks before the end. */
  readonly number: number
}

/** Chunks of a stream, and its state as of the same instant. */
export interface StreamPage {
  /** 0 if the stream does not exist. */
  readonly generation: number
  /** Number of the first chunk of this page. */
  readonly number: number
  readonly chunks: ReadonlyArray<unknown>
  /** Chunks of the generation that are stored. */
  readonly count: number
  /** `missing`: the execution has ended without such a stream. */
  readonly state: StreamState | "missing"
  /** Message of the error that the step failed with. */
  readonly error: string | undefined
}

/** The streams of executions. Part of `Workflows`. */
export interface Streams {
  readonly limits: StreamLimits["Type"]

  /** Milliseconds between two writes of a stream. Chunks that arrive meanwhile are stored together. */
  readonly pace: number

  /**
   * Begins a new generation of a stream, and deletes the chunks of the last one. Only while the run holds its lease.
   * Returns the number of the generation, from 1.
   */
  readonly begin: (run: HeldJob, name: string, attempt: number) => Effect.Effect<number, LeaseLost | DatabaseError>

  /** Stores chunks, only while the run holds its lease. Idempotent. Batches of several streams share a statement. */
  readonly append: (run: HeldJob, batch: StreamBatch) => Effect.Effect<void, LeaseLost | DatabaseError>

  /** The id of an execution's job, given the id of the execution or of the job. */
  readonly find: (execution: string) => Effect.Effect<JobId, ExecutionNotFound | DatabaseError>

  /** Reads what is stored at a position now. */
  readonly read: (position: StreamPosition) => Effect.Effect<StreamPage, ExecutionNotFound | DatabaseError>

  /** Like `read`, but waits until there are chunks at the position or the stream has ended. */
  readonly next: (position: StreamPosition) => Effect.Effect<StreamPage, ExecutionNotFound | DatabaseError>

  /** The streams of an execution by the id of its job, oldest first. */
  readonly list: (job: JobId) => Effect.Effect<ReadonlyArray<StreamSummary>, DatabaseError>
}

/** `outcome`: that of the attempt that writes the stream, if it is recorded and not reopened, or its end in an earlier journal. */
export const stateOf = (outcome: string | undefined, isExecutionOver: boolean): StreamState => {
  if (outcome === "done" || outcome === "failed" || outcome === "interrupted") return outcome
  return isExecutionOver ? "interrupted" : "open"
}

/** Whether no chunks follow this page. */
export const isLast = ({ chunks, count, number, state }: StreamPage): boolean =>
  state !== "open" && number + chunks.length >= count

/** Whether a reader has something to do with the page. */
export const isNews = (page: StreamPage): boolean => page.chunks.length > 0 || isLast(page)

/** The position after a page. Until the stream exists, the position stays relative to its first generation. */
export const after = (position: StreamPosition, { chunks, generation, number }: StreamPage): StreamPosition =>
  generation === 0 || chunks.length === 0 ? position : { ...position, generation, number: number + chunks.length }

/** Reads page after page. Succeeds with undefined after the last one. */
export const pager = <E>(
  next: (position: StreamPosition) => Effect.Effect<StreamPage, E>,
  start: StreamPosition
): Effect.Effect<StreamPage | undefined, E> => {
  let position = start
  let isOver = false
  return Effect.suspend(() =>
    isOver
      ? Effect.succeed(undefined)
      : Effect.map(next(position), (page) => {
          position = after(position, page)
          isOver = isLast(page)
          return page
        })
  )
}

/** Why a stream is incomplete or missing, given its last page. Undefined if its step succeeded. */
export const faultOf = (
  execution: string,
  stream: string,
  { error, state }: StreamPage
): StreamNotFound | StreamFailed | undefined => {
  if (state === "missing") return new StreamNotFound({ execution, stream })
  return state === "failed" || state === "interrupted"
    ? new StreamFailed({ execution, stream, state, error })
    : undefined
}

/** The chunks of a page. */
export const chunksOf = ({ chunks, generation, number }: StreamPage): ReadonlyArray<StreamChunk<unknown>> =>
  chunks.map((value, index) => ({ id: idOf(generation, number + index), generation, number: number + index, value }))

/** Identifies a chunk in all generations, for readers that continue behind it. */
export const idOf = (generation: number, number: number): string => `${generation}-${number}`

/** The position behind the chunk with this id. Undefined if it is not the id of a chunk. */
export const afterId = (id: string): Pick<StreamPosition, "generation" | "number"> | undefined => {
  const [, generation, number] = /^(\d{1,9})-(\d{1,9})$/.exec(id) ?? []
  return number === undefined ? undefined : { generation: Number(generation), number: Number(number) + 1 }
}

/** What can be read of the error of a failed step, in the form of either library that records exits. */
export const ofError = (exit: unknown, read: (error: unknown) => string | undefined): string | undefined => {
  for (const path of [["error"], ["cause", "error"], ["cause", "defect"]]) {
    const found = read(path.reduce<unknown>((at, key) => (Predicate.hasProperty(at, key) ? at[key] : undefined), exit))
    if (found !== undefined) return found
  }
}

/** The message of a failed step. */
export const failureOf = (exit: unknown): string =>
  ofError(exit, (error) => {
    if (Predicate.hasProperty(error, "message") && typeof error.message === "string") return error.message
    return typeof error === "string" ? error : undefined
  }) ?? "the step failed"
