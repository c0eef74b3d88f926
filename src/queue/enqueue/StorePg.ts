import { Effect, Either } from "effect"
import type { JobId } from "../../core/Ids.js"
import type { Database } from "../../database/Database.js"
import { type DatabaseError, DatabaseUnavailable, mapErrors } from "../../database/DatabaseError.js"
import { JobIdTaken } from "../JobErrors.js"
import type { JobSql } from "../JobSql.js"
import { Enqueued } from "../Queue.js"
import * as SqlArrays from "../SqlArrays.js"
import {
  batchWeight,
  charactersOf,
  hasExtras,
  isUniform,
  type StampedJob,
  type StampedJobs,
  statementCharacters,
  weightOf
} from "./NewJob.js"

export type StoreError = JobIdTaken | DatabaseError

export interface Stored {
  /** In the order of the jobs. */
  readonly answers: ReadonlyArray<Enqueued>
  /** Jobs that were not stored because they, or another job with their dedupe key, already existed. */
  readonly standing: ReadonlySet<JobId>
}

const noneStanding: ReadonlySet<JobId> = new Set()

/** The result for jobs that were all new. */
export const allStored = (jobs: StampedJobs): Stored => ({
  answers: jobs.map(({ id }) => Enqueued.Enqueued({ id })),
  standing: noneStanding
})

/** The holder of a key may disappear between the lookup and the insert; the next round then finds the key free. */
const conflictRounds = 5

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
  SqlArrays.ofPlain(jobs.map(({ maxAttempts }) => maxAttempts)),
  now
]

/** Parameters of the uniform insert; `notification` is the one that it sends, if any. */
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
    first?.maxAttempts,
    now,
    notification
  ]
}

/**
 * Parameters of the wide insert; `wait` is the lock timeout for a held key, `notification` the one that it sends, if any.
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
  notification
]

interface StandingRow {
  readonly place: number
  readonly id: JobId
  readonly same_id: boolean
  readonly same_content: boolean
  /** Pending and of the same kind: its handler could not decode the payload of another kind. */
  readonly replaceable: boolean
  readonly lapsed: boolean
}

/** Stores jobs and resolves conflicts by id and dedupe key. */
export const make = (
  database: typeof Database.Service,
  statements: JobSql,
  hint: (queue: string, now: number) => string | null
) => {
  const { direct, sql } = database

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

  const findStanding = (jobs: StampedJobs, now: number) =>
    mapErrors(
      sql.unsafe<StandingRow>(statements.standing, [
        SqlArrays.ofPlain(jobs.map(({ id }) => id)),
        SqlArrays.ofTexts(jobs.map(({ queue }) => queue)),
        SqlArrays.ofTexts(jobs.map(({ kind }) => kind)),
        SqlArrays.ofPlain(jobs.map(({ version }) => version)),
        SqlArrays.ofJson(jobs.map(({ payload }) => payload)),
        SqlArrays.ofTexts(jobs.map(({ dedupeKey }) => dedupeKey)),
        SqlArrays.ofPlain(jobs.map((_, place) => place)),
        now
      ])
    )

  /** If several new jobs replace the same holder, the last one wins. */
  const replace = (jobsToStore: ReadonlyMap<JobId, StampedJob>, now: number) => {
    const jobs = [...jobsToStore.values()]
    return mapErrors(
      sql.unsafe(statements.replace, [
        SqlArrays.ofPlain([...jobsToStore.keys()]),
        SqlArrays.ofJson(jobs.map(({ payload }) => payload)),
        SqlArrays.ofPlain(jobs.map(({ version }) => version)),
        SqlArrays.ofPlain(jobs.map(({ runAt }) => runAt)),
        SqlArrays.ofPlain(jobs.map(({ priority }) => priority)),
        SqlArrays.ofTexts(jobs.map(({ kind }) => kind)),
        now
      ])
    )
  }

  /**
   * Returns the result for a job that conflicts, or undefined if the conflict is gone. Adds holders to replace to
   * `replacing`.
   */
  const judge = (
    job: StampedJob,
    request: StampedJobs,
    standing: ReadonlyArray<StandingRow>,
    replacing: Map<JobId, StampedJob>
  ): Either.Either<Enqueued | undefined, JobIdTaken> => {
    const own = standing.find((row) => row.same_id)
    if (own !== undefined) {
      return own.same_content
        ? Either.right(Enqueued.Enqueued({ id: job.id }))
        : Either.left(new JobIdTaken({ index: request.indexOf(job), jobs: request.length, id: job.id }))
    }
    const holder = standing.find((row) => !row.lapsed)
    if (holder === undefined) return Either.right(undefined)
    if (job.replace && holder.replaceable) replacing.set(holder.id, job)
    return Either.right(Enqueued.Deduplicated({ id: holder.id }))
  }

  /** Stores jobs of which the first insert stored only some: resolves the conflicts of the others. */
  const resolve = (
    jobs: StampedJobs,
    firstStored: ReadonlySet<JobId>,
    now: number,
    wait: string | null,
    request: StampedJobs
  ): Effect.Effect<Stored, StoreError> =>
    Effect.gen(function* () {
      const answers = new Map<JobId, Enqueued>()
      const notStored = new Set<JobId>()
      let stored = firstStored
      let open = jobs
      for (let round = 1; ; round += 1) {
        for (const id of stored) answers.set(id, Enqueued.Enqueued({ id }))
        const refused = open.filter(({ id }) => !answers.has(id))
        if (refused.length === 0) break
        const standing = yield* findStanding(refused, now)
        const lapsed = standing.filter((row) => row.lapsed).map(({ id }) => id)
        if (lapsed.length > 0) yield* mapErrors(sql.unsafe(statements.lapse, [SqlArrays.ofPlain(lapsed), now]))
        const replacing = new Map<JobId, StampedJob>()
        for (const [place, job] of refused.entries()) {
          const answer = yield* judge(
            job,
            request,
            standing.filter((row) => row.place === place),
            replacing
          )
          if (answer === undefined) continue
          answers.set(job.id, answer)
          notStored.add(job.id)
        }
        if (replacing.size > 0) yield* replace(replacing, now)
        open = refused.filter(({ id }) => !answers.has(id))
        if (open.length === 0) break
        if (round === conflictRounds) {
          return yield* new DatabaseUnavailable({
            detail: "another job took and released the dedupe key at every try",
            nothingWritten: false
          })
        }
        stored = yield* insertFull(open, now, wait)
      }
      return { answers: jobs.map(({ id }) => answers.get(id) ?? Enqueued.Enqueued({ id })), standing: notStored }
    })

  const storePiece = (
    jobs: StampedJobs,
    now: number,
    wait: string | null,
    request = jobs
  ): Effect.Effect<Stored, StoreError> =>
    jobs.some(hasExtras)
      ? Effect.flatMap(insertFull(jobs, now, wait), (stored) =>
          stored.size === jobs.length ? Effect.succeed(allStored(jobs)) : resolve(jobs, stored, now, wait, request)
        )
      : Effect.map(insertPlain(jobs, now, wait), () => allStored(jobs))

  /** Returns the jobs that would not be stored because they, or another job with their key, already exist. */
  const standing = (jobs: StampedJobs, now: number): Effect.Effect<ReadonlySet<JobId>, DatabaseError> =>
    Effect.map(findStanding(jobs, now), (rows) => {
      const inTheWay = rows.filter((row) => row.same_id || !row.lapsed)
      return new Set(inTheWay.flatMap(({ place }) => jobs[place]?.id ?? []))
    })

  /** Splits requests that are too large for one statement. A request of that size runs in a transaction. */
  const store = (jobs: StampedJobs, now: number, wait: string | null): Effect.Effect<Stored, StoreError> => {
    const cut = pieces(jobs)
    if (cut.length === 1) return storePiece(jobs, now, wait)
    return Effect.map(
      Effect.forEach(cut, (piece) => storePiece(piece, now, wait, jobs)),
      (stored) => ({
        answers: stored.flatMap(({ answers }) => answers),
        standing: new Set(stored.flatMap(({ standing }) => [...standing]))
      })
    )
  }
  return { store, standing }
}
