import * as SqlClient from "@effect/sql/SqlClient"
import { Clock, Context, Effect, Either, Exit, Option, Runtime, type Scope } from "effect"
import * as Batcher from "../../core/Batcher.js"
import type { IdGenerator } from "../../core/Ids.js"
import { ownSubject } from "../../core/OwnSubject.js"
import type { Database } from "../../database/Database.js"
import {
  DatabaseConflict,
  type DatabaseError,
  DatabaseUnavailable,
  isDataError,
  retryAfter
} from "../../database/DatabaseError.js"
import { AfterCommit } from "../../database/Transaction.js"
import type { HandoffResult } from "../handoff/JobOffer.js"
import { QueueFull, type StoreError } from "../JobErrors.js"
import type { JobSql } from "../JobSql.js"
import {
  about,
  admit,
  admitAll,
  batchWeight,
  hasExtras,
  type NewJob,
  type StampedJob,
  type StampedJobs,
  weightOf
} from "../NewJob.js"
import { type Enqueued, enqueued, logThrown, type Queue, type Submit } from "../Queue.js"
import { isRouted } from "../settings/Routes.js"
import * as BulkInsert from "./BulkInsert.js"
import type * as DepthCap from "./DepthCap.js"
import * as StorePg from "./StorePg.js"

// A request takes the first of these paths that applies:
// 1. `inBulk`: many uniform jobs that cannot conflict, in one INSERT.
// 2. `insideCallers`: in a caller's transaction, on its connection.
// 3. `inOwnTransaction`: jobs with caller-supplied ids, several jobs with dedupe keys or other extra columns, and
//    requests too large for one statement, because a conflict may have to undo the rest.
// 4. The batcher, which combines many callers into one INSERT. A batch that a free worker of this process can start is
//    handed to it as it is stored.
// A submitter passes a single job to the batcher without a fiber.

/** Lock wait for a dedupe key held by another open transaction. A caller's transaction keeps its own lock_timeout. */
const lockTimeouts = { batch: "200ms", alone: "10s", callers: null }

/** Whether a single job of the batch may be the cause; each caller's jobs are then stored separately. */
const isolates = (error: StoreError) =>
  error instanceof QueueFull ||
  error instanceof DatabaseConflict ||
  isDataError(error) ||
  (error instanceof DatabaseUnavailable && error.sqlState === "55P03")

/** A lost connection or a deadlock is retried once, immediately. A lock timeout is not. */
const isPassing = (error: StoreError) => error instanceof DatabaseUnavailable && error.sqlState !== "55P03"

/** The server rolled the transaction back because of a deadlock or serialization failure. */
const wasVictim = (error: StoreError) =>
  error instanceof DatabaseUnavailable && error.nothingWritten && ["40001", "40P01"].includes(error.sqlState ?? "")

/** The result of a request with one job. */
const onlyResult = (exit: Exit.Exit<ReadonlyArray<Enqueued>, StoreError>): Exit.Exit<Enqueued, StoreError> => {
  if (Exit.isFailure(exit)) return Exit.failCause(exit.cause)
  const [only] = exit.value
  return only === undefined ? Exit.die(new Error("a job has no result")) : Exit.succeed(only)
}

/** Called with the stored jobs. For uniform jobs the first in queue order is enough. */
export type OnStored = (
  jobs: ReadonlyArray<Pick<StampedJob, "queue" | "priority" | "runAt" | "id" | "key">>,
  inTransaction: boolean
) => Effect.Effect<void, DatabaseError>

/** Called with new jobs; `each` is the number of jobs that one entry represents. */
export type Count = (jobs: ReadonlyArray<Pick<NewJob, "queue" | "kind">>, now: number, each?: number) => void

type Handoff = (jobs: StampedJobs, now: number) => Effect.Effect<HandoffResult, StoreError>

interface Enqueuing extends Pick<typeof Queue.Service, "enqueue"> {
  /** Makes a submitter that passes jobs to the batcher without a fiber, and to `others` if they must take another path. */
  readonly submitter: (others: Submit) => Effect.Effect<Submit>
}

export interface EnqueueOptions {
  readonly database: typeof Database.Service
  readonly statements: JobSql
  readonly ids: IdGenerator
  /** Returns the notification that an insert for this queue should send, if any. */
  readonly hint: (queue: string, now: number) => string | null
  /** Enforces depth caps. */
  readonly pass: DepthCap.Pass
  /** Receives all accepted jobs, after the commit unless the caller owns the transaction. */
  readonly onStored: OnStored
  /** Receives the new jobs, always after the commit. */
  readonly count: Count
  /** Makes the handoff to free workers of this process. `again` stores jobs whose handoff got no reply. */
  readonly makeHandoff: (again: (jobs: StampedJobs, now: number) => Effect.Effect<unknown, StoreError>) => Handoff
}

/** Enqueue over PostgreSQL. */
export const make = (options: EnqueueOptions): Effect.Effect<Enqueuing, never, Scope.Scope> =>
  Effect.gen(function* () {
    const { count, database, hint, ids, makeHandoff, onStored, pass, statements } = options
    const store = StorePg.make(database, statements, hint)
    const clock = yield* Effect.clock

    const counted = (jobs: StampedJobs, now: number) => (stored: StorePg.Stored) => {
      count(stored.standing.size === 0 ? jobs : jobs.filter(({ id }) => !stored.standing.has(id)), now)
      return stored.answers
    }

    /** On a retry, a job that exists under its own id was stored by the first try, whose reply was lost. */
    const ours =
      (jobs: StampedJobs) =>
      ({ answers }: StorePg.Stored): StorePg.Stored => {
        const others = jobs.filter((_, index) => answers[index]?.outcome === "deduplicated")
        return { answers, standing: new Set(others.map(({ id }) => id)) }
      }

    const mayExist = (jobs: StampedJobs) => jobs.map((job) => ({ ...job, ownId: true }))

    /** Repeats a batch once if its reply was lost. Jobs that an earlier try stored count as stored. */
    const storeTwice = (jobs: StampedJobs, now: number, wait: string, full: boolean, isTried = false) => {
      const again = Effect.suspend(() => Effect.map(store(mayExist(jobs), now, wait, full), ours(jobs)))
      return (isTried ? again : store(jobs, now, wait, full)).pipe(
        Effect.catchIf(isPassing, (first) => retryAfter(first, again)),
        Effect.tap(() => onStored(jobs, false)),
        Effect.map(counted(jobs, now))
      )
    }

    /**
     * Whether a queue is full and some of the jobs may exist already, which need no room. Fails if the queue is full
     * and all jobs are new.
     */
    const isFull = (jobs: StampedJobs): Effect.Effect<boolean, QueueFull | DatabaseError> =>
      Effect.catchTag(Effect.as(pass(jobs), false), "QueueFull", (full) =>
        jobs.some(({ dedupeKey, ownId }) => ownId || dedupeKey !== null) ? Effect.succeed(true) : full
      )

    const handOff = makeHandoff((jobs, now) => store(mayExist(jobs), now, lockTimeouts.alone))

    /** Hands the jobs to a free worker of this process if there is one, otherwise stores them as pending. */
    const storeOrHand = (jobs: StampedJobs, now: number) =>
      Effect.flatMap(isFull(jobs), (full) =>
        Effect.flatMap(handOff(jobs, now), (handoff) => {
          if (handoff === "not stored") return storeTwice(jobs, now, lockTimeouts.batch, full)
          const stored = counted(jobs, now)(StorePg.allStored(jobs))
          return handoff === "taken" ? Effect.succeed(stored) : Effect.as(onStored(jobs, false), stored)
        })
      )

    const batcher = yield* Batcher.make<StampedJobs, ReadonlyArray<Enqueued>, StoreError, never>({
      weight: weightOf,
      maxWeight: batchWeight,
      lanes: 2,
      gather: setImmediate,
      capacity: 20_000,
      isolate: isolates,
      // The flush may have stored this job before it failed on another one. As if the queue was full: then one statement
      // looks for the job, checks the depth cap and stores it.
      alone: (request, error) =>
        Effect.flatMap(Clock.currentTimeMillis, (now) =>
          retryAfter(error, storeTwice(request, now, lockTimeouts.alone, true, true))
        ),
      // Not `Effect.gen`, which would keep the requests in memory until the next full garbage collection (see FinalizePg).
      flush: Effect.fnUntraced(function* (requests: ReadonlyArray<StampedJobs>) {
        const answers = yield* storeOrHand(requests.flat(), yield* Clock.currentTimeMillis)
        if (answers.length === requests.length) return answers.map((answer) => Exit.succeed([answer]))
        let place = 0
        return requests.map((request) => {
          const own = answers.slice(place, place + request.length)
          place += request.length
          return Exit.succeed(own)
        })
      })
    })

    /** In a caller's transaction, jobs are counted only after the commit. */
    const insideCallers = (request: StampedJobs, now: number, afterCommit: Option.Option<Array<() => void>>) =>
      Effect.flatMap(isFull(request), (full) => store(request, now, lockTimeouts.callers, full)).pipe(
        Effect.tap(() => onStored(request, true)),
        Effect.map((stored) => {
          if (Option.isNone(afterCommit)) return counted(request, now)(stored)
          afterCommit.value.push(() => void counted(request, now)(stored))
          return stored.answers
        })
      )

    const inOwnTransaction = (request: StampedJobs, now: number) => {
      const whole = Effect.retry(
        database.transaction(Effect.flatMap(isFull(request), (full) => store(request, now, lockTimeouts.alone, full))),
        { times: 3, while: wasVictim }
      )
      const again = Effect.map(whole, ours(request))
      return whole.pipe(
        Effect.catchIf(
          (error) => isPassing(error) && request.every(({ ownId }) => ownId),
          (first) => retryAfter(first, again)
        ),
        Effect.tap(() => onStored(request, false)),
        Effect.map(counted(request, now))
      )
    }

    /**
     * Inserts uniform jobs that cannot conflict, in one statement. The job objects can be garbage-collected in the
     * meantime.
     */
    const inBulk = (bulk: BulkInsert.BulkInsert, now: number) => {
      const { first, ids: bulkIds } = bulk
      const once = Effect.suspend(() =>
        database.direct.count(statements.insertUniform, BulkInsert.parameters(bulk, now, hint(first.queue, now)))
      )
      const again = Effect.suspend(() => store(BulkInsert.asJobs(bulk), now, lockTimeouts.alone))
      return pass([first], bulkIds.length).pipe(
        Effect.zipRight(Effect.catchIf(once, isPassing, (first) => retryAfter(first, again))),
        Effect.zipRight(onStored([BulkInsert.front(bulk)], false)),
        Effect.map(() => {
          count([first], now, bulkIds.length)
          return bulkIds.map((id) => enqueued(id))
        }),
        // The insert cannot be withdrawn once sent, so an interrupt must not skip waking workers and counting.
        Effect.uninterruptible
      )
    }

    // Path of every single enqueue: plain function calls up to the batcher, because thousands of fibers run here at
    // once.
    const enqueue: Enqueuing["enqueue"] = (given) =>
      Effect.withFiberRuntime((fiber) => {
        const own = fiber.getFiberRef(ownSubject)
        const jobs = own === undefined ? given : given.map(about(own))
        const outer = Context.getOption(fiber.currentContext, SqlClient.TransactionConnection)
        const now = clock.unsafeCurrentTimeMillis()
        const bulk = Option.isNone(outer) ? BulkInsert.of(jobs, ids, now) : undefined
        if (bulk !== undefined) return inBulk(bulk, now)
        const admitted = admitAll(jobs, { ids, now })
        if (Either.isLeft(admitted)) return Effect.fail(admitted.left)
        const request = admitted.right
        if (Option.isSome(outer)) {
          return insideCallers(request, now, Context.getOption(fiber.currentContext, AfterCommit))
        }
        const undoable =
          request.some(({ ownId }) => ownId) ||
          (request.length > 1 && (request.some(hasExtras) || weightOf(request) > batchWeight))
        return undoable ? inOwnTransaction(request, now) : batcher.submit(request)
      })

    const submitter: Enqueuing["submitter"] = (others) =>
      Effect.map(Effect.runtime<never>(), (runtime): Submit => {
        // The batcher calls `answer` between the answers of other callers.
        const answerSafely = (answer: Parameters<Submit>[1], exit: Parameters<Parameters<Submit>[1]>[0]) => {
          try {
            answer(exit)
          } catch (error) {
            Runtime.runFork(runtime, logThrown(error))
          }
        }
        return (job, answer) => {
          if (isRouted(job) || job.id !== undefined) return others(job, answer)
          const admitted = admit(job, { ids, now: clock.unsafeCurrentTimeMillis() })
          if (Either.isLeft(admitted)) return answerSafely(answer, Exit.fail(admitted.left))
          batcher.submitWithCallback([admitted.right], (exit) => answerSafely(answer, onlyResult(exit)))
        }
      })

    return { enqueue, submitter }
  })
