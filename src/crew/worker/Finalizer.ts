import { Context, Duration, Effect, Exit, Layer, Schedule } from "effect"
import * as Batcher from "../../core/Batcher.js"
import { steadyMillis } from "../../core/ChangeWatch.js"
import { DatabaseConflict, type DatabaseError, isDataError } from "../../database/DatabaseError.js"
import { type AttemptEnd, End } from "../../queue/AttemptEnd.js"
import { Queue } from "../../queue/Queue.js"
import * as MetricSpec from "../../telemetry/MetricSpec.js"
import { Metrics } from "../../telemetry/Metrics.js"

const stale = MetricSpec.counter("stale_ends_total", "Ends of runs that were no longer this pod's and changed nothing.")

/** How long a process that must end goes on trying to write to a database that is away. */
const lastTries = Duration.seconds(5)

/** The database will refuse these values however often they are sent. */
const isRefused = (error: DatabaseError) => isDataError(error) || error instanceof DatabaseConflict

/** What is written in place of an end that the database refuses. */
const refused = (end: AttemptEnd, { sqlState = "unknown" }: DatabaseError): AttemptEnd => ({
  ...end,
  end: End.Dead({
    reason: "rejected",
    counted: true,
    error: `the database refused how this attempt ended (SQLSTATE ${sqlState}); the log of the pod has the details`
  })
})

const mostNamed = 20

/** What an operator must know about outcomes that were not written. */
const lossOf = (ends: ReadonlyArray<AttemptEnd>): string => {
  const ids = ends.slice(0, mostNamed).map(({ id }) => id)
  const more = ends.length > mostNamed ? ` and ${ends.length - mostNamed} more` : ""
  const jobs = ends.length === 1 ? "1 job" : `${ends.length} jobs`
  return `the process ends before PostgreSQL answers: the outcome of ${jobs} was not written. Each stays "running" until the reaper of another process returns it to the queue after QUEUE_STALE_AFTER, and then runs again: ${ids.join(", ")}${more}`
}

/** Gathers how runs ended and writes it down, many at a time. */
export class Finalizer extends Context.Tag("nightshift/crew/Finalizer")<
  Finalizer,
  {
    /** Hands an end over. False when too many wait: then `submit` it, which waits. */
    readonly offer: (end: AttemptEnd) => boolean
    readonly submit: (end: AttemptEnd) => Effect.Effect<void>
    /** Completes when everything handed over is written. */
    readonly drained: Effect.Effect<void>
  }
>() {
  static readonly layer: Layer.Layer<Finalizer, never, Queue | Metrics> = Layer.scoped(
    Finalizer,
    Effect.gen(function* () {
      const queue = yield* Queue
      const metrics = yield* Metrics
      const staleEnds = metrics.series(stale, {})

      const clock = yield* Effect.clock
      let giveUpAt = Number.POSITIVE_INFINITY
      const unwritten: Array<AttemptEnd> = []

      const mayRetry = (error: DatabaseError) =>
        error._tag === "DatabaseUnavailable" && error.processEnds !== true && steadyMillis(clock) < giveUpAt

      /** The process must end, and the database is away. */
      const isLost = (error: DatabaseError) => error._tag === "DatabaseUnavailable" && !mayRetry(error)

      /** What happened has happened: it is written when the database is back, unless the process must end first. */
      const write = (ends: ReadonlyArray<AttemptEnd>) =>
        queue.finalize(ends).pipe(
          Effect.tapError((error) =>
            Effect.logWarning(`the ends of ${ends.length} jobs could not be written yet`, error)
          ),
          Effect.retry({
            while: mayRetry,
            schedule: Schedule.exponential("100 millis").pipe(Schedule.union(Schedule.spaced("2 seconds")))
          })
        )

      const flush = (ends: ReadonlyArray<AttemptEnd>) =>
        write(ends).pipe(
          Effect.tapError((error) => Effect.sync(() => (isLost(error) ? unwritten.push(...ends) : 0))),
          Effect.map((movedOn) => {
            staleEnds.add(movedOn.length)
            return ends.map(() => Exit.void)
          })
        )

      /** Without an end the job would be rescued and run again, for ever. */
      const alone = (end: AttemptEnd) =>
        flush([end]).pipe(
          Effect.catchIf(isRefused, (error) =>
            Effect.logError("the database refused the end of a job, which is dead now", error).pipe(
              Effect.annotateLogs("job", { id: end.id, queue: end.queue }),
              Effect.zipRight(flush([refused(end, error)]))
            )
          ),
          Effect.asVoid
        )

      // Before the batcher, so that it runs after the last flush.
      yield* Effect.addFinalizer(() => (unwritten.length === 0 ? Effect.void : Effect.logError(lossOf(unwritten))))
      const batcher = yield* Batcher.make<AttemptEnd, void, DatabaseError, never>({
        maxWeight: 500,
        // Whoever runs jobs is busy when the first is written: the second is on its way by then.
        lanes: 2,
        capacity: 10_000,
        isolate: (error) => !isLost(error),
        alone,
        flush
      })

      // Runs before the batcher's last flush. Jobs whose end is lost here are recovered, and run again.
      yield* Effect.addFinalizer(() =>
        Effect.sync(() => {
          giveUpAt = steadyMillis(clock) + Duration.toMillis(lastTries)
        })
      )

      return {
        offer: batcher.offer,
        submit: (end) =>
          Effect.catchAll(batcher.submit(end), (error) =>
            Effect.logError("the end of a job could not be written", error).pipe(
              Effect.annotateLogs("job", { id: end.id, queue: end.queue })
            )
          ),
        drained: batcher.drained
      }
    })
  )
}
