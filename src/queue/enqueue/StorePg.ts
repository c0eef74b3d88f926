import { TransactionConnection } from "@effect/sql/SqlClient"
import { Effect, identity, Option } from "effect"
import type { JobId } from "../../core/Ids.js"
import type { Database } from "../../database/Database.js"
import { DatabaseUnavailable, partlyWritten } from "../../database/DatabaseError.js"
import type { StoreError } from "../JobErrors.js"
import type { JobSql } from "../JobSql.js"
import {
  batchWeight,
  charactersOf,
  hasExtras,
  isUniform,
  type StampedJob,
  type StampedJobs,
  statementCharacters,
  weightOf
} from "../NewJob.js"
import { type Enqueued, enqueued } from "../Queue.js"
import * as SqlArrays from "../SqlArrays.js"
import * as EnqueueJobs from "./EnqueueJobs.js"

export interface Stored {
  /** In the order of the jobs. */
  readonly answers: ReadonlyArray<Enqueued>
  /** Jobs that were not stored because they, or another job with their dedupe key, already existed. */
  readonly standing: ReadonlySet<JobId>
}

const noneStanding: ReadonlySet<JobId> = new Set()

/** The result for jobs that were all new. */
export const allStored = (jobs: StampedJobs): Stored => ({
  answers: jobs.map(({ id }) => enqueued(id)),
  standing: noneStanding
})

/** Batches insert in key order: two batches with the same keys in opposite order would deadlock. */
const byDedupeKey = (a: StampedJob, b: StampedJob) => {
  if (a.dedupeKey === b.dedupeKey) return 0
  if (a.dedupeKey === null) return -1
  return b.dedupeKey === null || a.dedupeKey > b.dedupeKey ? 1 : -1
}

/** Splits the jobs, in order, into pieces that fit one statement. */
const pieces = (jobs: StampedJobs): ReadonlyArray<StampedJobs> => {
  if (weightOf(jobs) <= batchWeight) return [jobs]
  const cut: Array<Array<StampedJob>> = []
  let characters = Number.POSITIVE_INFINITY
  for (const job of jobs) {
    characters += charactersOf(job)
    if (characters > statementCharacters) {
      cut.push([])
      characters = charactersOf(job)
    }
    cut.at(-1)?.push(job)
  }
  return cut
}

const plainParameters = (jobs: StampedJobs, now: number) => [
  SqlArrays.ofPlain(jobs.map(({ id }) => id)),
  SqlArrays.ofTexts(jobs.map(({ queue }) => queue)),
  SqlArrays.ofTexts(jobs.map(({ kind }) => kind)),
  SqlArrays.ofPlain(jobs.map(({ version }) => version)),
  SqlArrays.ofJson(jobs.map(({ payload }) => payload)),
  SqlArrays.ofPlain(jobs.map(({ priority }) => priority)),
  SqlArrays.ofPlain(jobs.map(({ runAt }) => runAt)),
  SqlArrays.ofPlain(jobs.map(({ attempts }) => attempts)),
  now
]

/** Parameters of the uniform insert; `notification` is what the statement sends, if anything. */
const uniformParameters = (jobs: StampedJobs, now: number, notification: string | null) => {
  const [first] = jobs
  const ids: Array<JobId> = []
  const payloads: Array<string> = []
  const runAts: Array<number> = []
  for (const { id, payload, runAt } of jobs) {
    ids.push(id)
    payloads.push(payload)
    runAts.push(runAt)
  }
  return [
    SqlArrays.ofPlain(ids),
    first?.queue,
    first?.kind,
    first?.version,
    SqlArrays.ofJson(payloads),
    first?.priority,
    SqlArrays.ofPlain(runAts),
    first?.attempts,
    now,
    notification
  ]
}

/**
 * Parameters of the wide insert; `wait` is the lock timeout for a held key, `notification` what the statement sends, if
 * anything.
 */
const fullParameters = (jobs: StampedJobs, now: number, wait: string | null, notification: string | null) => [
  ...plainParameters(jobs, now),
  SqlArrays.ofTexts(jobs.map(({ key }) => key)),
  SqlArrays.ofTexts(jobs.map(({ dedupeKey }) => dedupeKey)),
  SqlArrays.ofTexts(jobs.map(({ dedupeScope }) => dedupeScope)),
  SqlArrays.ofNumbers(jobs.map(({ dedupeWindow }) => (dedupeWindow === undefined ? null : now + dedupeWindow))),
  SqlArrays.ofJson(jobs.map(({ onDead }) => onDead)),
  SqlArrays.ofJson(jobs.map(({ meta }) => meta)),
  wait,
  SqlArrays.ofTexts(jobs.map(({ batch }) => batch)),
  SqlArrays.ofNumbers(jobs.map(({ woken }) => woken)),
  notification,
  SqlArrays.ofNumbers(jobs.map(({ isChild }) => isChild))
]

/**
 * A statement after others of the same request or batch. Outside a transaction those are committed. A lock timeout needs no
 * notice: the batcher then tries each job alone.
 */
const afterOthers = <A>(statement: Effect.Effect<A, StoreError>): Effect.Effect<A, StoreError> =>
  Effect.flatMap(Effect.serviceOption(TransactionConnection), (outer) =>
    Option.isSome(outer)
      ? statement
      : Effect.mapError(statement, (error) =>
          error instanceof DatabaseUnavailable && error.sqlState !== "55P03" ? partlyWritten(error) : error
        )
  )

/** Stores jobs. The SQL function decides conflicts by id and dedupe key. */
export const make = (
  database: typeof Database.Service,
  statements: JobSql,
  hint: (queue: string, now: number) => string | null
) => {
  const { direct } = database

  /**
   * The notification that an insert sends: for jobs of one queue only, and not in a caller's transaction, where `onStored`
   * adds the NOTIFY.
   */
  const notificationOf = (jobs: StampedJobs, now: number, wait: string | null, isOneQueue: boolean) =>
    wait !== null && isOneQueue ? hint(jobs[0]?.queue ?? "", now) : null

  const insertPlain = (jobs: StampedJobs, now: number, wait: string | null) =>
    isUniform(jobs)
      ? direct.count(statements.insertUniform, uniformParameters(jobs, now, notificationOf(jobs, now, wait, true)))
      : direct.count(statements.insertPlain, plainParameters(jobs, now))

  const isOneQueue = (jobs: StampedJobs) => jobs.every(({ queue }) => queue === jobs[0]?.queue)

  const insertFull = (jobs: StampedJobs, now: number, wait: string | null) =>
    Effect.map(
      direct.rows(
        statements.insertFull,
        fullParameters([...jobs].sort(byDedupeKey), now, wait, notificationOf(jobs, now, wait, isOneQueue(jobs)))
      ),
      (rows) => new Set(rows.map(([id]) => id as JobId))
    )

  /**
   * Stores jobs that conflict with others, or decides why not. `stored` are the jobs of the request that are stored already.
   */
  const decide = (
    jobs: StampedJobs,
    now: number,
    wait: string | null,
    request: StampedJobs,
    stored: ReadonlySet<JobId> = noneStanding
  ): Effect.Effect<Stored, StoreError> =>
    Effect.gen(function* () {
      const refused = stored.size === 0 ? jobs : jobs.filter(({ id }) => !stored.has(id))
      const parameter = EnqueueJobs.request(refused, now, wait === null ? {} : { lock_timeout: wait })
      const rows = yield* direct.rows(statements.enqueueJobs, [parameter])
      const decided = rows.map(([place, id, outcome, note]) => ({ place, id, outcome, note }) as EnqueueJobs.Answer)
      const refusal = EnqueueJobs.refusalOf(decided, refused, request)
      if (refusal !== undefined) return yield* refusal
      const answers = new Map<JobId, Enqueued>()
      const standing = new Set<JobId>()
      for (const answer of decided) {
        const { id } = refused[answer.place] as StampedJob
        answers.set(id, EnqueueJobs.enqueuedOf(answer))
        if (answer.outcome !== "enqueued") standing.add(id)
      }
      return { answers: jobs.map(({ id }) => answers.get(id) ?? enqueued(id)), standing }
    })

  /** Most jobs are new, and one INSERT stores them. Only what it does not store is a conflict. */
  const storePiece = (
    jobs: StampedJobs,
    now: number,
    wait: string | null,
    isFull: boolean,
    request: StampedJobs
  ): Effect.Effect<Stored, StoreError> => {
    if (isFull) return decide(jobs, now, wait, request)
    return jobs.some(hasExtras)
      ? Effect.flatMap(insertFull(jobs, now, wait), (stored) =>
          stored.size === jobs.length
            ? Effect.succeed(allStored(jobs))
            : (stored.size === 0 ? identity : afterOthers)(decide(jobs, now, wait, request, stored))
        )
      : Effect.map(insertPlain(jobs, now, wait), () => allStored(jobs))
  }

  /**
   * Stores jobs, all or none. Splits requests that are too large for one statement; a request of that size runs in a
   * transaction. If a queue is full, only jobs that exist already are accepted.
   */
  return (jobs: StampedJobs, now: number, wait: string | null, isFull = false): Effect.Effect<Stored, StoreError> => {
    const cut = pieces(jobs)
    if (cut.length === 1) return storePiece(jobs, now, wait, isFull, jobs)
    return Effect.map(
      Effect.forEach(cut, (piece, place) =>
        (place === 0 ? identity : afterOthers)(storePiece(piece, now, wait, isFull, jobs))
      ),
      (stored) => ({
        answers: stored.flatMap(({ answers }) => answers),
        standing: new Set(stored.flatMap(({ standing }) => [...standing]))
      })
    )
  }
}
