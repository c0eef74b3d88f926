import { Duration, Effect, Redacted, Schema } from "effect"
import type { WorkflowServices } from "../../client/workflow/WorkflowDefinition.js"
import * as Backoff from "../../core/Backoff.js"
import type { Workspace } from "../../core/Ids.js"
import type { InvalidJob } from "../../core/InvalidJob.js"
import * as Outcome from "../../core/Outcome.js"
import type { Source } from "../../gateway/Bots.js"
import { SafeFetch } from "../../gateway/fetch/SafeFetch.js"
import * as Push from "../../gateway/push/Push.js"
import * as Handler from "../../handlers/Handler.js"
import type { JobContext } from "../../handlers/JobContext.js"
import * as Job from "../../queue/Job.js"
import type { NewJob } from "../../queue/NewJob.js"
import type { QueueSettingsPatch } from "../../queue/settings/QueueSettings.js"
import * as RateLimit from "../../rate-limits/RateLimit.js"
import type { RateLimits } from "../../rate-limits/RateLimits.js"
import * as Schedule from "../../schedule/Schedule.js"
import type { History } from "./History.js"
import * as PushEndpoint from "./PushEndpoint.js"
import { Dice, digest, drawn } from "./Seed.js"
import * as WorkflowWorkload from "./WorkflowWorkload.js"

// The built-in workload: jobs that exercise every invariant, and handlers that fail in every way a queue must tolerate.

const Numbered = Schema.Struct({ n: Schema.Int })
const shared = { payload: Numbered, attempts: 2, timeout: "5 seconds", backoff: Backoff.fixed("2 seconds") } as const

const Obituary = Job.make("obituary", { ...shared, queue: "plain" })
const obituaryOf = ({ n }: { readonly n: number }) => ({
  kind: Obituary.name,
  version: 1,
  queue: "plain",
  payload: { n },
  attempts: 3
})
const Plain = Job.make("plain", { ...shared, queue: "plain", onDead: obituaryOf })
/** Has no follow-up, so that a pod can hand the job that it enqueues to its own free slot. */
const Light = Job.make("light", { ...shared, queue: "plain" })
/** Runs in strict order per key. */
const Line = Job.make("line", { ...shared, queue: "line" })
/** Limited by its queue's start rate. */
const Metered = Job.make("metered", { ...shared, queue: "metered" })
/** Acquires a token of a rate limit shared by all pods. */
const Token = Job.make("token", { ...shared, queue: "plain" })
/** Enqueues a child in the transaction that finalizes it. */
const Parent = Job.make("parent", { ...shared, queue: "plain" })
const Child = Job.make("child", { ...shared, queue: "plain" })
/** Made from webhooks of the source `shop`. */
const Webhook = Job.make("webhook", { ...shared, queue: "plain" })
/** The event of the simulation, and the kinds that subscribe to it. */
export const event = "rung"
const subscriberOf = (name: string) => ({
  ...Job.make(name, { ...shared, queue: "plain" }),
  subscribes: { event, kind: name }
})
const subscribers = [subscriberOf("rung.first"), subscriberOf("rung.second")]
/** Claimed by remote workers: no pod serves its queue. */
const Remote = Job.make("remote", { ...shared, queue: "remote" })
/** Sent to an endpoint. */
const Pushed = Job.make("pushed", { ...shared, queue: "plain" })
const Tick = Job.make("tick", { ...shared, queue: "plain" })
/** A workflow execution, and the children that it waits for. */
const Execution = Job.make(WorkflowWorkload.executionKind, { ...shared, queue: "plain" })
const Leaf = Job.make("leaf", { ...shared, queue: "plain" })

/** A webhook source whose deliveries become jobs. */
export const shop: Source = { name: "shop", style: "github", kind: Webhook.name, secrets: [], keys: [] }
/** The owner of the uploaded files. */
export const workspace = "sim" as Workspace

export const kinds = {
  webhook: Webhook.name,
  parent: Parent.name,
  child: Child.name,
  plain: Plain.name,
  obituary: Obituary.name,
  remote: Remote.name,
  pushed: Pushed.name,
  subscribers: subscribers.map(({ name }) => name)
} as const

export const queues: Readonly<Record<string, QueueSettingsPatch>> = {
  plain: { maxWorkers: 6 },
  line: { maxWorkers: 6, perKey: { concurrency: 1, order: "strict" } },
  metered: { maxWorkers: 6, rate: { jobs: 2, per: Duration.seconds(4) } }
}

/** The queue of the jobs that remote workers run, in the seeds that have some. */
export const remoteQueue = Remote.queue
export const remoteQueues: Readonly<Record<string, QueueSettingsPatch>> = { [remoteQueue]: { maxWorkers: 6 } }

export const upstream = RateLimit.make("upstream", { capacity: 3, rate: 1, ahead: 2 })

export const schedule = Schedule.make("ticking", { job: Tick, payload: { n: 0 }, cron: "*/7 * * * * *", missed: "one" })

type JobSource = Effect.Effect<NewJob, InvalidJob>

/** Returns `count` random jobs for a seed, some of them workflow executions. */
export const jobsAndExecutions = (seed: number, count: number): ReadonlyArray<JobSource> => {
  const executions = WorkflowWorkload.areExecutions(seed, count)
  const execution = (n: number): JobSource =>
    Effect.map(Execution.job({ n }), (job) => WorkflowWorkload.executionJobOf(job, n))
  const all = plainJobs(seed, count).map((source, index) =>
    executions[index] === true ? execution(index + 1) : source
  )
  return withSubjects(seed, all)
}

/** The subject of a person whose data an operator erases, which is in the `meta` of its jobs too. */
export const subjectOf = (nth: number): string => `person ${nth}`

/** How many subjects the jobs of a seed have. Seven of eight seeds have none, so that most seeds run without erasures. */
export const subjectsOf = (seed: number): number => {
  const dice = new Dice(digest("subjects", seed))
  return dice.chance(0.875) ? 0 : dice.pick(1, 2)
}

/** Gives most jobs of a seed with subjects one of them. */
const withSubjects = (seed: number, sources: ReadonlyArray<JobSource>): ReadonlyArray<JobSource> => {
  const subjects = subjectsOf(seed)
  if (subjects === 0) return sources
  const dice = new Dice(digest("whose", seed))
  return sources.map((source) => {
    const subject = subjectOf(dice.whole(1, subjects + 1))
    const isOwn = subject !== subjectOf(subjects + 1)
    return Effect.map(source, (job) => (isOwn ? { ...job, subject, meta: { ...job.meta, about: subject } } : job))
  })
}

/** The share of jobs that run outside of the pods. Seven of eight seeds have none: a seed with some takes a third longer. */
const shareOutside = (dice: Dice) => (dice.chance(0.875) ? 0 : 0.6)

/** Whether some jobs of a seed are for remote workers or sent to an endpoint. */
export const hasOutside = (seed: number): boolean => shareOutside(outsideDice(seed)) > 0

const outsideDice = (seed: number) => new Dice(digest("outside", seed))

/** Returns `count` random jobs for a seed. */
export const jobs = (seed: number, count: number): ReadonlyArray<JobSource> =>
  withSubjects(seed, plainJobs(seed, count))

const plainJobs = (seed: number, count: number): ReadonlyArray<JobSource> => {
  const dice = new Dice(digest("jobs", seed))
  const outside = outsideDice(seed)
  const share = shareOutside(outside)
  // Favour one kind in most runs: limits and ordering only matter when many jobs of a kind compete.
  const favourite = dice.pick(undefined, Plain, Light, Line, Metered, Token, Parent)
  return Array.from({ length: count }, (_, index): JobSource => {
    const payload = { n: index + 1 }
    const mixed = dice.pick(Plain, Light, Line, Metered, Token, Parent)
    const inside = favourite !== undefined && dice.chance(0.7) ? favourite : mixed
    const kind = outside.chance(share) ? outside.pick(Remote, Remote, Pushed) : inside
    const delay = dice.chance(0.25) ? { delay: Duration.millis(dice.whole(0, 15_000)) } : {}
    const priority = dice.chance(0.2) && kind !== Line ? { priority: dice.whole(-2, 2) } : {}
    const key = kind === Line ? { key: dice.pick("ada", "bob") } : {}
    const scope = dice.pick("active", "retained")
    const dedupe = dice.chance(0.25) ? { dedupe: { key: dice.pick("one", "two"), scope } as const } : {}
    return kind.job(payload, { ...(kind === Line ? {} : delay), ...priority, ...key, ...dedupe })
  })
}

/** How handlers interact with the simulation. */
export interface HandlerControls {
  readonly seed: number
  /** Kills the handler's process. */
  readonly crash: Effect.Effect<never>
  /** Whether faults have ended, so that handlers must succeed. */
  readonly isCalm: () => boolean
  /** Returns the index of this run of a job across all pods, from 1. */
  readonly nthRun: (job: string) => number
  readonly granted: () => void
  /** Records what the code of executions does and sees outside the database. */
  readonly history: WorkflowWorkload.StoryHistory & Pick<History, "trace">
}

/** Number of runs after which a job always succeeds, so that it finishes eventually. */
const maxTroubledRuns = 6

/** Draws by the job's number instead of its id, because shrinking a plan changes ids but not numbers. */
const misbehave = (
  { crash, isCalm, nthRun, seed }: HandlerControls,
  { id, kind }: Pick<JobContext, "id" | "kind">,
  n: number
): Effect.Effect<unknown, string> => {
  const nth = nthRun(id)
  const name = n === 0 ? `${id} ${nth}` : `${kind} ${n} ${nth}`
  const chance = isCalm() || nth > maxTroubledRuns ? 0 : drawn(seed, `run ${name}`)
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

/** Sends jobs with the code of every pushed kind, to an endpoint that misbehaves as handlers do. */
const pushed = (controls: HandlerControls): Handler.Handler<never> => {
  const { history, isCalm, seed } = controls
  const endpoint = PushEndpoint.make({
    history,
    run: (job, n) => misbehave(controls, job, n),
    isLost: (name) => !isCalm() && drawn(seed, `response ${name}`) < 0.2
  })
  const secret = Redacted.make(PushEndpoint.secret)
  const handler = Push.make(Pushed, { url: PushEndpoint.url, secret, throttles: "job" })
  const { open } = handler
  return open === undefined ? handler : { ...handler, open: Effect.provideService(open, SafeFetch, endpoint) }
}

export const handlers = (controls: HandlerControls): ReadonlyArray<Handler.Handler<RateLimits | WorkflowServices>> => {
  const plain = (kind: Job.JobKind<{ readonly n: number }>) =>
    Handler.make(kind, ({ n }, job) => misbehave(controls, job, n))
  return [
    plain(Plain),
    plain(Light),
    plain(Line),
    plain(Metered),
    plain(Obituary),
    plain(Child),
    plain(Tick),
    plain(Webhook),
    plain(Leaf),
    ...subscribers.map(plain),
    ...(hasOutside(controls.seed) ? [pushed(controls)] : []),
    WorkflowWorkload.handler((job, n) => misbehave(controls, job, n), controls),
    Handler.make(Token, ({ n }, job) =>
      upstream.acquire.pipe(
        Effect.tap(() => controls.granted()),
        Effect.zipRight(misbehave(controls, job, n))
      )
    ),
    // Enqueue the child last: in memory, uncommitted writes are visible to other transactions.
    Handler.makeInTransaction(Parent, ({ n }, job) =>
      Effect.flatMap(misbehave(controls, job, n), (outcome) => Effect.as(Child.enqueue({ n }), outcome))
    )
  ]
}
