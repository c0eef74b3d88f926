import { Cause, Chunk, Effect, Exit, Option, Runtime, Stream } from "effect"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { StreamChunk } from "../queue/workflow/Execution.js"
import * as Streams from "../queue/workflow/Streams.js"
import {
  type ExecutionNotFound,
  LeaseLost,
  type StreamFailed,
  type StreamNotFound
} from "../queue/workflow/WorkflowErrors.js"
import { Workflows } from "../queue/workflow/Workflows.js"
import { CurrentActivity, CurrentRun } from "./CurrentRun.js"
import type { Run } from "./Run.js"
import { StreamWriter } from "./StreamWriter.js"

/** What an activity wrote. */
export interface Written {
  /** The generation that was written: 1, unless the activity was repeated. */
  readonly generation: number
  /** Number of chunks. */
  readonly count: number
  /** Size of all chunks as JSON. */
  readonly bytes: number
}

/** The run stops if it has lost its lease. */
const refused = (run: Run) => (error: unknown) =>
  Effect.suspend(() => {
    if (!(error instanceof LeaseLost)) return Effect.die(error)
    run.isStopping = true
    return Effect.interrupt
  })

/**
 * Writes the elements of a Stream, which are text or JSON values, as a stream of the execution with the name of the activity.
 * Only inside of an activity. Each attempt of the activity begins a new generation.
 *
 * @example
 * ```ts
 * import { Activity } from "@effect/workflow"
 * import { Schema, Stream } from "effect"
 * import { WorkflowStream } from "nightshift/workflow"
 *
 * export const Answer = Activity.make({
 *   name: "tokens",
 *   success: Schema.Struct({ generation: Schema.Int, count: Schema.Int, bytes: Schema.Int }),
 *   execute: WorkflowStream.write(Stream.make("Hello", " ", "world"))
 * })
 * ```
 */
export const write = <A, E, R>(chunks: Stream.Stream<A, E, R>): Effect.Effect<Written, E, R> =>
  Effect.gen(function* () {
    const run = Option.getOrUndefined(yield* Effect.serviceOption(CurrentRun))
    const activity = yield* CurrentActivity
    if (run === undefined || activity === undefined)
      return yield* Effect.dieMessage("WorkflowStream.write is only possible inside of an activity.")
    const { streams } = run.workflows
    const stopping = refused(run)
    const runtime = yield* Effect.runtime<never>()
    const append = async (batch: Streams.StreamBatch) => {
      const exit = await Runtime.runPromiseExit(runtime)(run.patiently(streams.append(run.execution.run, batch)))
      if (Exit.isFailure(exit)) throw Cause.squash(exit.cause)
    }
    const generation = yield* run
      .patiently(streams.begin(run.execution.run, activity.name, activity.attempt))
      .pipe(Effect.catchAll(stopping))
    const writer = new StreamWriter(activity.name, generation, streams, append, runtime)
    const done = (write: () => Promise<void>) =>
      Effect.catchAll(Effect.tryPromise({ try: write, catch: (error) => error }), stopping)
    yield* Stream.runForEach(chunks, (chunk) => done(() => writer.write(chunk))).pipe(
      // Readers get what was written before a failure.
      Effect.onError(() => Effect.promise(() => writer.finish().catch(() => {})))
    )
    yield* done(() => writer.finish())
    return { generation, count: writer.count, bytes: writer.bytes }
  })

/** Why a stream cannot be read. */
export type ReadError = ExecutionNotFound | StreamNotFound | StreamFailed | DatabaseError

/** Where to begin to read a stream. */
export interface ReadOptions {
  /** Number of the first chunk; a negative number counts from the end. [0] */
  readonly from?: number | undefined
  /** The id of the last chunk that was read: continues behind it. */
  readonly after?: string | undefined
}

/**
 * Reads a stream of an execution while it is written. Takes the id of the execution or of its job. Fails with StreamFailed
 * if the activity failed, and with StreamNotFound if the execution ends without it.
 */
export const read = (
  execution: string,
  name: string,
  { after, from = 0 }: ReadOptions = {}
): Stream.Stream<StreamChunk<unknown>, ReadError, Workflows> =>
  Stream.unwrap(
    Effect.gen(function* () {
      const { streams } = yield* Workflows
      const job = yield* streams.find(execution)
      const start = (after === undefined ? undefined : Streams.afterId(after)) ?? {
        generation: undefined,
        number: from
      }
      const next = Streams.pager(streams.next, { ...start, job, name })
      let last: Streams.StreamPage | undefined
      const end = Effect.suspend(() => {
        const fault = last === undefined ? undefined : Streams.faultOf(execution, name, last)
        return Effect.fail(Option.fromNullable<ReadError | undefined>(fault))
      })
      const chunks = Effect.mapError(next, (error) => Option.some<ReadError>(error)).pipe(
        Effect.flatMap((page) => {
          if (page === undefined) return end
          last = page
          return Effect.succeed(Chunk.fromIterable(Streams.chunksOf(page)))
        })
      )
      return Stream.repeatEffectChunkOption(chunks)
    })
  )
