import { Clock, Data, Duration, Effect, ExecutionStrategy, Exit, Schedule, Schema, Scope } from "effect"
import { repeatLoop, single } from "../core/Loop.js"
import * as Outcome from "../core/Outcome.js"
import type { JobKind } from "../queue/Job.js"
import { cleanPath } from "./ChildProcess.js"
import * as ChildReaper from "./ChildReaper.js"
import * as Handler from "./Handler.js"
import type { JobContext } from "./JobContext.js"
import * as WorkerChild from "./WorkerChild.js"

// Jobs run by children that live on between them, in whatever language. A job takes any child that is free; where none is,
// one more is started: there are never more children than jobs that run at a time, and those that nobody needs any more go
// after a while. A child that breaks in any way ends with the job that it broke in.

export interface WorkerPoolOptions {
  /** The executable and its arguments. By name it is looked for in the PATH of `environment`. */
  readonly command: readonly [string, ...ReadonlyArray<string>]
  /** Where the children work. [this process's working directory] */
  readonly directory?: string
  /** All that the children find in their environment, besides a plain PATH. */
  readonly environment?: Readonly<Record<string, string>>
  /** The line by which a child says that it can be asked. ["ready"] */
  readonly ready?: string | RegExp
  /** How long a child may take to be ready. [30 seconds] */
  readonly startTimeout?: Duration.DurationInput
  /** How long a child that nobody needs is kept. [5 minutes] */
  readonly idle?: Duration.DurationInput
  /** The longest line that a child may write. [1 MiB] */
  readonly mostLineBytes?: number
}

/** No child can be had for now; the job is not to blame. */
class NotNow extends Data.TaggedError("NotNow")<{ readonly after: Duration.Duration }> {}

/** After a child that did not come up: a second, then twice as long each time, and a minute at most. */
const pauseAfter = (failures: number): Duration.Duration => Duration.seconds(Math.min(60, 2 ** (failures - 1)))

/** Whatever a child says. */
const longestPause = Duration.days(366)

const outcomeOf = (reply: WorkerChild.Reply): Outcome.Outcome => {
  const after = reply.retry_after_secs ?? undefined
  const pause = after === undefined ? undefined : Duration.min(Duration.seconds(after), longestPause)
  switch (reply.status) {
    case "ok":
      return Outcome.done(reply.result ?? undefined)
    case "error":
      return Outcome.retry(reply.message ?? "the worker reported an error", pause)
    case "dead":
      return Outcome.dead(reply.message ?? "the worker gave up on it")
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
    const { command, directory = process.cwd(), environment, mostLineBytes = 1024 * 1024, ready = "ready" } = options
    const keeper = yield* ChildReaper.make
    // All of them end at the same time: one that is slow to go does not keep the others.
    const scope = yield* Effect.flatMap(Effect.scope, (pod) => Scope.fork(pod, ExecutionStrategy.parallel))
    const free: Array<Member> = []
    let failures = 0
    let notBefore = 0
    let probing = false

    const start = WorkerChild.start(keeper, {
      command: { argv: command, directory, root: "", environment: { PATH: cleanPath, ...environment } },
      isReady: (line) => (typeof ready === "string" ? line === ready : ready.test(line)),
      startTimeout: Duration.decode(options.startTimeout ?? "30 seconds"),
      mostLineBytes
    }).pipe(Scope.extend(scope))

    const discard = (member: Member): Effect.Effect<void> =>
      Effect.suspend(() => {
        const place = free.indexOf(member)
        if (place !== -1) free.splice(place, 1)
        return member.child.close
      })

    /** One that breaks while nobody asks it anything would go unnoticed; whoever asks it notices. */
    const watch = (member: Member) =>
      Effect.gen(function* () {
        const reason = yield* member.child.broken
        if (!free.includes(member)) return
        yield* Effect.logWarning(`an idle worker of ${kind} is given up: ${reason}`)
        yield* discard(member)
      })

    /** While children do not come up, one at a time is tried, with longer and longer pauses. */
    const startOne: Effect.Effect<Member, WorkerChild.ChildBroken | NotNow> = Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      if (failures > 0 && (probing || now < notBefore)) {
        return yield* new NotNow({ after: Duration.millis(Math.max(1_000, notBefore - now)) })
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
            // Those who were started together and fail together are one failure.
            if (failedAt < notBefore) return
            failures += 1
            notBefore = failedAt + Duration.toMillis(pauseAfter(failures))
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
      if (member.child.isFit()) return Effect.succeed(member)
      return Effect.zipRight(Effect.forkIn(discard(member), scope), takeOne)
    })

    const giveBack = (member: Member) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        member.idleSince = now
        free.push(member)
      })

    const idleMillis = Duration.toMillis(options.idle ?? "5 minutes")
    const letGo = Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const unneeded = free.filter(({ idleSince }) => now - idleSince >= idleMillis)
      yield* Effect.forEach(unneeded, discard, { concurrency: "unbounded", discard: true })
    })
    const loop = single({
      name: `pool of ${kind}`,
      schedule: Schedule.spaced(idleMillis),
      runAtStart: false,
      run: letGo
    })
    yield* Effect.forkScoped(repeatLoop(loop))
    return { takeOne, giveBack, discard }
  })

/** Runs a kind by children that speak one line of JSON per job and reply. */
export const make = <A>(kind: JobKind<A>, options: WorkerPoolOptions): Handler.Handler<never> => {
  const encode = Schema.encode(kind.payload)
  return Handler.scoped(
    kind,
    Effect.map(
      open(kind.name, options),
      ({ discard, giveBack, takeOne }) =>
        (payload: A, job: JobContext) =>
          Effect.gen(function* () {
            const content = yield* encode(payload)
            // A child is somebody's at every moment. Only to wait, for it to be ready and for its answer, can be interrupted.
            return yield* Effect.uninterruptibleMask((restore) =>
              Effect.gen(function* () {
                const member = yield* takeOne
                const exit = yield* Effect.exit(restore(member.child.ask(job.id, content)))
                yield* Exit.isSuccess(exit) && member.child.isFit() ? giveBack(member) : discard(member)
                return outcomeOf(yield* exit)
              })
            )
          }).pipe(
            Effect.catchTags({
              NotNow: ({ after }) => Effect.succeed(Outcome.snooze(after)),
              ChildBroken: ({ reason }) => Effect.succeed(Outcome.retry(`the worker broke: ${reason}`))
            })
          )
    )
  )
}
