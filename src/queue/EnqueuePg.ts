import * as SqlClient from "@effect/sql/SqlClient"
import { Clock, Context, Effect, Either, Exit, Option, type Scope } from "effect"
import * as Batcher from "../core/Batcher.js"
import type { IdGenerator, JobId } from "../core/Ids.js"
import type { InvalidJob } from "../core/InvalidJob.js"
import type { Database } from "../database/Database.js"
import { DatabaseConflict, type DatabaseError, DatabaseUnavailable, mapErrors } from "../database/DatabaseError.js"
import * as ArrayText from "./ArrayText.js"
import { JobIdTaken } from "./JobErrors.js"
import type { JobSql } from "./JobSql.js"
import { type AdmittedJob, admitAll, type NewJob } from "./NewJob.js"
import { Enqueued } from "./Queue.js"

// Three ways into the table. Inside a caller's transaction: straight in, on its connection. Jobs with ids of their own, and
// several with dedupe keys: a transaction of their own, because a conflict may have to undo the rest. Everything else goes
// through the batcher: many callers, one INSERT.

type Request = ReadonlyArray<StampedJob>
type StampedJob = AdmittedJob & { readonly id: JobId; readonly runAt: number; readonly ownId: boolean }
type StoreError = JobIdTaken | DatabaseError

/** How long to wait for a dedupe key that somebody's open transaction holds. A caller's own transaction decides itself. */
const patience = { batch: "200ms", alone: "10s", callers: null }

/** A holder of a key may go between our look and our insert; then the key is free at the next try. */
const conflictRounds = 5

const hasExtras = (job: StampedJob) =>
  job.ownId || job.dedupeKey !== null || job.key !== null || job.onDead !== null || job.meta !== null

/** Two batches that hold the same keys in opposite order would wait for each other: every batch inserts in one order. */
const byDedupeKey = (a: StampedJob, b: StampedJob) => {
  if (a.dedupeKey === b.dedupeKey) return 0
  if (a.dedupeKey === null) return -1
  return b.dedupeKey === null || a.dedupeKey > b.dedupeKey ? 1 : -1
}

const jsonArray = (texts: ReadonlyArray<string | null>) => `[${texts.map((text) => text ?? "null").join(",")}]`

const plainParameters = (jobs: Request, now: number) => [
  ArrayText.ofPlain(jobs.map(({ id }) => id)),
  ArrayText.ofPlain(jobs.map(({ queue }) => queue)),
  ArrayText.ofTexts(jobs.map(({ kind }) => kind)),
  ArrayText.ofPlain(jobs.map(({ version }) => version)),
  jsonArray(jobs.map(({ payload }) => payload)),
  ArrayText.ofPlain(jobs.map(({ priority }) => priority)),
  ArrayText.ofPlain(jobs.map(({ runAt }) => runAt)),
  ArrayText.ofPlain(jobs.map(({ maxAttempts }) => maxAttempts)),
  now
]

/** Most batches hold jobs of one kind, and half of what travels would be its name. */
const isUniform = (jobs: Request) => {
  const first = jobs[0]
  return (
    first !== undefined &&
    jobs.every(
      (job) =>
        job.kind === first.kind &&
        job.queue === first.queue &&
        job.version === first.version &&
        job.priority === first.priority &&
        job.maxAttempts === first.maxAttempts
    )
  )
}

const uniformParameters = (jobs: Request, now: number, channel: string | null) => [
  ArrayText.ofPlain(jobs.map(({ id }) => id)),
  jobs[0]?.queue,
  jobs[0]?.kind,
  jobs[0]?.version,
  jsonArray(jobs.map(({ payload }) => payload)),
  jobs[0]?.priority,
  ArrayText.ofPlain(jobs.map(({ runAt }) => runAt)),
  jobs[0]?.maxAttempts,
  now,
  channel
]

const fullParameters = (jobs: Request, now: number, wait: string | null) => [
  ...plainParameters(jobs, now),
  ArrayText.ofTexts(jobs.map(({ key }) => key)),
  ArrayText.ofTexts(jobs.map(({ dedupeKey }) => dedupeKey)),
  ArrayText.ofTexts(jobs.map(({ dedupeScope }) => dedupeScope)),
  ArrayText.ofNumbers(jobs.map(({ dedupeWindow }) => (dedupeWindow === undefined ? null : now + dedupeWindow))),
  jsonArray(jobs.map(({ onDead }) => onDead)),
  jsonArray(jobs.map(({ meta }) => meta)),
  wait
]

interface StandingRow {
  readonly place: number
  readonly id: JobId
  readonly same_id: boolean
  readonly same_content: boolean
  readonly pending: boolean
  readonly lapsed: boolean
}

/** Stores jobs and settles who stands in whose way. */
const makeStore = (
  database: typeof Database.Service,
  statements: JobSql,
  hint: (queue: string, now: number) => string | null
) => {
  const { sql } = database

  const insertPlain = (jobs: Request, now: number) =>
    mapErrors(
      isUniform(jobs)
        ? sql.unsafe(statements.insertUniform, uniformParameters(jobs, now, hint(jobs[0]?.queue ?? "", now)))
        : sql.unsafe(statements.insertPlain, plainParameters(jobs, now))
    )

  const insertFull = (jobs: Request, now: number, wait: string | null) =>
    Effect.map(
      mapErrors(
        sql.unsafe<{ id: JobId }>(statements.insertFull, fullParameters([...jobs].sort(byDedupeKey), now, wait))
      ),
      (rows) => new Set(rows.map(({ id }) => id))
    )

  const findStanding = (jobs: Request, now: number) =>
    mapErrors(
      sql.unsafe<StandingRow>(statements.standing, [
        ArrayText.ofPlain(jobs.map(({ id }) => id)),
        ArrayText.ofPlain(jobs.map(({ queue }) => queue)),
        ArrayText.ofTexts(jobs.map(({ kind }) => kind)),
        ArrayText.ofPlain(jobs.map(({ version }) => version)),
        jsonArray(jobs.map(({ payload }) => payload)),
        ArrayText.ofTexts(jobs.map(({ dedupeKey }) => dedupeKey)),
        ArrayText.ofPlain(jobs.map((_, place) => place)),
        now
      ])
    )

  const replace = (holder: JobId, job: StampedJob, now: number) =>
    mapErrors(
      sql.unsafe(statements.replace, [holder, job.payload, job.version, job.runAt, job.priority, now, job.kind])
    )

  /** What stands in one job's way, and what follows from it; nothing when the way has become free. */
  const judge = (job: StampedJob, index: number, standing: ReadonlyArray<StandingRow>, now: number) =>
    Effect.gen(function* () {
      const own = standing.find((row) => row.same_id)
      if (own !== undefined) {
        return own.same_content
          ? Option.some(Enqueued.Enqueued({ id: job.id }))
          : yield* new JobIdTaken({ index, id: job.id })
      }
      const holder = standing.find((row) => !row.lapsed)
      if (holder === undefined) return Option.none<Enqueued>()
      if (job.replace && holder.pending) yield* replace(holder.id, job, now)
      return Option.some(Enqueued.Deduplicated({ id: holder.id }))
    })

  const store = (jobs: Request, now: number, wait: string | null): Effect.Effect<ReadonlyArray<Enqueued>, StoreError> =>
    Effect.gen(function* () {
      if (!jobs.some(hasExtras)) {
        yield* insertPlain(jobs, now)
        return jobs.map(({ id }) => Enqueued.Enqueued({ id }))
      }
      const answers = new Map<JobId, Enqueued>()
      let open = jobs
      for (let round = 0; round < conflictRounds && open.length > 0; round += 1) {
        const stored = yield* insertFull(open, now, wait)
        for (const id of stored) answers.set(id, Enqueued.Enqueued({ id }))
        const refused = open.filter(({ id }) => !stored.has(id))
        open = refused
        if (refused.length === 0) break
        const standing = yield* findStanding(refused, now)
        const lapsed = standing.filter((row) => row.lapsed).map(({ id }) => id)
        if (lapsed.length > 0) yield* mapErrors(sql.unsafe(statements.lapse, [ArrayText.ofPlain(lapsed), now]))
        for (const [place, job] of refused.entries()) {
          const answer = yield* judge(
            job,
            jobs.indexOf(job),
            standing.filter((row) => row.place === place),
            now
          )
          if (Option.isSome(answer)) answers.set(job.id, answer.value)
        }
        open = refused.filter(({ id }) => !answers.has(id))
      }
      if (open.length > 0) {
        return yield* new DatabaseUnavailable({
          detail: "a dedupe key changed hands at every try",
          nothingWritten: false
        })
      }
      return jobs.map(({ id }) => answers.get(id) ?? Enqueued.Enqueued({ id }))
    })

  return store
}

const isolates = (error: StoreError) =>
  error instanceof DatabaseConflict || (error instanceof DatabaseUnavailable && error.sqlState === "55P03")

/** A lost connection, a deadlock: worth one more try at once. Waiting for a key in vain is not. */
const isPassing = (error: StoreError) => error instanceof DatabaseUnavailable && error.sqlState !== "55P03"

/**
 * Enqueue over PostgreSQL. `onStored` is told what was stored, after its commit where that is ours; `hint` says on which
 * channel the statement itself tells other pods of the queue's work, if it is to.
 */
export const make = (
  database: typeof Database.Service,
  statements: JobSql,
  ids: IdGenerator,
  hint: (queue: string, now: number) => string | null,
  onStored: (jobs: ReadonlyArray<StampedJob>, inTransaction: boolean) => Effect.Effect<void, DatabaseError>
): Effect.Effect<
  (jobs: ReadonlyArray<NewJob>) => Effect.Effect<ReadonlyArray<Enqueued>, InvalidJob | StoreError>,
  never,
  Scope.Scope
> =>
  Effect.gen(function* () {
    const store = makeStore(database, statements, hint)
    const clock = yield* Effect.clock

    /** A batch whose reply was lost is repeated once; its jobs may stand by then, which is as good. */
    const storeTwice = (jobs: Request, now: number, wait: string) =>
      store(jobs, now, wait).pipe(
        Effect.catchIf(isPassing, () =>
          store(
            jobs.map((job) => ({ ...job, ownId: true })),
            now,
            wait
          )
        ),
        Effect.tap(() => onStored(jobs, false))
      )

    const batcher = yield* Batcher.make<Request, ReadonlyArray<Enqueued>, StoreError, never>({
      weight: (request) => request.length,
      maxWeight: 2_000,
      capacity: 20_000,
      isolate: isolates,
      alone: (request) => Effect.flatMap(Clock.currentTimeMillis, (now) => storeTwice(request, now, patience.alone)),
      flush: (requests) =>
        Effect.gen(function* () {
          const answers = yield* storeTwice(requests.flat(), yield* Clock.currentTimeMillis, patience.batch)
          let place = 0
          return requests.map((request) => {
            const own = answers.slice(place, place + request.length)
            place += request.length
            return Exit.succeed(own)
          })
        })
    })

    // The door made these objects for us alone, so they are completed and not copied.
    const stamp = (jobs: ReadonlyArray<AdmittedJob>, now: number): Request =>
      jobs.map((job) =>
        Object.assign(job, { id: job.id ?? ids.job(now), runAt: job.runAt ?? now, ownId: job.id !== undefined })
      )

    const insideCallers = (request: Request, now: number) =>
      Effect.tap(store(request, now, patience.callers), () => onStored(request, true))

    const inOwnTransaction = (request: Request, now: number) =>
      database.transaction(store(request, now, patience.alone)).pipe(
        Effect.retry({ while: (error) => isPassing(error) && request.every(({ ownId }) => ownId), times: 1 }),
        Effect.tap(() => onStored(request, false))
      )

    // The way of every single enqueue: plain calls up to the batcher, because thousands of fibers stand here at once.
    return (jobs) =>
      Effect.withFiberRuntime((fiber) => {
        const admitted = admitAll(jobs)
        if (Either.isLeft(admitted)) return Effect.fail(admitted.left)
        const now = clock.unsafeCurrentTimeMillis()
        const request = stamp(admitted.right, now)
        const outer = Context.getOption(fiber.currentContext, SqlClient.TransactionConnection)
        if (Option.isSome(outer)) return insideCallers(request, now)
        const undoable = request.some(({ ownId }) => ownId) || (request.length > 1 && request.some(hasExtras))
        return undoable ? inOwnTransaction(request, now) : batcher.submit(request)
      })
  })
