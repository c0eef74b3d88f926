import { Duration, Effect, Schema } from "effect"
import * as Backoff from "../../core/Backoff.js"
import type { InvalidJob } from "../../core/InvalidJob.js"
import * as Outcome from "../../core/Outcome.js"
import * as Handler from "../../handlers/Handler.js"
import type { JobContext } from "../../handlers/JobContext.js"
import * as RateLimit from "../../limits/RateLimit.js"
import type { RateLimits } from "../../limits/RateLimits.js"
import type { NewJob } from "../../queue/enqueue/NewJob.js"
import * as Job from "../../queue/Job.js"
import type { Queue } from "../../queue/Queue.js"
import type { QueueSettingsPatch } from "../../queue/settings/QueueSettings.js"
import * as Schedule from "../../schedule/Schedule.js"
import { Dice, digest, drawn } from "./Seed.js"

// Jobs of every sort that the queue makes a promise about, and handlers that misbehave in every way it must bear.

const Numbered = Schema.Struct({ n: Schema.Int })
const shared = { payload: Numbered, maxAttempts: 2, timeout: "5 seconds", backoff: Backoff.fixed("2 seconds") } as const

const Obituary = Job.make("obituary", { ...shared, queue: "plain" })
const obituaryOf = ({ n }: { readonly n: number }) => ({
  kind: Obituary.name,
  version: 1,
  queue: "plain",
  payload: { n },
  maxAttempts: 3
})
const Plain = Job.make("plain", { ...shared, queue: "plain", onDead: obituaryOf })
/** In strict order per key. */
const Line = Job.make("line", { ...shared, queue: "line" })
/** Not too many at a time. */
const Metered = Job.make("metered", { ...shared, queue: "metered" })
/** Keeps to a limit that all pods share. */
const Token = Job.make("token", { ...shared, queue: "plain" })
/** Stores a child in one transaction with its own end. */
const Parent = Job.make("parent", { ...shared, queue: "plain" })
const Child = Job.make("child", { ...shared, queue: "plain" })
const Tick = Job.make("tick", { ...shared, queue: "plain" })

export const kinds = { parent: Parent.name, child: Child.name, plain: Plain.name, obituary: Obituary.name } as const

export const queues: Readonly<Record<string, QueueSettingsPatch>> = {
  plain: { maxWorkers: 6 },
  line: { maxWorkers: 6, perKey: { concurrency: 1, order: "strict" } },
  metered: { maxWorkers: 6, rate: { jobs: 2, per: Duration.seconds(4) } }
}

export const upstream = RateLimit.make("upstream", { capacity: 3, rate: 1, ahead: 2 })

export const schedule = Schedule.make("ticking", { job: Tick, payload: { n: 0 }, cron: "*/7 * * * * *", missed: "one" })

type Supply = Effect.Effect<NewJob, InvalidJob>

/** So many jobs of all sorts, drawn from the seed. */
export const jobs = (seed: number, count: number): ReadonlyArray<Supply> => {
  const dice = new Dice(digest("jobs", seed))
  // Often one sort is in the majority: limits and orders show only where many meet.
  const favourite = dice.pick(undefined, Plain, Line, Metered, Token, Parent)
  return Array.from({ length: count }, (_, index): Supply => {
    const payload = { n: index + 1 }
    const mixed = dice.pick(Plain, Plain, Line, Metered, Token, Parent)
    const kind = favourite !== undefined && dice.isLucky(0.7) ? favourite : mixed
    const delay = dice.isLucky(0.25) ? { delay: Duration.millis(dice.whole(0, 15_000)) } : {}
    const priority = dice.isLucky(0.2) && kind !== Line ? { priority: dice.whole(-2, 2) } : {}
    const key = kind === Line ? { key: dice.pick("ada", "bob") } : {}
    const scope = dice.pick("active", "retained")
    const dedupe = dice.isLucky(0.25) ? { dedupe: { key: dice.pick("one", "two"), scope } as const } : {}
    return kind.job(payload, { ...(kind === Line ? {} : delay), ...priority, ...key, ...dedupe })
  })
}

/** What handlers can do to their surroundings. */
export interface HandlerControls {
  readonly seed: number
  /** Ends the process that they run in. */
  readonly crash: Effect.Effect<never>
  /** Whether everybody is to behave by now. */
  readonly isCalm: () => boolean
  /** Which run of a job this is, from 1, wherever it runs. */
  readonly nthRun: (job: string) => number
  readonly granted: () => void
}

/** After so many runs a job behaves, so that it ends some day. */
const mostTrouble = 6

/** The same job does the same, however it came about: ids change when a plan is made smaller, numbers do not. */
const misbehave = (
  { crash, isCalm, nthRun, seed }: HandlerControls,
  { id, kind }: Pick<JobContext, "id" | "kind">,
  n: number
): Effect.Effect<unknown, string> => {
  const nth = nthRun(id)
  const name = n === 0 ? `${id} ${nth}` : `${kind} ${n} ${nth}`
  const chance = isCalm() || nth > mostTrouble ? 0 : drawn(seed, `run ${name}`)
  const long = Duration.millis(drawn(seed, `length ${name}`) * 3_000)
  if (chance < 0.55) return Effect.sleep(isCalm() ? "10 millis" : long)
  if (chance < 0.65) return Effect.zipRight(Effect.sleep(long), Effect.fail("on purpose"))
  if (chance < 0.69) return Effect.dieMessage("on purpose")
  if (chance < 0.74) return Effect.sleep("1 hour")
  if (chance < 0.78) return Effect.uninterruptible(Effect.sleep("14 seconds"))
  if (chance < 0.82) return Effect.succeed(Outcome.throttled({ after: Duration.seconds(2), scope: "job" }))
  if (chance < 0.85) return Effect.fail(`again ${Math.round(chance * 1000)}`)
  if (chance < 0.86) return Effect.succeed(Outcome.throttled({ after: Duration.seconds(1), scope: "queue" }))
  if (chance < 0.88) return Effect.succeed(Outcome.throttled({ after: Duration.seconds(3), scope: "key" }))
  if (chance < 0.92) return Effect.succeed(Outcome.snooze(Duration.seconds(1)))
  if (chance < 0.95) return Effect.succeed(Outcome.dead("on purpose"))
  return Effect.zipRight(Effect.sleep(long), crash)
}

export const handlers = (powers: HandlerControls): ReadonlyArray<Handler.Handler<Queue | RateLimits>> => {
  const plain = (kind: Job.JobKind<{ readonly n: number }>) =>
    Handler.make(kind, ({ n }, job) => misbehave(powers, job, n))
  return [
    plain(Plain),
    plain(Line),
    plain(Metered),
    plain(Obituary),
    plain(Child),
    plain(Tick),
    Handler.make(Token, ({ n }, job) =>
      upstream.acquire.pipe(
        Effect.tap(() => powers.granted()),
        Effect.zipRight(misbehave(powers, job, n))
      )
    ),
    // The child is stored last: in memory, what a transaction has written is seen by others before it ends.
    Handler.transactional(Parent, ({ n }, job) =>
      Effect.flatMap(misbehave(powers, job, n), (outcome) => Effect.as(Child.enqueue({ n }), outcome))
    )
  ]
}
