import { Context, Duration, Effect, Exit, Layer, Schedule } from "effect"
import { steadyMillis, steadyNow } from "../../core/ChangeWatch.js"
import { isId, type JobId } from "../../core/Ids.js"
import { repeatLoop, single } from "../../core/Loop.js"
import { makeLatch, wakeable } from "../../core/LoopSchedule.js"
import type { StoredJob } from "../../core/StoredJob.js"
import { Database } from "../../database/Database.js"
import { type DatabaseError, mapErrors } from "../../database/DatabaseError.js"
import { Hints } from "../../database/Hints.js"
import type { AttemptEnd } from "../AttemptEnd.js"
import { JobNotFound } from "../JobErrors.js"
import { storedColumns } from "../JobSql.js"
import { type StoredJobRow, toStoredJob } from "../StoredJobRow.js"

// A process announces the jobs whose end its callers await, and the process that writes the end of one of them answers. Ends
// that no caller awaits cost nothing. All waiting callers of a process share one loop and its queries. Announcements are hints:
// a job may end before its announcement arrives, or without a worker, so the loop also polls.

/** Topics of hints; the subject is a list of job ids. */
const awaitedTopic = "awaited"
const endedTopic = "ended"

/** Ids per hint: PostgreSQL limits a notification to 8,000 bytes. */
const idsPerHint = 200

/** Jobs per query. */
const idsPerQuery = 1_000

/** Announcements are repeated this often, for processes that started in the meantime, and expire after two misses. */
const announceEvery = Duration.toMillis("30 seconds")
const forgetAfter = 3 * announceEvery

/** Announced jobs that a process remembers. */
const maxAnnouncedEnds = 100_000

/** Pause between two queries, so that ends that follow each other closely share one. */
const spacing = Duration.millis(5)

/** How often callers of this process poll for the end of their jobs, in milliseconds. */
export class EndPolling extends Context.Reference<EndPolling>()("nightshift/queue/EndPolling", {
  defaultValue: () => ({
    /** After a caller begins to wait. Doubles with every poll. */
    first: 50,
    /** While notifications arrive. */
    most: 1_000,
    /** Without notifications. */
    maxWithoutNotifications: 200
  })
}) {}

type Waiter = (exit: Exit.Exit<StoredJob, JobNotFound | DatabaseError>) => void

type Found = { readonly awaited: JobId } & (StoredJobRow | { readonly id: null })

const inParts = <A>(all: ReadonlyArray<A>, size: number): ReadonlyArray<ReadonlyArray<A>> =>
  Array.from({ length: Math.ceil(all.length / size) }, (_, part) => all.slice(part * size, (part + 1) * size))

/** The ends of jobs that callers of any process await. */
export class JobEnds extends Context.Tag("nightshift/queue/JobEnds")<
  JobEnds,
  {
    /** Waits until the job is done or dead. */
    readonly wait: (id: JobId) => Effect.Effect<StoredJob, JobNotFound | DatabaseError>

    /** Notifies the callers that wait for one of these jobs. In a transaction they are notified when it commits. */
    readonly ended: (ends: ReadonlyArray<AttemptEnd>, inTransaction: boolean) => Effect.Effect<void, DatabaseError>
  }
>() {
  static readonly layer: Layer.Layer<JobEnds, never, Database | Hints> = Layer.scoped(
    JobEnds,
    Effect.suspend(() => make)
  )
}

const make = Effect.gen(function* () {
  const { schema, sql } = yield* Database
  const hints = yield* Hints
  const polling = yield* EndPolling
  const table = sql(`${schema}.job`)
  const columns = sql.literal(storedColumns)
  const clock = yield* Effect.clock
  const scope = yield* Effect.scope

  const waiters = new Map<JobId, Set<Waiter>>()
  /** Jobs that have not been read since a caller began to wait, or since their end was signalled. */
  const unread = new Set<JobId>()
  const unannounced = new Set<JobId>()
  const latch = makeLatch()
  let interval = polling.first
  let nextPoll = Number.NEGATIVE_INFINITY
  let announcedAt = steadyMillis(clock)

  /** Jobs that callers of any process await, and when that was announced. Oldest first. */
  const announced = new Map<JobId, number>()

  yield* hints.subscribe(awaitedTopic, (subject = "") => {
    const now = steadyMillis(clock)
    for (const id of subject.split(",") as Array<JobId>) {
      if (!isId(id)) continue
      announced.delete(id)
      announced.set(id, now)
    }
    for (const [id, at] of announced) {
      if (now - at < forgetAfter && announced.size <= maxAnnouncedEnds) break
      announced.delete(id)
    }
  })

  yield* hints.subscribe(endedTopic, (subject) => {
    // Without a subject hints may have been missed, and so may announcements of this process.
    const ids = subject === undefined ? [...waiters.keys()] : (subject.split(",") as Array<JobId>)
    for (const id of ids) {
      if (!waiters.has(id)) continue
      unread.add(id)
      if (subject === undefined) unannounced.add(id)
    }
    if (unread.size > 0) latch.open()
  })

  const publish = (topic: string, ids: ReadonlyArray<JobId>) =>
    Effect.forEach(inParts(ids, idsPerHint), (part) => hints.publish(topic, part.join(",")), { discard: true })

  const answer = (id: JobId, exit: Parameters<Waiter>[0]) => {
    for (const waiter of waiters.get(id) ?? []) waiter(exit)
  }

  const readPart = (ids: ReadonlyArray<JobId>) =>
    mapErrors(
      sql<Found>`select awaited.id as awaited, ${columns} from unnest(${ids}::uuid[]) as awaited (id)
        left join ${table} j on j.id = awaited.id where j.id is null or j.status in ('done', 'dead')`
    ).pipe(
      Effect.match({
        onFailure: (error) => {
          for (const id of ids) answer(id, Exit.fail(error))
        },
        onSuccess: (rows) => {
          const now = clock.unsafeCurrentTimeMillis()
          for (const row of rows) {
            const missing = Exit.fail(new JobNotFound({ id: row.awaited }))
            answer(row.awaited, row.id === null ? missing : Exit.succeed(toStoredJob(row, now)))
          }
        }
      })
    )

  const read = (ids: ReadonlyArray<JobId>) =>
    Effect.forEach(inParts(ids, idsPerQuery), (part) => readPart(part), { discard: true })

  const pass = Effect.gen(function* () {
    latch.close()
    const now = yield* steadyNow
    const isPoll = now >= nextPoll || unread.size === 0
    const ids = isPoll ? [...waiters.keys()] : [...unread].filter((id) => waiters.has(id))
    unread.clear()
    yield* read(ids)
    if (now - announcedAt >= announceEvery) {
      announcedAt = now
      for (const id of waiters.keys()) unannounced.add(id)
    }
    const fresh = [...unannounced].filter((id) => waiters.has(id))
    unannounced.clear()
    if (fresh.length > 0) {
      // Read again after the announcement: a job may have ended in between.
      yield* Effect.ignore(publish(awaitedTopic, fresh))
      yield* read(fresh)
      interval = polling.first
    } else if (isPoll) interval *= 2
    if (isPoll || fresh.length > 0) {
      interval = Math.min(interval, (yield* hints.connected) ? polling.most : polling.maxWithoutNotifications)
      nextPoll = (yield* steadyNow) + interval
    }
    yield* Effect.sleep(spacing)
  })

  const pause = Effect.suspend(() =>
    waiters.size === 0 ? latch.opened : latch.openedWithin(Duration.millis(Math.max(0, nextPoll - steadyMillis(clock))))
  )
  yield* Effect.forkScoped(
    repeatLoop(
      single({ name: "results", schedule: wakeable(Schedule.forever, () => pause), runAtStart: false, run: pass })
    )
  )

  const wait = (id: JobId) =>
    Effect.async<StoredJob, JobNotFound | DatabaseError>((resume) => {
      const waiter: Waiter = (exit) => {
        leave()
        resume(exit)
      }
      const leave = () => {
        const others = waiters.get(id)
        others?.delete(waiter)
        if (others?.size === 0) waiters.delete(id)
      }
      const known = waiters.get(id) ?? new Set()
      waiters.set(id, known.add(waiter))
      unread.add(id)
      unannounced.add(id)
      latch.open()
      return Effect.sync(leave)
    })

  return {
    wait: (id) => (isId(id) ? wait(id) : Effect.fail(new JobNotFound({ id }))),
    ended: (ends, inTransaction) => {
      if (announced.size === 0) return Effect.void
      const ids = ends.flatMap(({ end, id }) => (end._tag !== "Suspended" && announced.has(id) ? [id] : []))
      if (ids.length === 0) return Effect.void
      const published = publish(endedTopic, ids)
      return inTransaction ? published : Effect.asVoid(Effect.forkIn(published, scope))
    }
  } satisfies typeof JobEnds.Service
})
