import { Effect, Either } from "effect"
import type { JobId } from "../../core/Ids.js"
import type { JobRow } from "../JobRowMemory.js"
import { JobTable } from "../JobTableMemory.js"
import type { HeldJob } from "../Queue.js"
import type { StreamSummary } from "./Execution.js"
import { resultOf } from "./ExecutionRecords.js"
import {
  failureOf,
  isNews,
  StreamLimits,
  type StreamPage,
  type StreamPosition,
  type Streams,
  stateOf
} from "./Streams.js"
import { ExecutionNotFound, LeaseLost } from "./WorkflowErrors.js"
import { WorkflowTable } from "./WorkflowTableMemory.js"

type Jobs = typeof JobTable.Service
type Table = typeof WorkflowTable.Service

/** Chunks per page. */
const pageChunks = 1_000

/** The streams of an execution. Runs inside a step of the job table. */
export const summaries = (jobs: Jobs, table: Table, job: JobId): ReadonlyArray<StreamSummary> => {
  const finishedAt = jobs.get(job)?.finishedAt
  return [...table.streamsOf(job).values()]
    .sort((a, b) => a.startedAt - b.startedAt || (a.name < b.name ? -1 : 1))
    .map((stream) => {
      const { bytes, count, generation, name, startedAt } = stream
      const result = resultOf(table.stepsOf(job), stream)
      const state = stateOf(result?.outcome ?? stream.outcome, finishedAt !== undefined)
      return { name, generation, state, count, bytes, startedAt, endedAt: result?.endedAt ?? finishedAt }
    })
}

const pageOf = (jobs: Jobs, table: Table, position: StreamPosition): Either.Either<StreamPage, ExecutionNotFound> => {
  const row = jobs.get(position.job)
  if (row === undefined) return Either.left(new ExecutionNotFound({ execution: position.job }))
  const isOver = row.finishedAt !== undefined
  const stream = table.streamsOf(position.job).get(position.name)
  if (stream === undefined) {
    const number = Math.max(0, position.number)
    return Either.right({
      generation: 0,
      number,
      chunks: [],
      count: 0,
      state: isOver ? "missing" : "open",
      error: undefined
    })
  }
  const { chunks, count, generation } = stream
  const isOther = position.generation !== undefined && position.generation !== generation
  const asked = position.number < 0 ? Math.max(0, count + position.number) : position.number
  const number = isOther ? 0 : asked
  const result = resultOf(table.stepsOf(position.job), stream)
  const state = stateOf(result?.outcome ?? stream.outcome, isOver)
  return Either.right({
    generation,
    number,
    chunks: chunks.slice(number, Math.min(count, number + pageChunks)).map((text) => JSON.parse(text)),
    count,
    state,
    error: state === "failed" ? failureOf(result?.exit) : undefined
  })
}

export const make = (
  find: (execution: string) => Either.Either<JobRow, ExecutionNotFound>
): Effect.Effect<Streams, never, JobTable | WorkflowTable> =>
  Effect.gen(function* () {
    const jobs = yield* JobTable
    const table = yield* WorkflowTable
    const limits = yield* StreamLimits

    /** Changes a stream, only while the run holds its lease. */
    const whileHeld = <A>({ id, lease }: HeldJob, act: (now: number) => A): Effect.Effect<A, LeaseLost> =>
      Effect.flatten(
        jobs.atomically((now) =>
          jobs.get(id)?.run?.lease === lease ? Either.right(act(now)) : Either.left(new LeaseLost({ id }))
        )
      )

    return {
      limits,
      pace: 0,
      begin: (run, name, attempt) =>
        whileHeld(run, (startedAt) => {
          const generation = (table.streamsOf(run.id).get(name)?.generation ?? 0) + 1
          table.putStream(run.id, {
            name,
            generation,
            attempt,
            startedAt,
            bytes: 0,
            chunks: [],
            count: 0,
            outcome: undefined
          })
          return generation
        }),
      append: (run, batch) =>
        whileHeld(run, () => {
          const known = table.streamsOf(run.id).get(batch.name)
          if (known?.generation !== batch.generation || known.count !== batch.number) return
          const added: ReadonlyArray<unknown> = JSON.parse(batch.text)
          // Cut off chunks that a change took back.
          known.chunks.length = known.count
          for (const chunk of added) known.chunks.push(JSON.stringify(chunk))
          table.putStream(run.id, { ...known, count: known.count + added.length, bytes: batch.bytes })
        }),
      find: (execution) => Effect.flatten(jobs.atomically(() => Either.map(find(execution), ({ id }) => id))),
      read: (position) => Effect.flatten(jobs.atomically(() => pageOf(jobs, table, position))),
      next: (position) =>
        Effect.async<StreamPage, ExecutionNotFound>((resume) => {
          const check = () => {
            const page = pageOf(jobs, table, position)
            if (Either.isRight(page) && !isNews(page.right)) return
            stop()
            resume(page)
          }
          const stop = jobs.onChange(check)
          check()
          return Effect.sync(stop)
        }),
      list: (job) => jobs.atomically(() => summaries(jobs, table, job))
    }
  })
