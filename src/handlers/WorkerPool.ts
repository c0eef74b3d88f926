import { Clock, Data, Duration, Effect, ExecutionStrategy, Exit, Schedule, Schema, Scope } from "effect"
import { repeated } from "../core/Loop.js"
import * as Outcome from "../core/Outcome.js"
import type { JobKind } from "../queue/Job.js"
import { cleanPath } from "./ChildProcess.js"
import * as ChildReaper from "./ChildReaper.js"
import * as Handler from "./Handler.js"
import type { JobContext } from "./JobContext.js"
import * as WorkerChild from "./WorkerChild.js"

// Runs jobs in long-lived child processes, written in any language. A job takes a free child or starts a new one, so
// there are never more children than concurrent jobs. Idle children are closed after a while. A broken child is closed
// with the job it broke in.

/** How to start the child processes and how long to keep them. */
export interface WorkerPoolOptions {
  /** The executable and its arguments. A bare name is resolved in the PATH of `environment`. */
  readonly command: readonly [string, ...ReadonlyArray<string>]
  /** Working directory of the children. [this process's working directory] */
  readonly directory?: string
  /** The children's whole environment, apart from a default PATH. */
  readonly environment?: Readonly<Record<string, string>>
  /** The line a child writes when it is ready. ["ready"] */
  readonly ready?: string | RegExp
  /** How long a child may take to become ready. [30 seconds] */
  readonly startTimeout?: Duration.DurationInput
  /** How long an idle child is kept. [5 minutes] */
  readonly idle?: Duration.DurationInput
  /** Maximum length of a line from a child. [1 MiB] */
  readonly maxLineBytes?: number
}

/** No child is available because recent starts failed. The job is snoozed and loses no attempt. */
class NoChildAvailable extends Data.TaggedError("NoChildAvailable")<{ readonly after: Duration.Duration }> {}

/** Backoff after failed starts: 1 second, doubling up to 1 minute. */
const backoffAfter = (failures: number): Duration.Duration => Duration.seconds(Math.min(60, 2 ** (failures - 1)))

/** Upper bound for `retry_after_secs`. */
const longestPause = Duration.days(366)

const outcomeOf = (reply: WorkerChild.Reply): Outcome.Outcome => {
  const after = reply.retry_after_secs ?? undefined
  const pause = after === undefined ? undefined : Duration.min(Duration.seconds(after), longestPause)
  switch (reply.status) {
    case "ok":
      return Outcome.done(reply.result ?? undefined)
    case "error":
      return Outcome.retry(reply.message ?? "the child process reported an error without a message", pause)
    case "dead":
      return Outcome.dead(reply.message ?? "the child process reported a permanent failure without a message")
    case "throttled":
      return Outcome.throttled(pause === undefined ? {} : { after: pause })
  }
}

interface Member {
  readonly child: WorkerChild.WorkerChild
  idleSince: number
}

const open = (kind: string, options: WorkerPoolOptions) =>
  Effect.gen(function* () {
    const { command, directory = process.cwd(), environment, maxLineBytes = 1024 * 1024, ready = "ready" } = options
    const reaper = yield* ChildReaper.make
    // Close children in parallel: a slow child must not delay other children.
    const scope = yield* Effect.flatMap(Effect.scope, (pod) => Scope.fork(pod, ExecutionStrategy.parallel))
    const free: Array<Member> = []
    let failures = 0
    let nextStartAt = 0
    let probing = false

    const start = WorkerChild.start(reaper, {
      command: { argv: command, directory, root: "", environment: { PATH: cleanPath, ...environment } },
      isReady: (line) => (typeof ready === "string" ? line === ready : ready.test(line)),
      startTimeout: Duration.decode(options.startTimeout ?? "30 seconds"),
      maxLineBytes
    }).pipe(Scope.extend(scope))

    const discard = (member: Member): Effect.Effect<void> =>
      Effect.suspend(() => {
        const place = free.indexOf(member)
        if (place !== -1) free.splice(place, 1)
        return member.child.close
      })

    /** Discards a child that breaks while idle. A running job notices by itself. */
    const watch = (member: Member) =>
      Effect.gen(function* () {
        const reason = yield* member.child.broken
        if (!free.includes(member)) return
        yield* Effect.logWarning(`closing an idle child process of ${kind} because it failed: ${reason}`)
        yield* discard(member)
      })

    /** After a failed start, only one start runs at a time, with backoff. */
    const startOne: Effect.Effect<Member, WorkerChild.ChildBroken | NoChildAvailable> = Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      if (failures > 0 && (probing || now < nextStartAt)) {
        return yield* new NoChildAvailable({ after: Duration.millis(Math.max(1_000, nextStartAt - now)) })
      }
      probing = true
      const child = yield* start.pipe(
        Effect.ensuring(
          Effect.sync(() => {
            probing = false
          })
        ),
        Effect.tapError(() =>
          Effect.map(Clock.currentTimeMillis, (failedAt) => {
            // Concurrent starts that fail together count as one failure.
            if (failedAt < nextStartAt) return
            failures += 1
            nextStartAt = failedAt + Duration.toMillis(backoffAfter(failures))
          })
        )
      )
      failures = 0
      const member = { child, idleSince: now }
      yield* Effect.forkIn(Effect.interruptible(watch(member)), scope)
      return member
    })

    const takeOne: typeof startOne = Effect.suspend(() => {
      const member = free.pop()
      if (member === undefined) return startOne
      if (member.child.isUsable()) return Effect.succeed(member)
      return Effect.zipRight(Effect.forkIn(discard(member), scope), takeOne)
    })

    const returnToPool = (member: Member) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        member.idleSince = now
        free.push(member)
      })

    const idleMillis = Duration.toMillis(options.idle ?? "5 minutes")
    const closeIdle = Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const idle = free.filter(({ idleSince }) => now - idleSince >= idleMillis)
      yield* Effect.forEach(idle, discard, { concurrency: "unbounded", discard: true })
    })
    yield* Effect.forkScoped(
      repeated({ name: `pool of ${kind}`, schedule: Schedule.spaced(idleMillis), runAtStart: false, run: closeIdle })
    )
    return { takeOne, returnToPool, discard }
  })

/** Makes a handler that sends each job to a child as one JSON line and reads one JSON line as the reply. */
export const make = <A>(kind: JobKind<A>, options: WorkerPoolOptions): Handler.Handler<never> => {
  const encode = Schema.encode(kind.payload)
  return Handler.scoped(
    kind,
    Effect.map(
      open(kind.name, options),
      ({ discard, returnToPool, takeOne }) =>
        (payload: A, job: JobContext) =>
          Effect.gen(function* () {
            const content = yield* encode(payload)
            // Interruption may hit only the wait for readiness and for the reply, so a child is never lost between
            // being taken and being returned.
            return yield* Effect.uninterruptibleMask((restore) =>
              Effect.gen(function* () {
                const member = yield* takeOne
                const exit = yield* Effect.exit(restore(member.child.ask(job.id, content)))
                yield* Exit.isSuccess(exit) && member.child.isUsable() ? returnToPool(member) : discard(member)
                return outcomeOf(yield* exit)
              })
            )
          }).pipe(
            Effect.catchTags({
              NoChildAvailable: ({ after }) => Effect.succeed(Outcome.snooze(after)),
              ChildBroken: ({ reason }) => Effect.succeed(Outcome.retry(`the child process failed: ${reason}`))
            })
          )
    )
  )
}
