import * as SqlClient from "@effect/sql/SqlClient"
import { Clock, Context, Effect, Either, Exit, Option, type Scope } from "effect"
import * as Batcher from "../../core/Batcher.js"
import type { IdGenerator } from "../../core/Ids.js"
import type { Database } from "../../database/Database.js"
import { DatabaseConflict, type DatabaseError, DatabaseUnavailable, isDataError } from "../../database/DatabaseError.js"
import { AfterCommit } from "../../database/Transaction.js"
import type { Fate } from "../handoff/DirectHandoffPg.js"
import { QueueFull } from "../JobErrors.js"
import type { JobSql } from "../JobSql.js"
import { Enqueued, type EnqueueError, type Queue } from "../Queue.js"
import * as StorePg from "../StorePg.js"
import * as BulkInsert from "./BulkInsert.js"
import type * as DepthCap from "./DepthCap.js"
import { type AdmittedJob, admit, admitAll, type NewJob } from "./NewJob.js"
import { oneByOne } from "./OneByOne.js"
import { batchWeight, hasExtras, type StampedJob, type StampedJobs, weightOf } from "./StampedJob.js"

// Three ways into the table. Inside a caller's transaction: straight in, on its connection. Jobs with ids of their own,
// several with dedupe keys, and requests too large for one statement: a transaction of their own, because a conflict may
// have to undo the rest. Everything else goes through the batcher: many callers, one INSERT.

type StoreError = StorePg.StoreError | QueueFull

/** How long to wait for a dedupe key that somebody's open transaction holds. A caller's own transaction decides itself. */
const patience = { batch: "200ms", alone: "10s", callers: null }

/** Whether one job of a batch may be the reason: then each caller's jobs are stored on their own. */
const isolates = (error: StoreError) =>
  error instanceof QueueFull ||
  error instanceof DatabaseConflict ||
  isDataError(error) ||
  (error instanceof DatabaseUnavailable && error.sqlState === "55P03")

/** A lost connection, a deadlock: worth one more try at once. Waiting for a key in vain is not. */
const isPassing = (error: StoreError) => error instanceof DatabaseUnavailable && error.sqlState !== "55P03"

/** The server has rolled the transaction back in favour of another. */
const wasVictim = (error: StoreError) =>
  error instanceof DatabaseUnavailable && error.nothingWritten && ["40001", "40P01"].includes(error.sqlState ?? "")

const allNew = (jobs: StampedJobs): StorePg.Stored => ({
  answers: jobs.map(({ id }) => Enqueued.Enqueued({ id })),
  standing: new Set()
})

const theOne = ([first]: ReadonlyArray<Enqueued>): Exit.Exit<Enqueued> =>
  first === undefined ? Exit.die(new Error("a job was not answered for")) : Exit.succeed(first)

/** Hears what was handed in. Of jobs that are alike, the first in the line is enough. */
export type OnStored = (
  jobs: ReadonlyArray<Pick<StampedJob, "queue" | "priority" | "runAt" | "id" | "key">>,
  inTransaction: boolean
) => Effect.Effect<void, DatabaseError>

/** Hears what was new: jobs, or one that stands for several. */
export type Count = (jobs: ReadonlyArray<Pick<NewJob, "queue" | "kind">>, now: number, each?: number) => void

type AtDoor = (jobs: StampedJobs, now: number) => Effect.Effect<Fate, StorePg.StoreError>

type Enqueuing = Pick<typeof Queue.Service, "enqueue" | "enqueueEach">

/**
 * Enqueue over PostgreSQL. `onStored` is told what was handed in, after its commit where that is ours, and `count` what of
 * it was new, after the commit whoever's it is; `hint` says on which channel the statement itself tells other pods of the
 * queue's work, if it is to; `pass` refuses what finds no room; `takenAtDoor` stores for those who are free here.
 */
export const make = (
  database: typeof Database.Service,
  statements: JobSql,
  ids: IdGenerator,
  hint: (queue: string, now: number) => string | null,
  pass: DepthCap.Pass,
  onStored: OnStored,
  count: Count,
  takenAtDoor: (again: (jobs: StampedJobs, now: number) => Effect.Effect<unknown, StorePg.StoreError>) => AtDoor
): Effect.Effect<Enqueuing, never, Scope.Scope> =>
  Effect.gen(function* () {
    const { standing, store } = StorePg.make(database, statements, hint)
    const clock = yield* Effect.clock

    const counted = (jobs: StampedJobs, now: number) => (stored: StorePg.Stored) => {
      count(stored.standing.size === 0 ? jobs : jobs.filter(({ id }) => !stored.standing.has(id)), now)
      return stored.answers
    }

    /** At a second try, what stands under its own id was stored by the first, whose reply was lost. */
    const ours =
      (jobs: StampedJobs) =>
      ({ answers }: StorePg.Stored): StorePg.Stored => {
        const others = jobs.filter((_, index) => answers[index]?._tag === "Deduplicated")
        return { answers, standing: new Set(others.map(({ id }) => id)) }
      }

    const mayStand = (jobs: StampedJobs) => jobs.map((job) => ({ ...job, ownId: true }))

    /** A batch whose reply was lost is repeated once; its jobs may stand by then, which is as good. */
    const storeTwice = (jobs: StampedJobs, now: number, wait: string) =>
      store(jobs, now, wait).pipe(
        Effect.catchIf(isPassing, () => Effect.map(store(mayStand(jobs), now, wait), ours(jobs))),
        Effect.tap(() => onStored(jobs, false)),
        Effect.map(counted(jobs, now))
      )

    /** Jobs that will be stored, of those that found no room: whatever is there already needs none. */
    const newcomers = (jobs: StampedJobs, now: number) =>
      Effect.map(
        standing(
          jobs.filter(({ dedupeKey, ownId }) => ownId || dedupeKey !== null),
          now
        ),
        (there) => {
          const keys = new Set<string>()
          return jobs.filter(({ dedupeKey, id }) => {
            const isNew = !there.has(id) && (dedupeKey === null || !keys.has(dedupeKey))
            if (dedupeKey !== null) keys.add(dedupeKey)
            return isNew
          })
        }
      )

    /** Refuses what finds no room in its queue. Asking what is there already costs a statement, so only a full queue asks. */
    const passNew = (jobs: StampedJobs, now: number): Effect.Effect<void, QueueFull | DatabaseError> =>
      Effect.catchTag(pass(jobs), "QueueFull", (full) =>
        jobs.some(({ dedupeKey, ownId }) => ownId || dedupeKey !== null)
          ? Effect.flatMap(newcomers(jobs, now), (fresh) => {
              if (fresh.length === jobs.length) return full
              return fresh.length === 0 ? Effect.void : pass(fresh)
            })
          : full
      )

    const atDoor = takenAtDoor((jobs, now) => store(mayStand(jobs), now, patience.alone))

    /** For a free hand in this process where there is one, and for whoever comes where there is none. */
    const storeOrHand = (jobs: StampedJobs, now: number, wait: string) =>
      Effect.zipRight(passNew(jobs, now), atDoor(jobs, now)).pipe(
        Effect.flatMap((fate) => {
          if (fate === "not stored") return storeTwice(jobs, now, wait)
          const stored = counted(jobs, now)(allNew(jobs))
          return fate === "taken" ? Effect.succeed(stored) : Effect.as(onStored(jobs, false), stored)
        })
      )

    const batcher = yield* Batcher.make<StampedJobs, ReadonlyArray<Enqueued>, StoreError, never>({
      weight: weightOf,
      maxWeight: batchWeight,
      lanes: 2,
      capacity: 20_000,
      isolate: isolates,
      alone: (request) => Effect.flatMap(Clock.currentTimeMillis, (now) => storeOrHand(request, now, patience.alone)),
      flush: (requests) =>
        Effect.gen(function* () {
          const answers = yield* storeOrHand(requests.flat(), yield* Clock.currentTimeMillis, patience.batch)
          let place = 0
          return requests.map((request) => {
            const own = answers.slice(place, place + request.length)
            place += request.length
            return Exit.succeed(own)
          })
        })
    })

    // The door made these objects for us alone, so they are completed and not copied.
    const stampOne = (job: AdmittedJob, now: number): StampedJob =>
      Object.assign(job, { id: job.id ?? ids.job(now), runAt: job.runAt ?? now, ownId: job.id !== undefined })
    const stamp = (jobs: ReadonlyArray<AdmittedJob>, now: number): StampedJobs => jobs.map((job) => stampOne(job, now))

    /** What a caller's transaction holds has not happened before its commit, nor when that never comes. */
    const insideCallers = (request: StampedJobs, now: number, afterCommit: Option.Option<Array<() => void>>) =>
      Effect.zipRight(passNew(request, now), store(request, now, patience.callers)).pipe(
        Effect.tap(() => onStored(request, true)),
        Effect.map((stored) => {
          if (Option.isNone(afterCommit)) return counted(request, now)(stored)
          afterCommit.value.push(() => void counted(request, now)(stored))
          return stored.answers
        })
      )

    const inOwnTransaction = (request: StampedJobs, now: number) => {
      const whole = Effect.retry(
        database.transaction(Effect.zipRight(passNew(request, now), store(request, now, patience.alone))),
        { times: 3, while: wasVictim }
      )
      const again = Effect.map(whole, ours(request))
      return whole.pipe(
        Effect.catchIf(
          (error) => isPassing(error) && request.every(({ ownId }) => ownId),
          () => again
        ),
        Effect.tap(() => onStored(request, false)),
        Effect.map(counted(request, now))
      )
    }

    /** Alike, and nothing can stand in their way: straight in, in one statement. The jobs themselves may go meanwhile. */
    const inBulk = (bulk: BulkInsert.BulkInsert, now: number) => {
      const { first, ids: bulkIds } = bulk
      const once = Effect.suspend(() =>
        database.direct.count(statements.insertUniform, BulkInsert.parameters(bulk, now, hint(first.queue, now)))
      )
      const again = Effect.suspend(() => store(BulkInsert.asJobs(bulk), now, patience.alone))
      return pass([first], bulkIds.length).pipe(
        Effect.zipRight(Effect.catchIf(once, isPassing, () => again)),
        Effect.zipRight(onStored([BulkInsert.front(bulk)], false)),
        Effect.map(() => {
          count([first], now, bulkIds.length)
          return bulkIds.map((id) => Enqueued.Enqueued({ id }))
        }),
        // Once it is on its way it is stored, whoever still waits: those who work and those who count must hear of it.
        Effect.uninterruptible
      )
    }

    // The way of every single enqueue: plain calls up to the batcher, because thousands of fibers stand here at once.
    const enqueue: Enqueuing["enqueue"] = (jobs) =>
      Effect.withFiberRuntime((fiber) => {
        const outer = Context.getOption(fiber.currentContext, SqlClient.TransactionConnection)
        const now = clock.unsafeCurrentTimeMillis()
        const bulk = Option.isNone(outer) ? BulkInsert.of(jobs, ids, now) : undefined
        if (bulk !== undefined) return inBulk(bulk, now)
        const admitted = admitAll(jobs)
        if (Either.isLeft(admitted)) return Effect.fail(admitted.left)
        const request = stamp(admitted.right, now)
        if (Option.isSome(outer)) {
          return insideCallers(request, now, Context.getOption(fiber.currentContext, AfterCommit))
        }
        const undoable =
          request.some(({ ownId }) => ownId) ||
          (request.length > 1 && (request.some(hasExtras) || weightOf(request) > batchWeight))
        return undoable ? inOwnTransaction(request, now) : batcher.submit(request)
      })

    /** Hands one job to the batcher; returns how to withdraw it. */
    const hand = (job: NewJob, now: number, answer: (exit: Exit.Exit<Enqueued, EnqueueError>) => void) => {
      const admitted = admit(job, 0)
      if (Either.isRight(admitted)) {
        return batcher.hand([stampOne(admitted.right, now)], (exit) => answer(Exit.flatMap(exit, theOne)))
      }
      answer(Exit.fail(admitted.left))
      return () => {}
    }

    const eachByBatcher = (jobs: ReadonlyArray<NewJob>) =>
      Effect.async<ReadonlyArray<Exit.Exit<Enqueued, EnqueueError>>>((resume) => {
        const exits: Array<Exit.Exit<Enqueued, EnqueueError>> = []
        let open = jobs.length
        const now = clock.unsafeCurrentTimeMillis()
        const withdrawals = jobs.map((job, place) =>
          hand(job, now, (exit) => {
            exits[place] = exit
            open -= 1
            if (open === 0) resume(Effect.succeed(exits))
          })
        )
        return Effect.sync(() => {
          for (const withdraw of withdrawals) withdraw()
        })
      })

    const enqueueEach: Enqueuing["enqueueEach"] = (jobs) =>
      Effect.withFiberRuntime((fiber) => {
        const isInside = Option.isSome(Context.getOption(fiber.currentContext, SqlClient.TransactionConnection))
        const byBatcher = jobs.length > 0 && !isInside && jobs.every(({ id }) => id === undefined)
        return byBatcher ? eachByBatcher(jobs) : oneByOne(enqueue)(jobs)
      })

    return { enqueue, enqueueEach }
  })
