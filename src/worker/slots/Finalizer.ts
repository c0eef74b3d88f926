import { Context, Duration, Effect, Exit, Layer, Schedule, type Scope } from "effect"
import * as Batcher from "../../core/Batcher.js"
import { steadyMillis } from "../../core/ChangeWatch.js"
import { untilClosed, whenClosed } from "../../core/Registration.js"
import { RepeatedLines } from "../../core/RepeatedLines.js"
import { DatabaseConflict, type DatabaseError, isDataError } from "../../database/DatabaseError.js"
import { type AttemptEnd, End } from "../../queue/AttemptEnd.js"
import { type HeldJob, Queue } from "../../queue/Queue.js"
import * as MetricSpec from "../../telemetry/MetricSpec.js"
import { Metrics } from "../../telemetry/Metrics.js"
import { annotated } from "./LoggedJob.js"

const stale = MetricSpec.counter(
  "stale_ends_total",
  "Results that were discarded because this process had lost the job's lease."
)

/** How long shutdown keeps retrying to write results to an unavailable database. */
const lastTries = Duration.seconds(5)

/** Number of waiting results at which a pod stops claiming: enough for the next statement of each lane. */
const maxWaitingEnds = 1_000

/** Whether the database will always reject these values. */
const isRefused = (error: DatabaseError) => isDataError(error) || error instanceof DatabaseConflict

/** Whether the statement was cancelled because it took too long, usually because another transaction locked a job. */
const isBlocked = ({ sqlState }: DatabaseError) => sqlState === "57014" || sqlState === "55P03"

/** SQLSTATE classes, and insufficient_privilege: login, database, resources and operators. All results fail alike. */
const ofSession = new Set(["28", "3D", "53", "57", "42501"])

/** Whether the error is about the session, and not about one of the results. */
const isOfSession = (error: DatabaseError) =>
  error._tag === "DatabaseUnavailable" ||
  ofSession.has(error.sqlState ?? "") ||
  ofSession.has(error.sqlState?.slice(0, 2) ?? "")

const isEnding = (error: DatabaseError) => error._tag === "DatabaseUnavailable" && error.processEnds === true

/** The result to write instead of one that the database rejects. */
const refused = (end: AttemptEnd, { sqlState = "unknown" }: DatabaseError): AttemptEnd => ({
  ...end,
  written: (became, now, reason) => end.written?.(became, now, reason),
  end: End.Dead({
    reason: "rejected",
    counted: true,
    error: `the database rejected the result of this attempt (SQLSTATE ${sqlState}); see the process's log for details`
  })
})

const maxNamedJobs = 20

const countOf = (ends: ReadonlyArray<AttemptEnd>) => (ends.length === 1 ? "1 job" : `${ends.length} jobs`)

/** The log message for outcomes that were not written. */
const lossOf = (ends: ReadonlyArray<AttemptEnd>): string => {
  const ids = ends.slice(0, maxNamedJobs).map(({ id }) => id)
  const more = ends.length > maxNamedJobs ? ` and ${ends.length - maxNamedJobs} more` : ""
  return `PostgreSQL did not answer before the shutdown: the outcome of ${countOf(ends)} was not written. Each stays "running" until the reaper of another process returns it to the queue after QUEUE_STALE_AFTER, and then runs again: ${ids.join(", ")}${more}`
}

/** Writes the results of attempts in batches. */
export class Finalizer extends Context.Tag("nightshift/worker/Finalizer")<
  Finalizer,
  {
    /** Adds a result without waiting. Returns false when the buffer is full; the caller must then use `submit`. */
    readonly offer: (end: AttemptEnd) => boolean
    readonly submit: (end: AttemptEnd) => Effect.Effect<void>
    /** Jobs whose result is being retried. This pod still holds them. */
    readonly held: () => ReadonlyArray<HeldJob>
    /** Whether too many results wait to be written for the pod to claim more jobs. */
    readonly isBehind: () => boolean
    /** Calls `listener` when `isBehind` was true and may have become false, until the Scope closes. */
    readonly onRoom: (listener: () => void) => Effect.Effect<void, never, Scope.Scope>
    /** Completes when all added results are written. */
    readonly drained: Effect.Effect<void>
  }
>() {
  /** Writes results until the Scope closes, then flushes what is left. */
  static readonly make: Effect.Effect<typeof Finalizer.Service, never, Queue | Metrics | Scope.Scope> = Effect.suspend(
    () => make
  )

  static readonly layer: Layer.Layer<Finalizer, never, Queue | Metrics> = Layer.scoped(Finalizer, Finalizer.make)
}

const make: Effect.Effect<typeof Finalizer.Service, never, Queue | Metrics | Scope.Scope> = Effect.gen(function* () {
  const queue = yield* Queue
  const metrics = yield* Metrics
  const staleEnds = metrics.series(stale, {})

  const clock = yield* Effect.clock
  let giveUpAt = Number.POSITIVE_INFINITY
  const unwritten: Array<AttemptEnd> = []
  const held = new Set<AttemptEnd>()
  const listeners = new Set<() => void>()
  const lines = new RepeatedLines()
  let wasBehind = false

  /** Not after every flush: a pod has a listener for each queue, and may have a thousand of them. */
  const reportRoom = () => {
    if (!wasBehind) return
    wasBehind = false
    for (const listener of listeners) listener()
  }

  const letGo = (ends: ReadonlyArray<AttemptEnd>) => {
    for (const end of ends) held.delete(end)
    reportRoom()
  }

  /** A fault that is not about the values may end too, such as a password that is being changed. */
  const mayRetry = (error: DatabaseError) => !isRefused(error) && !isEnding(error) && steadyMillis(clock) < giveUpAt

  /** The process is shutting down and the database is unavailable. */
  const isLost = (error: DatabaseError) => !isRefused(error) && !mayRetry(error)

  const warn = (ends: ReadonlyArray<AttemptEnd>, error: DatabaseError) => {
    const line = isBlocked(error)
      ? Effect.logWarning(
          `another transaction has locked the row of job ${ends[0]?.id}, or one that its result changes: the result will be written when that transaction ends`
        )
      : lines.line(error.sqlState ?? "", clock.unsafeCurrentTimeMillis(), (more) =>
          Effect.logWarning(
            `the results of ${countOf(ends)} are not written yet, trying again: ${error.message}${more}`
          )
        )
    const [first] = ends
    return first === undefined || ends.length > 1 ? line : annotated({ id: first.id, queue: first.queue })(line)
  }

  /**
   * Retries until the database accepts the session again, unless the process stops first. A batch that is blocked or has
   * another fault fails: the batcher then writes its results one by one, so that only those of the jobs concerned wait.
   */
  const write = (ends: ReadonlyArray<AttemptEnd>, whenLocked: "wait" | "fail") =>
    Effect.suspend(() => {
      const isTriedAgain = (error: DatabaseError) =>
        mayRetry(error) && (whenLocked === "fail" || (isOfSession(error) && !isBlocked(error)))
      const attempt = queue.finalize(ends, whenLocked)
      // Effect.retry costs more than the write itself, so it begins with the first failure.
      return Effect.catchIf(attempt, isTriedAgain, (error) => {
        let isFirst = true
        const again = Effect.suspend(() => {
          if (!isFirst) return attempt
          isFirst = false
          return error
        })
        const retried = Effect.zipRight(
          warn(ends, error),
          Effect.retry(again, {
            while: isTriedAgain,
            schedule: Schedule.exponential("100 millis").pipe(Schedule.union(Schedule.spaced("2 seconds")))
          })
        )
        if (whenLocked === "fail") return retried
        // A fault may reject results only. Without their heartbeats, the jobs would run again.
        for (const end of ends) held.add(end)
        return Effect.ensuring(
          retried,
          Effect.sync(() => letGo(ends))
        )
      })
    })

  const flush = (ends: ReadonlyArray<AttemptEnd>, whenLocked: "wait" | "fail" = "wait") =>
    Effect.matchEffect(write(ends, whenLocked), {
      onFailure: (error) => {
        if (isLost(error)) unwritten.push(...ends)
        return Effect.fail(error)
      },
      onSuccess: (movedOn) => {
        staleEnds.add(movedOn.length)
        return Effect.succeed(ends.map(() => Exit.void))
      }
    })

  /**
   * Writes a replacement if the result is rejected. Without a result the job would be rescued and run again
   * forever.
   */
  const alone = (end: AttemptEnd) =>
    Effect.suspend(() => {
      held.add(end)
      return flush([end], "fail")
    }).pipe(
      Effect.catchIf(isRefused, (error) =>
        Effect.logError("the database rejected the result of a job; the job is now dead", error).pipe(
          annotated({ id: end.id, queue: end.queue }),
          Effect.zipRight(flush([refused(end, error)], "fail"))
        )
      ),
      Effect.tapError((error) =>
        isLost(error)
          ? Effect.void
          : Effect.logError("could not write the result of a job", error).pipe(
              annotated({ id: end.id, queue: end.queue })
            )
      ),
      Effect.ensuring(Effect.sync(() => letGo([end]))),
      Effect.asVoid
    )

  // Before the batcher, so that it runs after the last flush.
  yield* Effect.addFinalizer(() => (unwritten.length === 0 ? Effect.void : Effect.logError(lossOf(unwritten))))
  const batcher = yield* Batcher.make<AttemptEnd, void, DatabaseError, never>({
    maxWeight: 500,
    // Two lanes overlap the round trips: the second batch is sent while the first is being processed.
    lanes: 2,
    capacity: 10_000,
    onRoom: reportRoom,
    isolate: (error) => !isLost(error),
    alone,
    flush
  })

  // Runs before the batcher's last flush. Jobs whose result is lost here are rescued and run again.
  yield* whenClosed(() => {
    giveUpAt = steadyMillis(clock) + Duration.toMillis(lastTries)
  })

  return {
    held: () => [...held],
    isBehind: () => {
      const isBehind = batcher.size() + held.size >= maxWaitingEnds
      wasBehind ||= isBehind
      return isBehind
    },
    onRoom: (listener) =>
      untilClosed(
        () => void listeners.add(listener),
        () => void listeners.delete(listener)
      ),
    offer: batcher.offer,
    // A failure is logged where it happens.
    submit: (end) => Effect.ignore(batcher.submit(end)),
    drained: batcher.drained
  }
})
