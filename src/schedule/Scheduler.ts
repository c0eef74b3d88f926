import { Cause, Duration, Effect, Either, Option, Record } from "effect"
import { Leadership, TermEnded } from "../cluster/Leadership.js"
import * as ErrorText from "../core/ErrorText.js"
import type { Term } from "../core/Ids.js"
import type { Report } from "../core/Loop.js"
import { RepeatedLines } from "../core/RepeatedLines.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import { Kinds } from "../queue/Kinds.js"
import { Queue } from "../queue/Queue.js"
import { JobSearch } from "../queue/search/JobSearch.js"
import { Transactions } from "../queue/Transactions.js"
import * as MetricSpec from "../telemetry/MetricSpec.js"
import { Metrics } from "../telemetry/Metrics.js"
import * as Policies from "./Policies.js"
import { expressionOf } from "./ScheduleDefinition.js"
import * as ScheduledJobs from "./ScheduledJobs.js"
import { SchedulerConfig } from "./SchedulerConfig.js"
import { Schedules } from "./Schedules.js"
import type { StoredSchedule } from "./StoredSchedule.js"
import { TickOutcome } from "./TickOutcome.js"

// Advancing a due schedule and storing its job happen in one transaction that asserts the leader's term. The job exists
// if and only if the schedule has advanced, and only one of several concurrent readers can advance it.

const lastFire = MetricSpec.gauge(
  "schedule_last_fire_timestamp_seconds",
  "Time of the last tick that the schedule fired.",
  ["schedule"]
)
const skips = MetricSpec.counter("schedule_skips_total", "Ticks skipped because the previous job had not finished.", [
  "schedule"
])

/** Maximum number of schedules per pass. If more are due, the next pass follows at once, or this pass if some have failed. */
const batch = 100

/** Number of schedules fired concurrently. Limited because many schedules are due at midnight. */
const atOnce = 4

export interface PassReport {
  readonly fired: number
  /** Ticks skipped because the previous job had not finished. */
  readonly skipped: number
  /** Schedules with missed ticks that will not be caught up. */
  readonly missed: number
  /** New schedules that got their next fire time and did not fire. */
  readonly seeded: number
  /** Schedules paused because they cannot fire. */
  readonly paused: number
  /** Schedules that another process or an operator changed in the meantime. */
  readonly superseded: number
  /** Schedules that failed with an error and are unchanged. */
  readonly failed: number
}

const nothing: PassReport = { fired: 0, skipped: 0, missed: 0, seeded: 0, paused: 0, superseded: 0, failed: 0 }

const reportOf = (counts: Partial<PassReport>): PassReport => ({ ...nothing, ...counts })

const sum = (reports: ReadonlyArray<PassReport>): PassReport =>
  reports.reduce((all, one) => Record.map(all, (count, name) => count + one[name]), nothing)

/** Returns the counts that are worth a log line. Ticks that fired normally are not. */
export const noteworthy = ({ fired: _, superseded: __, ...counts }: PassReport): Report => counts

export type Needs = Schedules | Queue | Kinds | JobSearch | Transactions | Leadership | Metrics | SchedulerConfig

/** Fires schedules. */
export interface Scheduler {
  /** Fires every due schedule once, under the given term. Stops early when the term ends. */
  readonly pass: (term: Term) => Effect.Effect<PassReport, TermEnded | DatabaseError>
  /** Sets the last-fire metrics from the stored schedules, so that a new leader does not start without them. */
  readonly restoreLastFires: Effect.Effect<void, DatabaseError>
}

/** The ticks to fire now and the missed ticks before them. */
interface Turn {
  readonly ticks: ReadonlyArray<number>
  readonly missed: ReadonlyArray<TickOutcome>
  readonly isLate: (tick: number) => boolean
}

/** What a schedule did, and how to count it. Counted after the commit, so that a rolled-back tick is not counted. */
interface Fired {
  readonly report: PassReport
  readonly count: () => void
}

const uncounted = (counts: Partial<PassReport>): Fired => ({ report: reportOf(counts), count: () => {} })

/** Whether the schedule itself is the reason that it cannot fire. */
const isBroken = ({ _tag }: { readonly _tag: string }): boolean =>
  _tag === "InvalidSchedule" || _tag === "InvalidJob" || _tag === "JobIdTaken"

/** Looks up its services once: a pass per tick that looked them up each time would take twice as long. */
export const make: Effect.Effect<Scheduler, never, Needs> = Effect.gen(function* () {
  const schedules = yield* Schedules
  const leadership = yield* Leadership
  const transactions = yield* Transactions
  const metrics = yield* Metrics
  const search = yield* JobSearch
  const storage = { kinds: yield* Kinds, queue: yield* Queue }
  const onTime = Duration.toMillis((yield* SchedulerConfig).onTime)
  const clock = yield* Effect.clock

  /** Stores the jobs of these ticks, unless the previous job blocks them, and records the outcomes. A part of `fire`. */
  function* recordTicks(schedule: StoredSchedule, { isLate, missed, ticks }: Turn) {
    const { name } = schedule
    const busy = schedule.overlap === "allow" ? undefined : yield* ScheduledJobs.unfinishedRun(search, schedule)
    // If runs must not overlap, only the first of several ticks can fire.
    const firing = schedule.overlap === "allow" ? ticks : ticks.slice(0, busy === undefined ? 1 : 0)
    const skipped = ticks.slice(firing.length)
    const firings = firing.map((at): ScheduledJobs.Firing => {
      const tick = ScheduledJobs.iso(at)
      return { key: tick, once: true, meta: { schedule: name, tick } }
    })
    const jobs = firings.length === 0 ? [] : yield* ScheduledJobs.store(storage, schedule, firings)
    const fired = jobs.flatMap((job, index) => {
      const at = firing[index]
      if (at === undefined) return []
      return [isLate(at) ? TickOutcome.CaughtUp({ at, job }) : TickOutcome.Fired({ at, job })]
    })
    const at = firing.at(-1)
    const since = skipped[0]
    const passed = skipped.at(-1)
    const skippedOutcome =
      since === undefined || passed === undefined ? [] : [TickOutcome.Skipped({ since, at: passed })]
    yield* schedules.note(name, missed.concat(fired, skippedOutcome))
    const count = () => {
      if (at !== undefined) metrics.series(lastFire, { schedule: name }).set(at / 1_000)
      if (skipped.length > 0) metrics.series(skips, { schedule: name }).add(skipped.length)
    }
    const report = reportOf({ missed: missed.length, fired: firing.length, skipped: skipped.length })
    return { report, count }
  }

  const fire = (read: StoredSchedule, term: Term) =>
    Effect.gen(function* () {
      yield* leadership.assertTerm(term)
      const parsed = expressionOf(read)
      if (Either.isLeft(parsed)) return yield* parsed.left
      const expression = parsed.right
      const now = clock.unsafeCurrentTimeMillis()
      const moved = yield* schedules.advance(read, expression.next(now))
      if (Option.isNone(moved)) return uncounted({ superseded: 1 })
      if (read.nextFireAt === undefined) return uncounted({ seeded: 1 })
      const span = { due: read.nextFireAt, now, onTime }
      const ticks = Policies.ticksToFire(read.missed, expression, span)
      const missedSpan = Policies.missedBefore(expression, span, ticks)
      if (missedSpan !== undefined) {
        const since = ScheduledJobs.iso(missedSpan.since)
        yield* Effect.logInfo(`schedule "${read.name}" missed ticks since ${since}; firing ${ticks.length} of them`)
      }
      const missed = missedSpan === undefined ? [] : [TickOutcome.Missed(missedSpan)]
      const isLate = (tick: number) => now - tick > span.onTime
      return yield* recordTicks(moved.value, { ticks, missed, isLate })
    })

  /** Pauses a schedule that can never fire. */
  const giveUp = (
    read: StoredSchedule,
    term: Term,
    reason: string
  ): Effect.Effect<PassReport, TermEnded | DatabaseError> =>
    Effect.gen(function* () {
      const paused = yield* transactions.run(
        Effect.zipRight(leadership.assertTerm(term), schedules.pauseBroken(read, reason))
      )
      if (!paused) return reportOf({ superseded: 1 })
      yield* Effect.logWarning(`paused schedule "${read.name}" because it cannot fire: ${reason}`)
      return reportOf({ paused: 1 })
    })

  const lines = new RepeatedLines()

  /** A database outage or a bug is not the schedule's fault: keeps it active, so that the next pass retries it. */
  const notFired = (read: StoredSchedule, cause: Cause.Cause<unknown>): Effect.Effect<PassReport, TermEnded> => {
    const failure = Option.getOrUndefined(Cause.failureOption(cause))
    if (failure instanceof TermEnded) return failure
    if (Cause.isInterrupted(cause)) return Effect.interrupt
    const line = lines.line(ErrorText.messageOf(Cause.squash(cause)), clock.unsafeCurrentTimeMillis(), (more) =>
      Effect.logWarning(`schedule "${read.name}" could not fire, retrying${more}`, cause)
    )
    return Effect.as(line, reportOf({ failed: 1 }))
  }

  // One handler for all results: most turns succeed, and each further one would take a step of the fiber.
  const turn = (read: StoredSchedule, term: Term): Effect.Effect<PassReport, TermEnded> =>
    Effect.matchCauseEffect(transactions.run(fire(read, term)), {
      onSuccess: ({ count, report }) => {
        count()
        return Effect.succeed(report)
      },
      onFailure: (cause) => {
        const failure = Option.getOrUndefined(Cause.failureOption(cause))
        return failure !== undefined && isBroken(failure)
          ? Effect.catchAllCause(giveUp(read, term, failure.message), (cause) => notFired(read, cause))
          : notFired(read, cause)
      }
    })

  /** Fires several schedules. */
  const turns = (due: ReadonlyArray<StoredSchedule>, term: Term): Effect.Effect<PassReport, TermEnded> => {
    let over: TermEnded | undefined
    // Records TermEnded instead of failing: a failure would interrupt the concurrent statements, and each cancellation
    // needs an extra connection.
    const unlessOver = (read: StoredSchedule): Effect.Effect<PassReport> =>
      Effect.suspend(() =>
        over === undefined
          ? Effect.catchTag(turn(read, term), "TermEnded", (error) => {
              over = error
              return Effect.succeed(nothing)
            })
          : Effect.succeed(nothing)
      )
    const reports = Effect.forEach(due, unlessOver, { concurrency: Math.min(atOnce, due.length) })
    return Effect.flatMap(reports, (all) => over ?? Effect.succeed(sum(all)))
  }

  const pass = (term: Term, after?: StoredSchedule): Effect.Effect<PassReport, TermEnded | DatabaseError> =>
    Effect.flatMap(schedules.due(batch, after), (due) => {
      const only = due[0]
      // Usually one schedule is due. Effect.forEach would take as many steps as firing it.
      if (only !== undefined && due.length === 1) return turn(only, term)
      const page = turns(due, term)
      if (due.length < batch) return page
      // Schedules that failed stay due, and would be all that the next pass reads.
      return Effect.flatMap(page, (report) =>
        report.failed === 0 ? Effect.succeed(report) : Effect.map(pass(term, due.at(-1)), (rest) => sum([report, rest]))
      )
    })

  const restoreLastFires = Effect.gen(function* () {
    let after: string | undefined
    do {
      const page: ReadonlyArray<StoredSchedule> = yield* schedules.list({ limit: batch, after })
      for (const { lastFireAt, name } of page) {
        if (lastFireAt !== undefined) metrics.series(lastFire, { schedule: name }).set(lastFireAt / 1_000)
      }
      after = page.length < batch ? undefined : page.at(-1)?.name
    } while (after !== undefined)
  })

  return { pass: (term) => pass(term), restoreLastFires }
})
