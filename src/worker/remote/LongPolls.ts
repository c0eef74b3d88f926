import { Deferred, type Duration, Effect, ExecutionStrategy, Exit, FiberId, Runtime, Scope } from "effect"
import type { DatabaseError } from "../../database/DatabaseError.js"
import type { ClaimedJob, Queue } from "../../queue/Queue.js"
import { Wakeups } from "../../queue/Wakeups.js"
import type { Metrics } from "../../telemetry/Metrics.js"
import * as DuePoller from "../loops/DuePoller.js"
import type { WorkerConfig } from "../WorkerConfig.js"
import type { RemoteWorker } from "./RemotePods.js"

// Requests of remote workers that wait for jobs. They share what a pod has for its slots: the wake-ups of a queue and one poll
// for all queues. A queue is claimed from for one waiting request after another, so a waiting request costs memory only.

/** A request for jobs. */
export interface Poll {
  readonly worker: RemoteWorker
  readonly queues: ReadonlyArray<string>
  readonly max: number
  readonly wait: Duration.Duration
  /** The wait ends when this completes: the process is stopping. */
  readonly ends: Effect.Effect<void>
}

/** Jobs that were claimed for a worker. */
export interface Claimed {
  readonly jobs: ReadonlyArray<ClaimedJob>
  /** Whether no more jobs of the queue are due. */
  readonly isDry: boolean
}

class Waiting {
  ended = false
  /** A claim for this request is on its way. */
  isClaiming = false
  given: ReadonlyArray<ClaimedJob> = []
  readonly over = Deferred.unsafeMake<void, DatabaseError>(FiberId.none)
  /** Queues that may have due jobs for it. The time to wait begins when there is none. */
  private readonly untried: Set<string>
  readonly tried = Deferred.unsafeMake<void>(FiberId.none)

  constructor(readonly poll: Poll) {
    this.untried = new Set(poll.queues)
  }

  noteTried(queue: string): void {
    this.untried.delete(queue)
    if (this.untried.size === 0) Deferred.unsafeDone(this.tried, Exit.void)
  }
}

/** The waiting requests of a queue. */
class Line implements DuePoller.Polled {
  /** There may be due jobs. */
  woken = true
  isServing = false
  /** Something has changed since the current pass began. */
  again = false
  readonly waiting = new Set<Waiting>()

  constructor(
    readonly queue: string,
    readonly scope: Scope.CloseableScope,
    private readonly kick: (line: Line) => void
  ) {}

  readonly wake = () => {
    this.woken = true
    this.kick(this)
  }

  readonly slots = () => ({ wanted: this.waiting.size })
}

export interface LongPolls {
  /** Waits for jobs. They go back to the queue if the caller is interrupted. */
  readonly wait: (poll: Poll) => Effect.Effect<ReadonlyArray<ClaimedJob>, DatabaseError>
  /** A worker may have room for more jobs of the queue. */
  readonly checkRoom: (queue: string) => void
}

export const make = (options: {
  readonly claim: (worker: RemoteWorker, queue: string, max: number) => Effect.Effect<Claimed, DatabaseError>
  readonly giveBack: (jobs: ReadonlyArray<ClaimedJob>) => Effect.Effect<void>
}): Effect.Effect<LongPolls, never, Queue | Wakeups | WorkerConfig | Metrics | Scope.Scope> =>
  Effect.gen(function* () {
    const wakeups = yield* Wakeups
    const scope = yield* Effect.scope
    const fork = Runtime.runFork(yield* Effect.runtime<never>())
    const lines = new Map<string, Line>()
    const poller = yield* DuePoller.startFor(lines, "due poller of remote workers")

    /** Claims for one request. Returns whether the queue has no more due jobs. */
    const serveOne = (line: Line, waiting: Waiting) =>
      Effect.gen(function* () {
        const { max, queues, worker } = waiting.poll
        waiting.isClaiming = true
        const claimed = yield* Effect.ensuring(
          options.claim(worker, line.queue, max),
          Effect.sync(() => {
            waiting.isClaiming = false
          })
        )
        if (claimed.jobs.length > 0) {
          if (waiting.ended) yield* options.giveBack(claimed.jobs)
          else {
            waiting.ended = true
            waiting.given = claimed.jobs
            Deferred.unsafeDone(waiting.over, Exit.void)
          }
        } else if (!waiting.ended) {
          // Its other queues have passed it over meanwhile.
          for (const name of queues) if (name !== line.queue) kick(lines.get(name))
        }
        return claimed.isDry
      }).pipe(Effect.uninterruptible)

    const claimAll = (line: Line) =>
      Effect.gen(function* () {
        line.woken = false
        for (const waiting of [...line.waiting]) {
          if (waiting.ended || waiting.isClaiming) continue
          if (yield* serveOne(line, waiting)) return poller.ranShort(line.queue)
        }
        // No request was left, or they are full.
        line.woken = true
      })

    /** Claims for each waiting request until the queue is dry. */
    const pass = (line: Line) =>
      Effect.suspend(() => (line.woken ? claimAll(line) : Effect.void)).pipe(
        Effect.tap(() => {
          for (const waiting of line.waiting) {
            if (!(line.woken && waiting.isClaiming)) waiting.noteTried(line.queue)
          }
        }),
        Effect.catchAll((error) =>
          Effect.sync(() => {
            line.woken = true
            for (const waiting of line.waiting) Deferred.unsafeDone(waiting.over, Exit.fail(error))
          })
        )
      )

    const serve = (line: Line) =>
      Effect.whileLoop({
        while: () => {
          line.isServing = line.again
          line.again = false
          return line.isServing
        },
        body: () => pass(line),
        step: () => {}
      })

    const kick = (line: Line | undefined) => {
      if (line === undefined || line.waiting.size === 0) return
      line.again = true
      if (line.isServing) return
      line.isServing = true
      fork(serve(line), { scope })
    }

    const open = (queue: string) =>
      Effect.gen(function* () {
        const known = lines.get(queue)
        if (known !== undefined) return known
        const line = new Line(queue, yield* Scope.fork(scope, ExecutionStrategy.sequential), kick)
        lines.set(queue, line)
        yield* Scope.extend(wakeups.onWake(queue, line.wake), line.scope)
        return line
      })

    const join = (waiting: Waiting) =>
      Effect.gen(function* () {
        const { queues, worker } = waiting.poll
        worker.polls += 1
        const first = worker.turn++ % queues.length
        const inTurn = [...queues.slice(first), ...queues.slice(0, first)]
        const joined = yield* Effect.forEach(inTurn, open)
        for (const line of joined) line.waiting.add(waiting)
        for (const line of joined) kick(line)
      })

    const leave = (waiting: Waiting) =>
      Effect.suspend(() => {
        waiting.ended = true
        waiting.poll.worker.polls -= 1
        const empty = waiting.poll.queues.flatMap((name) => {
          const line = lines.get(name)
          line?.waiting.delete(waiting)
          return line === undefined || line.waiting.size > 0 || !lines.delete(name) ? [] : [line]
        })
        return Effect.forEach(empty, (line) => Scope.close(line.scope, Exit.void), { discard: true })
      })

    return {
      checkRoom: (queue) => kick(lines.get(queue)),
      wait: (poll) =>
        Effect.suspend(() => {
          const waiting = new Waiting(poll)
          const over = Deferred.await(waiting.over)
          const inTime = Effect.raceFirst(over, Deferred.await(waiting.tried)).pipe(
            Effect.zipRight(Effect.timeoutOption(Effect.raceFirst(over, poll.ends), poll.wait))
          )
          return join(waiting).pipe(
            Effect.zipRight(Effect.interruptible(inTime)),
            Effect.ensuring(leave(waiting)),
            // The jobs may have arrived together with the interruption, or with the end of the wait.
            Effect.onError(() => options.giveBack(waiting.given)),
            Effect.map(() => waiting.given),
            Effect.uninterruptible
          )
        })
    }
  })
