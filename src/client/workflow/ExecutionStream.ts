import { Cause } from "effect"
import { shown } from "../../core/Storable.js"
import type { StreamChunk } from "../../queue/workflow/Execution.js"
import * as Streams from "../../queue/workflow/Streams.js"
import { endWith } from "../Engine.js"
import { fromCause } from "../FromCause.js"
import { checkKnown, namesOf } from "../Options.js"
import { InvalidOptionError } from "../ShiftErrors.js"

export type { StreamChunk } from "../../queue/workflow/Execution.js"

/** Where to begin to read a stream. */
export interface StreamOptions {
  /**
   * Number of the first chunk to read. A negative number counts from the end: -10 begins with the last ten chunks. If the
   * stream is not that long yet, waits for this chunk. [0]
   */
  readonly from?: number | undefined
  /**
   * The `id` of the last chunk that was read: continues behind it, or with the first chunk if the stream has begun again
   * since. Not together with `from`.
   */
  readonly after?: string | undefined
  /** Stops reading when it is aborted: the iteration throws its reason. */
  readonly signal?: AbortSignal | undefined
}

/** Waits for the chunks at a position. @internal */
export type NextPage = (
  position: Streams.StreamPosition,
  signal: AbortSignal | undefined
) => Promise<Streams.StreamPage>

/** Reads a stream. `execution` finds the execution when the iteration begins. @internal */
export type ReadStream = <A>(
  execution: () => Promise<string>,
  name: string,
  options: StreamOptions | undefined
) => AsyncIterable<StreamChunk<A>>

const known = namesOf<StreamOptions>({ from: 0, after: 0, signal: 0 })

/** Why a wait ends whose reader has left the iteration. */
const left = new Error("The reader has left the iteration.")

/** The start of a reader. */
const startOf = ({ after, from = 0 }: StreamOptions): Pick<Streams.StreamPosition, "generation" | "number"> => {
  if (!Number.isInteger(from) || Math.abs(from) > 2 ** 31 - 1)
    throw new InvalidOptionError("from", `from must be a whole number, got ${shown(from)}.`)
  if (after === undefined) return { generation: undefined, number: from }
  const start = typeof after === "string" ? Streams.afterId(after) : undefined
  if (start === undefined)
    throw new InvalidOptionError("after", `after must be the id of a chunk, such as "1-42", got ${shown(after)}.`)
  if (from !== 0) throw new InvalidOptionError("from", "Pass either from or after, not both.")
  return start
}

/** Reads a stream. Every iteration starts again. @internal */
export const make = <A>(
  find: () => Promise<{ readonly job: Streams.StreamPosition["job"]; readonly execution: string }>,
  nextPage: NextPage,
  name: string,
  options: StreamOptions = {}
): AsyncIterable<StreamChunk<A>> => {
  checkKnown(options, known, "an option of stream")
  const start = startOf(options)
  const iterate = async function* (stop: AbortController): AsyncGenerator<StreamChunk<A>, void, undefined> {
    const { execution, job } = await find()
    let position: Streams.StreamPosition = { ...start, job, name }
    for (;;) {
      options.signal?.throwIfAborted()
      const page = await pageOrEnd(position, stop)
      if (page === undefined) return
      yield* Streams.chunksOf(page) as ReadonlyArray<StreamChunk<A>>
      if (Streams.isLast(page)) {
        const fault = Streams.faultOf(execution, name, page)
        if (fault !== undefined) throw fromCause(Cause.fail(fault))
        return
      }
      position = Streams.after(position, page)
    }
  }
  /** Nothing if the reader has left. */
  const pageOrEnd = async (position: Streams.StreamPosition, stop: AbortController) => {
    const forget = options.signal && endWith(options.signal, stop)
    try {
      return await nextPage(position, stop.signal)
    } catch (error) {
      if (stop.signal.reason === left) return undefined
      throw error
    } finally {
      forget?.()
    }
  }
  return {
    [Symbol.asyncIterator]: () => {
      const stop = new AbortController()
      const chunks = iterate(stop)
      const end = chunks.return.bind(chunks)
      // A generator would return after the next chunk only, which may never come.
      chunks.return = (value) => {
        stop.abort(left)
        return end(value)
      }
      return chunks
    }
  }
}
