import { Cause, Clock, Duration, Effect, Option } from "effect"
import { Leadership, TermOver } from "../../cluster/Leadership.js"
import type { Report } from "../../core/Loop.js"
import type { Term } from "../../core/Term.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import type { Kinds } from "../../queue/Kinds.js"
import type { Queue } from "../../queue/Queue.js"
import type { JobSearch } from "../../queue/search/JobSearch.js"
import { Transactions } from "../../queue/Transactions.js"
import * as Policies from "../../schedule/Policies.js"
import { expressionOf } from "../../schedule/ScheduleDefinition.js"
import { Schedules } from "../../schedule/Schedules.js"
import type { StoredSchedule } from "../../schedule/StoredSchedule.js"
import { TickOutcome } from "../../schedule/TickOutcome.js"
import * as MetricSpec from "../../telemetry/MetricSpec.js"
import { Metrics } from "../../telemetry/Metrics.js"
import * as ScheduledJobs from "./ScheduledJobs.js"
import { SchedulerConfig } from "./SchedulerConfig.js"

// A schedule that is due is moved on to its next time and its job is stored in one transaction, in the name of the leader's
// term: the job stands if and only if the schedule has moved, and of all who read it due, one moves it.

const lastFire = MetricSpec.gauge("schedule_last_fire_timestamp_seconds", "The tick a schedule fired last.", [
  "schedule"
])
const skips = MetricSpec.counter("schedule_skips_total", "Ticks passed over because the job before was not over.", [
  "schedule"
])

/** How many schedules one pass takes: the next one follows at once where more are due. */
const batch = 100

/** How many of them have their turn at the same time: at midnight everybody is due. */
const atOnce = 4

/** What a pass did with the schedules that were due. */
export interface PassReport {
  /** Jobs stored. */
  readonly fired: number
  /** Ticks passed over because the job before was not over. */
  readonly skipped: number
  /** Schedules whose missed ticks were given up, some or all. */
  readonly missed: number
  /** Schedules seen for the first time: they have a next time now, and did not fire. */
  readonly seeded: number
  /** Schedules that cannot fire and were switched off. */
  readonly disabled: number
  /** Schedules that somebody else changed or fired meanwhile. */
  readonly superseded: number
  /** Schedules whose turn was lost to an error; they are as they were. */
  readonly failed: number
}

const nothing: PassReport = { fired: 0, skipped: 0, missed: 0, seeded: 0, disabled: 0, superseded: 0, failed: 0 }

const sum = (reports: ReadonlyArray<Partial<PassReport>>): PassReport =>
  reports.reduce<PassReport>(
    (all, one) => ({
      fired: all.fired + (one.fired ?? 0),
      skipped: all.skipped + (one.skipped ?? 0),
      missed: all.missed + (one.missed ?? 0),
      seeded: all.seeded + (one.seeded ?? 0),
      disabled: all.disabled + (one.disabled ?? 0),
      superseded: all.superseded + (one.superseded ?? 0),
      failed: all.failed + (one.failed ?? 0)
    }),
    nothing
  )

/** What is worth a line in the log: a tick that fired is not. */
export const noteworthy = ({ disabled, failed, missed, seeded, skipped }: PassReport): Report => ({
  skipped,
  missed,
  seeded,
  disabled,
  failed
})

export type Needs = Schedules | Queue | Kinds | JobSearch | Transactions | Leadership | Metrics | SchedulerConfig

/** The one key of a schedule's tick, whoever fires it. */
export const dedupeKey = (name: string, tick: number): string => `schedule:${name}:${ScheduledJobs.iso(tick)}`

/** What is owed at a turn, and what was given up before it. */
interface Turn {
  readonly ticks: ReadonlyArray<number>
  readonly missed: ReadonlyArray<TickOutcome>
  readonly isLate: (tick: number) => boolean
}

/** Stores the jobs of these ticks as far as the job before allows, and writes down what came of them. */
const recordTicks = (schedule: StoredSchedule, { isLate, missed, ticks }: Turn) =>
  Effect.gen(function* () {
    const schedules = yield* Schedules
    const metrics = yield* Metrics
    const { name } = schedule
    const busy = yield* ScheduledJobs.obstacle(schedule)
    // Where runs must not overlap, the first of several keeps the rest away.
    const firing = schedule.overlap === "allow" ? ticks : ticks.slice(0, busy === undefined ? 1 : 0)
    const skipped = ticks.slice(firing.length)
    const jobs = yield* firing.length === 0
      ? Effect.succeed([])
      : ScheduledJobs.store(
          schedule,
          firing.map((tick) => ({
            dedupe: { key: dedupeKey(name, tick), scope: "retained" },
            meta: { schedule: name, tick: ScheduledJobs.iso(tick) }
          }))
        )
    const fired = jobs.flatMap((job, index) => {
      const at = firing[index]
      if (at === undefined) return []
      return [isLate(at) ? TickOutcome.CaughtUp({ at, job }) : TickOutcome.Fired({ at, job })]
    })
    const [at, since, passed] = [firing.at(-1), skipped[0], skipped.at(-1)]
    const kept = since === undefined || passed === undefined ? [] : [TickOutcome.Skipped({ since, at: passed })]
    yield* schedules.note(name, [...missed, ...fired, ...kept])
    const count = Effect.sync(() => {
      if (at !== undefined) metrics.series(lastFire, { schedule: name }).set(at / 1_000)
      if (skipped.length > 0) metrics.series(skips, { schedule: name }).add(skipped.length)
    })
    return { fired: firing.length, skipped: skipped.length, count }
  })

/** Fires one schedule that was read as due. */
const fire = (read: StoredSchedule, term: Term) =>
  Effect.gen(function* () {
    const schedules = yield* Schedules
    const leadership = yield* Leadership
    const { onTime } = yield* SchedulerConfig
    yield* leadership.assertTerm(term)
    const expression = yield* expressionOf(read)
    const now = yield* Clock.currentTimeMillis
    const moved = yield* schedules.advance(read, expression.next(now))
    if (Option.isNone(moved)) return { superseded: 1, count: Effect.void }
    if (read.nextFireAt === undefined) return { seeded: 1, count: Effect.void }
    const span = { due: read.nextFireAt, now, onTime: Duration.toMillis(onTime) }
    const ticks = Policies.owed(read.missed, expression, span)
    const gaveUp = Policies.givenUp(expression, span, ticks)
    if (gaveUp !== undefined) {
      const since = ScheduledJobs.iso(gaveUp.since)
      yield* Effect.logInfo(`schedule "${read.name}" missed its time since ${since}; ${ticks.length} made up for`)
    }
    const missed = gaveUp === undefined ? [] : [TickOutcome.Missed(gaveUp)]
    const isLate = (tick: number) => now - tick > span.onTime
    return { missed: missed.length, ...(yield* recordTicks(moved.value, { ticks, missed, isLate })) }
  })

/** Switches off a schedule that cannot fire, however often it is tried. */
const giveUp = (read: StoredSchedule, term: Term, reason: string) =>
  Effect.gen(function* () {
    const schedules = yield* Schedules
    const leadership = yield* Leadership
    const transactions = yield* Transactions
    const disabled = yield* transactions.run(
      Effect.zipRight(leadership.assertTerm(term), schedules.disableBroken(read, reason))
    )
    if (!disabled) return { superseded: 1 }
    yield* Effect.logWarning(`schedule "${read.name}" cannot fire and is switched off: ${reason}`)
    return { disabled: 1 }
  })

const turn = (read: StoredSchedule, term: Term): Effect.Effect<Partial<PassReport>, TermOver, Needs> =>
  Effect.gen(function* () {
    const transactions = yield* Transactions
    const broken = (error: Error) => giveUp(read, term, error.message)
    return yield* transactions.run(fire(read, term)).pipe(
      // Counted when it stands: what was rolled back did not happen.
      Effect.tap(({ count }) => count),
      Effect.catchTags({ InvalidSchedule: broken, InvalidJob: broken, JobIdTaken: broken })
    )
  }).pipe(
    Effect.catchAllCause((cause): Effect.Effect<Partial<PassReport>, TermOver> => {
      const failure = Option.getOrUndefined(Cause.failureOption(cause))
      if (failure instanceof TermOver) return failure
      if (Cause.isInterrupted(cause)) return Effect.interrupt
      // A database that is away, or a mistake of ours: neither is the schedule's fault, and others have their turn.
      return Effect.as(Effect.logWarning(`schedule "${read.name}" could not fire, trying again`, cause), { failed: 1 })
    })
  )

/** Fires every schedule that is due, once, in the name of a term. Ends early when the term is over. */
export const pass = (term: Term): Effect.Effect<PassReport, TermOver | DatabaseError, Needs> =>
  Effect.gen(function* () {
    const schedules = yield* Schedules
    const due = yield* schedules.due(batch)
    let over: TermOver | undefined
    // Whoever finds the term over tells the rest and does not fail: that would cut their statements off half-way, and to
    // cut one off takes a connection more.
    const unlessOver = (read: StoredSchedule): Effect.Effect<Partial<PassReport>, never, Needs> =>
      Effect.suspend(() =>
        over === undefined
          ? Effect.catchTag(turn(read, term), "TermOver", (error) => {
              over = error
              return Effect.succeed({})
            })
          : Effect.succeed({})
      )
    const reports = yield* Effect.forEach(due, unlessOver, { concurrency: atOnce })
    return over === undefined ? sum(reports) : yield* over
  })

/** Shows what fired last, as the rows say: a new leader's metrics must not begin with its own first fire. */
export const recall: Effect.Effect<void, DatabaseError, Schedules | Metrics> = Effect.gen(function* () {
  const schedules = yield* Schedules
  const metrics = yield* Metrics
  let after: string | undefined
  do {
    const page: ReadonlyArray<StoredSchedule> = yield* schedules.list({ limit: batch, after })
    for (const { lastFireAt, name } of page) {
      if (lastFireAt !== undefined) metrics.series(lastFire, { schedule: name }).set(lastFireAt / 1_000)
    }
    after = page.length < batch ? undefined : page.at(-1)?.name
  } while (after !== undefined)
})
