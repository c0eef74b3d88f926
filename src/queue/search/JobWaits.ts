import { Context, Duration, Effect, Exit, FiberId, Schedule, type Scope } from "effect"
import { steadyMillis, steadyNow } from "../../core/ChangeWatch.js"
import { isId, type JobId } from "../../core/Ids.js"
import { repeated } from "../../core/Loop.js"
import { makeLatch, wakeable } from "../../core/LoopSchedule.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { Hints } from "../../database/Hints.js"

// A process announces the jobs that its callers wait for, and a process that changes one of them answers. Changes that no
// caller awaits cost nothing, and those that only callers of the same process await need no notification. All waiting
// callers of a process share one loop and its queries. Announcements are hints: a job may change before its announcement
// arrives, or without a worker, so the loop also polls.

/** Ids per hint: PostgreSQL limits a notification to 8,000 bytes. */
const idsPerHint = 200

/**
 * A caller has waited this long, in milliseconds, before its job is announced to other processes. A job that ends earlier in
 * this process needs no announcement, and one that ends earlier elsewhere is found when the announced jobs are read again.
 */
const announceAfter = 5

/** Announcements are repeated this often, for processes that started in the meantime, and expire after two misses. */
const announceEvery = Duration.toMillis("30 seconds")
const forgetAfter = 3 * announceEvery

/** Announced jobs that a process remembers. */
const maxAnnounced = 100_000

/** Milliseconds between two queries at most: the pause is as long as the last query, so that close changes share one. */
const maxSpacing = 5

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

const inParts = <A>(all: ReadonlyArray<A>, size: number): ReadonlyArray<ReadonlyArray<A>> =>
  Array.from({ length: Math.ceil(all.length / size) }, (_, part) => all.slice(part * size, (part + 1) * size))

/** Calls `send` with subjects of hints that name the jobs. */
const inSubjects = <E>(ids: ReadonlyArray<string>, send: (subject: string) => Effect.Effect<void, E>) =>
  Effect.forEach(inParts(ids, idsPerHint), (part) => send(part.join(",")), { discard: true })

/** Announced jobs, and when they were announced. Oldest first. */
class Announced {
  private readonly all = new Map<JobId, number>()

  get size(): number {
    return this.all.size
  }

  has(id: JobId): boolean {
    return this.all.has(id)
  }

  add(ids: ReadonlyArray<JobId>, now: number): void {
    for (const id of ids) {
      this.all.delete(id)
      this.all.set(id, now)
    }
    for (const [id, at] of this.all) {
      if (now - at < forgetAfter && this.all.size <= maxAnnounced) break
      this.all.delete(id)
    }
  }
}

/** Tells the callers of all processes about changes of the jobs that they wait for. */
export interface JobChanges {
  /** Those of the jobs that a caller of some process waits for. */
  readonly awaited: (ids: ReadonlyArray<JobId>) => ReadonlyArray<JobId>
  /** Whether no caller waits for any job. */
  readonly isEmpty: () => boolean
  /** Tells the callers of all processes, but sends a notification only if there are some in other processes. */
  readonly publish: (ids: ReadonlyArray<JobId>) => Effect.Effect<void, DatabaseError>
  /** Tells the callers of all processes when the transaction commits. */
  readonly publishOnCommit: (ids: ReadonlyArray<JobId>) => Effect.Effect<void, DatabaseError>
}

/**
 * `awaited` is the topic of announcements, `changed` that of the answers. The subject of both is a list of job ids, in
 * announcements after the sender.
 */
export const makeChanges = (topics: {
  readonly awaited: string
  readonly changed: string
}): Effect.Effect<JobChanges, never, Hints | Scope.Scope> =>
  Effect.gen(function* () {
    const hints = yield* Hints
    const clock = yield* Effect.clock
    const [here, elsewhere] = [new Announced(), new Announced()]
    yield* hints.subscribe(topics.awaited, (subject = "") => {
      const names = subject.split(",")
      // Releases that do not name the sender may be other processes.
      const announced = names[0] === hints.sender ? here : elsewhere
      announced.add(names.filter(isId) as Array<JobId>, steadyMillis(clock))
    })
    const publishOnCommit = (ids: ReadonlyArray<JobId>) =>
      inSubjects(ids, (subject) => hints.publish(topics.changed, subject))
    return {
      awaited: (ids) => ids.filter((id) => here.has(id) || elsewhere.has(id)),
      isEmpty: () => here.size + elsewhere.size === 0,
      publish: (ids) => {
        const own = ids.filter((id) => !elsewhere.has(id))
        const others = ids.filter((id) => elsewhere.has(id))
        return Effect.zipRight(
          inSubjects(own, (subject) => Effect.sync(() => hints.tell(topics.changed, subject))),
          publishOnCommit(others)
        )
      },
      publishOnCommit
    }
  })

/** A caller that waits for a change of a job. */
export interface Waiter<Request, A, E> {
  readonly request: Request
  readonly answer: (exit: Exit.Exit<A, E>) => void
}

export type Waiters<Request, A, E> = ReadonlyMap<JobId, ReadonlySet<Waiter<Request, A, E>>>

export interface JobWaits<Request, A, E> {
  /** Waits until `read` answers. */
  readonly wait: (id: JobId, request: Request) => Effect.Effect<A, E>
  /** The callers that wait for the job now. */
  readonly waiting: (id: JobId) => ReadonlyArray<Waiter<Request, A, E>>
  /** Announces the job again with the next wait: another process may change it now. */
  readonly announceAgain: (id: JobId) => void
}

/** The waiting callers of this process. Closing the Scope interrupts them, and later ones. */
export const make = <Request, A, E>(options: {
  /** Name of the loop. */
  readonly name: string
  /** Topics on which awaited jobs are announced, and topics whose hints name changed jobs. */
  readonly announcedOn: ReadonlyArray<string>
  readonly changedOn: ReadonlyArray<string>
  /** Jobs per call of `read`. */
  readonly perQuery: number
  /** Reads the jobs and answers the callers that need not wait any longer. */
  readonly read: (waiters: Waiters<Request, A, E>) => Effect.Effect<void>
}): Effect.Effect<JobWaits<Request, A, E>, never, Hints | Scope.Scope> =>
  Effect.gen(function* () {
    const hints = yield* Hints
    const polling = yield* EndPolling
    const clock = yield* Effect.clock
    const waiters = new Map<JobId, Set<Waiter<Request, A, E>>>()
    /** Jobs that have not been read since a caller began to wait, or since their change was signalled. */
    const unread = new Set<JobId>()
    /** Jobs to announce, all of them at `announceAt`. */
    const unannounced = new Set<JobId>()
    let announceAt = Number.POSITIVE_INFINITY
    /** Jobs announced since `announcedAt`. A caller that waits for one of them again does not announce it again. */
    const known = new Set<JobId>()
    let isAnnouncing = false
    const scope = yield* Effect.scope
    const latch = makeLatch()
    let interval = polling.first
    let nextPoll = Number.NEGATIVE_INFINITY
    /** When the pause ends by itself. */
    let alarm = nextPoll
    let announcedAt = steadyMillis(clock)

    const announceBy = (id: JobId, at: number) => {
      unannounced.add(id)
      announceAt = Math.min(announceAt, at)
    }

    const changed = (subject: string | undefined) => {
      // Without a subject hints may have been missed, and so may announcements of this process.
      const ids = subject === undefined ? [...waiters.keys()] : (subject.split(",") as Array<JobId>)
      if (subject === undefined) known.clear()
      for (const id of ids) {
        if (!waiters.has(id)) continue
        unread.add(id)
        if (subject === undefined) announceBy(id, Number.NEGATIVE_INFINITY)
      }
      if (unread.size > 0) latch.open()
    }
    for (const topic of options.changedOn) yield* hints.subscribe(topic, changed)

    const read = (ids: ReadonlyArray<JobId>) =>
      Effect.forEach(
        inParts(ids, options.perQuery),
        (part) => {
          const found = part.flatMap((id) => {
            const all = waiters.get(id)
            return all === undefined ? [] : [[id, new Set(all)] as const]
          })
          return found.length === 0 ? Effect.void : options.read(new Map(found))
        },
        { discard: true }
      )

    /** Announces jobs and reads them again: a job may have changed in between. Meanwhile the loop reads other jobs. */
    const announce = (ids: ReadonlyArray<JobId>) => {
      isAnnouncing = true
      const send = (topic: string) =>
        inSubjects(ids, (subject) => hints.publish(topic, `${hints.sender},${subject}`)).pipe(Effect.ignore)
      return Effect.forEach(options.announcedOn, send).pipe(
        Effect.ensuring(
          Effect.sync(() => {
            isAnnouncing = false
            for (const id of ids) if (waiters.has(id)) unread.add(id)
            if (unread.size + unannounced.size > 0) latch.open()
          })
        ),
        Effect.forkIn(scope)
      )
    }

    const pass = Effect.gen(function* () {
      latch.close()
      const now = yield* steadyNow
      // Timers may ring early: without a job to read, what the timer was set for is due.
      const until = unread.size === 0 ? Math.max(now, alarm) : now
      const isDue = () => !isAnnouncing && announceAt <= until
      const isPoll = nextPoll <= until
      const ids = isPoll ? [...waiters.keys()] : [...unread]
      unread.clear()
      const outcome = yield* Effect.exit(read(ids))
      if (now - announcedAt >= announceEvery) {
        announcedAt = now
        known.clear()
        for (const id of waiters.keys()) announceBy(id, now)
      }
      const fresh = isDue() ? [...unannounced].filter((id) => waiters.has(id)) : []
      if (isDue()) {
        unannounced.clear()
        announceAt = Number.POSITIVE_INFINITY
      }
      if (fresh.length > 0) {
        for (const id of fresh) known.add(id)
        yield* announce(fresh)
        interval = polling.first
      } else if (isPoll) interval *= 2
      const end = yield* steadyNow
      if (isPoll || fresh.length > 0) {
        interval = Math.min(interval, (yield* hints.connected) ? polling.most : polling.maxWithoutNotifications)
        nextPoll = end + interval
      }
      yield* Effect.sleep(Math.min(end - now, maxSpacing))
      // After the pause, which a pass that failed needs too.
      yield* outcome
    })

    const pause = Effect.suspend(() => {
      if (waiters.size === 0) return latch.opened
      alarm = isAnnouncing ? nextPoll : Math.min(nextPoll, announceAt)
      return latch.openedWithin(Duration.millis(Math.max(0, alarm - steadyMillis(clock))))
    })
    let closed = false
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        closed = true
        for (const all of waiters.values()) for (const { answer } of all) answer(Exit.interrupt(FiberId.none))
      })
    )
    yield* Effect.forkScoped(
      repeated({ name: options.name, schedule: wakeable(Schedule.forever, () => pause), runAtStart: false, run: pass })
    )

    return {
      wait: (id, request) =>
        Effect.async<A, E>((resume) => {
          if (closed) return resume(Effect.interrupt)
          const waiter: Waiter<Request, A, E> = {
            request,
            answer: (exit) => {
              leave()
              resume(exit)
            }
          }
          const leave = () => {
            const others = waiters.get(id)
            others?.delete(waiter)
            if (others?.size === 0) waiters.delete(id)
          }
          const others = waiters.get(id) ?? new Set()
          waiters.set(id, others.add(waiter))
          unread.add(id)
          if (!known.has(id)) {
            for (const topic of options.announcedOn) hints.tell(topic, `${hints.sender},${id}`)
            announceBy(id, steadyMillis(clock) + announceAfter)
          }
          latch.open()
          return Effect.sync(leave)
        }),
      waiting: (id) => [...(waiters.get(id) ?? [])],
      announceAgain: (id) => void known.delete(id)
    }
  })
