import { Clock, Context, Effect, Schema } from "effect"
import { Audit } from "../access/Audit.js"
import { Expected } from "../core/ExpectedError.js"
import { faultOfText } from "../core/Storable.js"
import type { SubjectDigest } from "../core/Subject.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import { digestOf, type Erase, shortOf, subjectCharacters } from "../database/SubjectText.js"
import { Batches } from "../queue/batch/Batches.js"
import { Erasure, type HeldByJobs, type Unfinished } from "../queue/erasure/Erasure.js"
import { Events } from "../queue/events/Events.js"
import { JobAdmin } from "../queue/JobAdmin.js"
import { Schedules } from "../schedule/Schedules.js"
import { Storage } from "../uploads/Storage.js"

// Erases the data of a subject over all ports, in bounded transactions. Nothing is stored about the act itself: a process that is
// killed is followed by another call, which continues with what is left.

/** Services that have data of subjects. */
export type Ports = Erasure | JobAdmin | Events | Batches | Schedules | Storage

/** What happens to jobs that have not ended: they are cancelled first, or left alone. */
export const WhenRunning = Schema.Literal("cancel", "skip")
export type WhenRunning = typeof WhenRunning.Type

/** Number of things of each sort. */
export interface Counts {
  /** Jobs and executions. */
  readonly jobs: number
  /** Published events. */
  readonly events: number
  /** Batches, whose names and follow-ups are erased. */
  readonly batches: number
  /** Schedules, which are removed. */
  readonly schedules: number
  /** Files of the upload inbox. */
  readonly uploads: number
  /** Copies kept for the undo of actions. */
  readonly copies: number
  /** Audit entries, operations and saved views that quote the subject. */
  readonly quotes: number
}

/** What is stored of a subject. */
export interface Found extends Omit<Counts, "jobs">, HeldByJobs {}

/** What one call has done. */
export interface Pass {
  /** Number of things that were erased. */
  readonly erased: Counts
  /** Some of the jobs that have not ended: their data is still stored. */
  readonly unfinished: ReadonlyArray<Unfinished>
  /** Whether nothing is left, except for unfinished jobs that were to be skipped. If not, call again. */
  readonly done: boolean
}

/** How a subject is erased, and by whom. */
export interface EraseOptions {
  /** What happens to jobs that have not ended. */
  readonly running: WhenRunning
  /** Who erases, for the audit log. */
  readonly who: string
  /** Why, for the audit log. [none] */
  readonly reason?: string | undefined
}

/** The subject is no text that a job can have. */
export class InvalidSubject extends Expected<InvalidSubject>(400, {
  code: "INVALID_OPTION",
  field: "subject",
  exit: 2
})("InvalidSubject", {
  /** What is wrong with the subject, as the end of a sentence. */
  reason: Schema.String
}) {
  override get message(): string {
    return `subject ${this.reason}.`
  }
}

/** Time after which a call starts no further transaction, in milliseconds. */
const budget = 5_000
/** Jobs that are read and cancelled at once. */
const cancelBatch = 500
/** Unfinished jobs that a call names. */
const named = 20

/** The number of things in counts. */
export const totalOf = (counts: object): number =>
  Object.values(counts).reduce((total: number, count) => total + Number(count), 0)

const digestOfValid = (subject: string): Effect.Effect<SubjectDigest, InvalidSubject> => {
  const reason = faultOfText(subject, subjectCharacters)
  return reason === undefined ? Effect.succeed(digestOf(subject)) : new InvalidSubject({ reason })
}

const portsOf = Effect.gen(function* () {
  const [erasure, admin, storage] = [yield* Erasure, yield* JobAdmin, yield* Storage]
  return {
    erasure,
    admin,
    // Schedules and batches first: they store further jobs.
    sources: { schedules: (yield* Schedules).erase, batches: (yield* Batches).erase, events: (yield* Events).erase },
    results: { jobs: erasure.erase, uploads: storage.erase, copies: admin.eraseUndo }
  }
})

/** Counts what is stored of a subject. Changes nothing. */
export const find = (subject: string): Effect.Effect<Found, InvalidSubject | DatabaseError, Ports> =>
  Effect.gen(function* () {
    const digest = yield* digestOfValid(subject)
    const { erasure, results, sources } = yield* portsOf
    const { jobs: _, ...others } = { ...sources, ...results }
    const counts = yield* Effect.all(
      Object.fromEntries(Object.entries(others).map(([name, of]) => [name, of(digest, "count")]))
    )
    return {
      ...(yield* erasure.held(digest)),
      ...(counts as unknown as Record<keyof typeof others, number>),
      quotes: yield* erasure.quotes(subject, "count")
    }
  })

/** Whether nothing of a subject was found. */
export const isNothing = ({ batches, copies, events, quotes, schedules, states, uploads }: Found): boolean =>
  totalOf(states) + totalOf({ batches, copies, events, quotes, schedules, uploads }) === 0

/** Erases for some seconds. Every transaction erases its things completely, so the call can be repeated after a crash. */
export const erase = (
  subject: string,
  { reason, running, who }: EraseOptions
): Effect.Effect<Pass, InvalidSubject | DatabaseError, Ports> =>
  Effect.gen(function* () {
    const digest = yield* digestOfValid(subject)
    const { admin, erasure, results, sources } = yield* portsOf
    const until = (yield* Clock.currentTimeMillis) + budget
    const isTime = Effect.map(Clock.currentTimeMillis, (now) => now < until)

    /** Erases until nothing is left, or the time is over. */
    const all = (of: Erase) =>
      Effect.gen(function* () {
        let erased = 0
        while (yield* isTime) {
          const count = yield* of(digest, "erase")
          if (count === 0) break
          erased += count
        }
        return erased
      })

    const cancelAll = Effect.gen(function* () {
      while (yield* isTime) {
        const open = (yield* erasure.unfinished(digest, cancelBatch)).filter(({ asked }) => !asked)
        if (open.length === 0) return
        // A job that ends in the meantime needs no cancel.
        for (const { id } of open)
          yield* Effect.catchTags(admin.cancel(id), {
            JobNotFound: () => Effect.void,
            JobNotInState: () => Effect.void
          })
      }
    })

    const before = yield* Effect.all({
      schedules: all(sources.schedules),
      batches: all(sources.batches),
      events: all(sources.events)
    })
    if (running === "cancel") yield* cancelAll
    const after = yield* Effect.all({
      jobs: all(results.jobs),
      uploads: all(results.uploads),
      copies: all(results.copies)
    })
    const unfinished = yield* erasure.unfinished(digest, named)
    const left = yield* Effect.forEach(Object.values({ ...sources, ...results }), (of) => of(digest, "count"))
    const done = totalOf(left) === 0 && (running === "skip" || unfinished.length === 0)
    const quotes = done ? yield* erasure.quotes(subject, "erase") : 0
    const erased: Counts = { ...before, ...after, quotes }
    const audit = Context.getOption(yield* Effect.context<never>(), Audit)
    // Without the text of the subject, which the reason may quote.
    if (audit._tag === "Some" && (done || totalOf(erased) > 0))
      yield* audit.value.record({
        who,
        act: "subject.erase",
        target: shortOf(digest),
        reason: reason?.replaceAll(subject, shortOf(digest)),
        after: { erased, unfinished: unfinished.length, done }
      })
    return { erased, unfinished, done }
  })

/** Calls `erase` until it is done, or the deadline in milliseconds has passed. Jobs that run need time to stop. */
export const eraseUntil = (
  subject: string,
  options: EraseOptions & {
    /** How long to wait for jobs that have not ended, in milliseconds. */
    readonly deadline: number
  }
): Effect.Effect<Pass, InvalidSubject | DatabaseError, Ports> =>
  Effect.gen(function* () {
    const end = (yield* Clock.currentTimeMillis) + options.deadline
    // A pass that has begun is recorded in the audit log, even if the caller stops waiting.
    const once = Effect.uninterruptible(erase(subject, options))
    let pass = yield* once
    let erased = pass.erased
    while (!pass.done && ((yield* Clock.currentTimeMillis) < end || totalOf(pass.erased) > 0)) {
      if (totalOf(pass.erased) === 0) yield* Effect.sleep("500 millis")
      pass = yield* once
      erased = together(erased, pass.erased)
    }
    return { ...pass, erased }
  })

const together = (a: Counts, b: Counts): Counts => ({
  jobs: a.jobs + b.jobs,
  events: a.events + b.events,
  batches: a.batches + b.batches,
  schedules: a.schedules + b.schedules,
  uploads: a.uploads + b.uploads,
  copies: a.copies + b.copies,
  quotes: a.quotes + b.quotes
})
