import { Predicate } from "effect"
import type { StreamWriter } from "../../workflow/StreamWriter.js"
import type { StepContext, StreamContext, StreamResult } from "./Step.js"
import * as StepScope from "./StepScope.js"
import type { WorkflowRun } from "./WorkflowRun.js"

// One attempt of a step that writes a stream.

type Chunks = AsyncIterator<unknown, unknown> | Iterator<unknown, unknown>

/** The chunks that code returned: those of a generator or an async iterable. An array is a value like others. */
const chunksOf = (returned: unknown): Chunks | undefined => {
  if (!Predicate.isObject(returned)) return undefined
  if (Symbol.asyncIterator in returned) return (returned as AsyncIterable<unknown>)[Symbol.asyncIterator]()
  const isGenerator = Symbol.iterator in returned && "next" in returned
  return isGenerator ? (returned as Iterable<unknown>)[Symbol.iterator]() : undefined
}

/** Writes all chunks, each after the one before it has room. Returns the return value of a generator. */
const writeAll = async (chunks: Chunks, writer: StreamWriter, signal: AbortSignal): Promise<unknown> => {
  let isOver = false
  try {
    for (;;) {
      const { done, value } = await chunks.next()
      isOver = done === true
      if (isOver) return value
      signal.throwIfAborted()
      await writer.write(await value)
    }
  } finally {
    // Runs the `finally` blocks of a generator that is left before its end.
    if (!isOver) await chunks.return?.(undefined)
  }
}

/** Runs the code and stores its chunks. Returns the result of the step. */
export const perform = async (
  run: WorkflowRun,
  name: string,
  context: StepContext,
  code: (context: StreamContext) => unknown
): Promise<StreamResult<unknown>> => {
  const writer = await run.journal.beginStream(name, context.attempt)
  const write = (chunk: unknown) => writer.write(chunk)
  const produce = async () => {
    const returned = await code(Object.assign(context, { write }))
    const chunks = chunksOf(returned)
    return chunks === undefined ? returned : writeAll(chunks, writer, context.signal)
  }
  let value: unknown
  try {
    value = await StepScope.inside(run, name, produce)
  } catch (error) {
    // Readers get what was written before the failure.
    await writer.finish().catch(() => {})
    throw error
  }
  await writer.finish()
  const { bytes, count, generation } = writer
  return { generation, count, bytes, value }
}
