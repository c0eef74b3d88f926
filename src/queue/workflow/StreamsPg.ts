import { Array as Arr, Clock, Effect, Exit } from "effect"
import * as Batcher from "../../core/Batcher.js"
import type { JobId } from "../../core/Ids.js"
import type { Database } from "../../database/Database.js"
import { type DatabaseError, isDataError, mapErrors, retryContention } from "../../database/DatabaseError.js"
import { named } from "../../database/Statements.js"
import type { HeldJob } from "../Queue.js"
import * as SqlArrays from "../SqlArrays.js"
import { topics as endTopics } from "../search/JobEnds.js"
import * as JobWaits from "../search/JobWaits.js"
import * as StreamSql from "./StreamSql.js"
import {
  failureOf,
  isNews,
  type StreamBatch,
  StreamLimits,
  type StreamPage,
  type StreamPosition,
  type Streams,
  stateOf
} from "./Streams.js"
import { ExecutionNotFound, LeaseLost } from "./WorkflowErrors.js"

/** Topics of hints: jobs whose streams a caller reads, and jobs with new chunks or steps. */
const topics = { awaited: "reading", changed: "streamed" }

/** Milliseconds between two writes of one stream: a fast model sends a token every few milliseconds. */
const pace = 25

/** Milliseconds between two notifications of a process. */
const notifyEvery = 5

/** Positions per query. A page has about 256 KiB. */
const positionsPerQuery = 64

type ReadError = ExecutionNotFound | DatabaseError
type Waiters = JobWaits.Waiters<StreamPosition, StreamPage, ReadError>
type AppendError = LeaseLost | DatabaseError

interface BatchOfRun extends StreamBatch {
  readonly run: HeldJob
}

interface StreamRow {
  readonly name: string
  readonly generation: number
  readonly started_at: number
  readonly outcome: string | null
  readonly ended_at: number | null
  readonly finished_at: number | null
  readonly count: number
  readonly bytes: number
}

type ChunkRow = readonly [
  place: number,
  isStored: boolean,
  isOver: boolean,
  generation: number | null,
  outcome: string | null,
  exit: unknown,
  count: number | null,
  from: number,
  number: number | null,
  chunks: string | null
]

/** The page of a position, given its rows. */
const pageOf = (rows: ReadonlyArray<ChunkRow>): StreamPage | undefined => {
  const [first] = rows
  if (first?.[1] !== true) return undefined
  const [, , isOver, generation, outcome, exit, count, from] = first
  const chunks = rows.flatMap(([, , , , , , , , number, text]): ReadonlyArray<unknown> => {
    if (number === null || text === null) return []
    const all: ReadonlyArray<unknown> = JSON.parse(text)
    // The row that contains the position begins before it.
    return number < from ? all.slice(from - number) : all
  })
  const state = stateOf(outcome ?? undefined, isOver)
  return {
    generation: generation ?? 0,
    number: from,
    chunks,
    count: count ?? 0,
    state: generation === null && isOver ? "missing" : state,
    error: state === "failed" ? failureOf(exit) : undefined
  }
}

const keyOf = ({ generation, job, name, number }: StreamPosition) => `${job} ${generation} ${number} ${name}`

/** The streams on PostgreSQL. `recorded`: tells readers that steps of these jobs were recorded. */
export const make = (database: typeof Database.Service, find: Streams["find"]) =>
  Effect.gen(function* () {
    const { direct, schema, sql } = database
    const statements = named("workflow", StreamSql.make(schema))
    const scope = yield* Effect.scope
    const limits = yield* StreamLimits
    const changes = yield* JobWaits.makeChanges(topics)

    const untold = new Set<JobId>()
    let isTelling = false
    /** Notifies readers, at most every few milliseconds: a commit with NOTIFY takes a lock of the whole server. */
    const tell = Effect.gen(function* () {
      while (untold.size > 0) {
        const ids = [...untold]
        untold.clear()
        yield* Effect.ignore(changes.publish(ids))
        yield* Effect.sleep(notifyEvery)
      }
    }).pipe(Effect.ensuring(Effect.sync(() => (isTelling = false))))
    const changed = (ids: ReadonlyArray<JobId>): Effect.Effect<void> => {
      if (changes.isEmpty()) return Effect.void
      for (const id of changes.awaited(ids)) untold.add(id)
      if (untold.size === 0 || isTelling) return Effect.void
      isTelling = true
      return Effect.asVoid(Effect.forkIn(tell, scope))
    }

    const write = (batches: ReadonlyArray<BatchOfRun>) =>
      Effect.gen(function* () {
        const rows = yield* direct.rows(statements.appendChunks, [
          SqlArrays.ofPlain(batches.map(({ run }) => run.id)),
          SqlArrays.ofPlain(batches.map(({ run }) => run.lease)),
          SqlArrays.ofTexts(batches.map(({ name }) => name)),
          SqlArrays.ofPlain(batches.map(({ generation }) => generation)),
          SqlArrays.ofPlain(batches.map(({ number }) => number)),
          SqlArrays.ofPlain(batches.map(({ count }) => count)),
          SqlArrays.ofPlain(batches.map(({ bytes }) => bytes)),
          SqlArrays.ofTexts(batches.map(({ text }) => text))
        ])
        yield* changed(batches.map(({ run }) => run.id))
        return batches.map(
          ({ run }, place): Exit.Exit<void, AppendError> =>
            rows[place]?.[1] === true ? Exit.void : Exit.fail(new LeaseLost({ id: run.id }))
        )
      }).pipe(retryContention)

    const writer = yield* Batcher.make<BatchOfRun, void, AppendError, never>({
      weight: ({ text }) => 1 + text.length / 8_192,
      maxWeight: 500,
      lanes: 2,
      capacity: 10_000,
      gather: setImmediate,
      isolate: (error) => error._tag !== "LeaseLost" && isDataError(error),
      flush: write
    })

    /** Pages of different positions, with one query. Undefined if the job does not exist. */
    const readAll = (positions: ReadonlyArray<StreamPosition>) =>
      Effect.map(
        direct.rows(statements.readChunks, [
          SqlArrays.ofPlain(positions.map(({ job }) => job)),
          SqlArrays.ofTexts(positions.map(({ name }) => name)),
          SqlArrays.ofNumbers(positions.map(({ generation }) => generation)),
          SqlArrays.ofPlain(positions.map(({ number }) => number))
        ]) as Effect.Effect<ReadonlyArray<ChunkRow>, DatabaseError>,
        (rows) => {
          const byPlace = Arr.groupBy(rows, ([place]) => String(place))
          return positions.map((_, index) => pageOf(byPlace[index + 1] ?? []))
        }
      )

    const readWaiters = (waiters: Waiters) => {
      const asked = [...waiters.values()].flatMap((all) => [...all])
      // Readers that have read everything wait at the same position, and share its page.
      const answers = Object.values(Arr.groupBy(asked, ({ request }) => keyOf(request))).map(
        (all) => [all[0].request, all] as const
      )
      const parts = Array.from({ length: Math.ceil(answers.length / positionsPerQuery) }, (_, part) =>
        answers.slice(part * positionsPerQuery, (part + 1) * positionsPerQuery)
      )
      return Effect.forEach(
        parts,
        (part) =>
          Effect.match(readAll(part.map(([position]) => position)), {
            onFailure: (error) => {
              for (const [, all] of part) for (const { answer } of all) answer(Exit.fail(error))
            },
            onSuccess: (pages) => {
              for (const [index, [{ generation, job }, all]] of part.entries()) {
                const page = pages[index]
                if (page !== undefined && !isNews(page)) continue
                // Another process may write now that does not know that the stream is read here.
                if (page !== undefined && generation !== undefined && page.generation !== generation) announceAgain(job)
                const exit =
                  page === undefined ? Exit.fail(new ExecutionNotFound({ execution: job })) : Exit.succeed(page)
                for (const { answer } of all) answer(exit)
              }
            }
          }),
        { discard: true }
      )
    }

    const { announceAgain, wait } = yield* JobWaits.make<StreamPosition, StreamPage, ReadError>({
      name: "streams",
      // A stream that its step does not end, ends with its execution.
      announcedOn: [topics.awaited, endTopics.awaited],
      changedOn: [topics.changed, endTopics.changed],
      perQuery: 1_000,
      read: readWaiters
    })

    const streams: Streams = {
      limits,
      pace,
      begin: (run, name, attempt) =>
        Effect.gen(function* () {
          const now = yield* Clock.currentTimeMillis
          const [row] = yield* mapErrors(
            sql.unsafe<{ generation: number }>(statements.beginStream, [run.id, run.lease, name, attempt, now])
          )
          if (row === undefined) return yield* new LeaseLost({ id: run.id })
          return row.generation
        }),
      find,
      append: (run, batch) => writer.submit({ ...batch, run }),
      read: (position) =>
        Effect.flatMap(readAll([position]), ([page]) =>
          page === undefined ? new ExecutionNotFound({ execution: position.job }) : Effect.succeed(page)
        ),
      next: (position) => wait(position.job, position),
      list: (job) =>
        Effect.map(mapErrors(sql.unsafe<StreamRow>(statements.listStreams, [job])), (rows) =>
          rows.map(({ bytes, count, ended_at, finished_at, generation, name, outcome, started_at }) => {
            const state = stateOf(outcome ?? undefined, finished_at !== null)
            const endedAt = state === "open" ? undefined : (ended_at ?? finished_at ?? undefined)
            return { name, generation, state, count, bytes, startedAt: started_at, endedAt }
          })
        )
    }
    return { streams, recorded: changed }
  })
