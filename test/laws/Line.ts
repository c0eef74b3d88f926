import type { Vitest } from "@effect/vitest"
import { Clock, Duration, Effect, type Exit } from "effect"
import { Pods } from "../../src/cluster/Pods.js"
import { type JobId, makeGenerator, type PodId } from "../../src/core/Ids.js"
import type { StoredJob } from "../../src/core/StoredJob.js"
import { End } from "../../src/queue/AttemptEnd.js"
import { Operations } from "../../src/queue/admin/Operations.js"
import { Batches } from "../../src/queue/batch/Batches.js"
import { Endpoints } from "../../src/queue/endpoints/Endpoints.js"
import { Erasure } from "../../src/queue/erasure/Erasure.js"
import { Events } from "../../src/queue/events/Events.js"
import { JobAdmin } from "../../src/queue/JobAdmin.js"
import { Kinds } from "../../src/queue/Kinds.js"
import { JobLogs } from "../../src/queue/logs/JobLogs.js"
import type { NewJob } from "../../src/queue/NewJob.js"
import { type ClaimedJob, type Enqueued, type EnqueueError, type HeldJob, Queue } from "../../src/queue/Queue.js"
import { JobOverview } from "../../src/queue/search/JobOverview.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import { Queues } from "../../src/queue/settings/QueueSettings.js"
import { Routes } from "../../src/queue/settings/Routes.js"
import { Transactions } from "../../src/queue/Transactions.js"
import { JobDiagnosis } from "../../src/queue/why/JobDiagnosis.js"
import { Workflows } from "../../src/queue/workflow/Workflows.js"

export type Ports =
  | Queue
  | Queues
  | JobAdmin
  | JobSearch
  | JobOverview
  | JobDiagnosis
  | JobLogs
  | Operations
  | Batches
  | Events
  | Endpoints
  | Erasure
  | Workflows
  | Kinds
  | Routes
  | Transactions
  | Pods

/** Advances the clock of a law. */
export type Advance = (by: Duration.DurationInput) => Effect.Effect<void>

/** What moves the clock of the laws of the queue. */
export interface Clocks {
  readonly advance: Advance
  readonly setBack: Advance
}

/** The context of a law: the ports, a queue that no other law uses, and helpers. */
export interface Line {
  readonly queue: typeof Queue.Service
  readonly queues: typeof Queues.Service
  readonly jobAdmin: typeof JobAdmin.Service
  readonly search: typeof JobSearch.Service
  readonly overview: typeof JobOverview.Service
  readonly standing: typeof JobDiagnosis.Service
  readonly operations: typeof Operations.Service
  readonly batches: typeof Batches.Service
  readonly events: typeof Events.Service
  readonly endpoints: typeof Endpoints.Service
  readonly erasure: typeof Erasure.Service
  readonly workflows: typeof Workflows.Service
  readonly kinds: typeof Kinds.Service
  readonly logs: typeof JobLogs.Service
  readonly routes: typeof Routes.Service
  readonly transactions: typeof Transactions.Service
  readonly pods: typeof Pods.Service
  readonly advance: Advance
  /** Sets the clock back, as if the next call came from a process whose clock is behind. */
  readonly setBack: Advance
  readonly now: Effect.Effect<number>
  /** The queue's name; also a unique prefix for keys and kinds. */
  readonly name: string
  readonly pod: PodId
  readonly newId: Effect.Effect<JobId>
  readonly job: (more?: Partial<NewJob>) => NewJob
  /** Stores one job and returns its id. */
  readonly put: (more?: Partial<NewJob>) => Effect.Effect<JobId, unknown>
  /** Submits the jobs one by one, together, and returns their results in order. */
  readonly submit: (jobs: ReadonlyArray<NewJob>) => Effect.Effect<ReadonlyArray<Exit.Exit<Enqueued, EnqueueError>>>
  /** Claims a second later: a claimer may take that long to find a job that was returned behind its cursor. */
  readonly claim: (limit?: number) => Effect.Effect<ReadonlyArray<ClaimedJob>, unknown>
  readonly claimOne: Effect.Effect<ClaimedJob, unknown>
  /** Stores a job and claims it. */
  readonly run: (more?: Partial<NewJob>) => Effect.Effect<ClaimedJob, unknown>
  /** Ends a run and returns the updated job. */
  readonly end: (held: HeldJob, end: End) => Effect.Effect<StoredJob, unknown>
  /** Lets a run go without heartbeats past the limit, and recovers the job. */
  readonly crash: (held: HeldJob) => Effect.Effect<StoredJob, unknown>
  /** Every job of the queue, or of another, newest first. */
  readonly all: (queue?: string) => Effect.Effect<ReadonlyArray<StoredJob>, unknown>
}

/** Short names for the ends of runs. */
export const ends = {
  done: End.Done({ result: undefined }),
  dead: End.Dead({ reason: "rejected", counted: true, error: "no" }),
  cancelled: End.Dead({ reason: "cancelled", counted: true, error: undefined }),
  again: (runAt: number, error = "failed") => End.Again({ runAt, counted: true, error, remember: "failed" }),
  release: (runAt: number) => End.Again({ runAt, counted: false, error: undefined, remember: undefined })
}

const open = ({ advance, setBack }: Clocks, name: string): Effect.Effect<Line, never, Ports> =>
  Effect.gen(function* () {
    const queue = yield* Queue
    const queues = yield* Queues
    const jobAdmin = yield* JobAdmin
    const search = yield* JobSearch
    const overview = yield* JobOverview
    const standing = yield* JobDiagnosis
    const operations = yield* Operations
    const batches = yield* Batches
    const events = yield* Events
    const endpoints = yield* Endpoints
    const erasure = yield* Erasure
    const workflows = yield* Workflows
    const kinds = yield* Kinds
    const logs = yield* JobLogs
    const routes = yield* Routes
    const transactions = yield* Transactions
    const pods = yield* Pods
    const ids = yield* makeGenerator
    const now = Clock.currentTimeMillis
    yield* advance("1 second")
    const pod = ids.pod(yield* now)
    const job = (more: Partial<NewJob> = {}): NewJob => ({
      kind: "greet",
      version: 1,
      queue: name,
      payload: { name: "Ada" },
      attempts: 5,
      ...more
    })
    const put: Line["put"] = (more) =>
      Effect.flatMap(queue.enqueue([job(more)]), ([answer]) =>
        answer?.outcome === "enqueued" ? Effect.succeed(answer.id) : Effect.dieMessage(`not stored: ${answer?.outcome}`)
      )
    const submit: Line["submit"] = (jobs) =>
      Effect.flatMap(queue.submitter, (hand) =>
        Effect.all(
          jobs.map((each) =>
            Effect.async<Exit.Exit<Enqueued, EnqueueError>>((resume) =>
              hand(each, (exit) => resume(Effect.succeed(exit)))
            )
          ),
          { concurrency: "unbounded" }
        )
      )
    const claim: Line["claim"] = (limit = 10) =>
      Effect.zipRight(advance("1 second"), queue.claim({ queue: name, pod, limit }))
    const claimOne = Effect.flatMap(claim(), ([only, ...others]) =>
      only === undefined || others.length > 0
        ? Effect.dieMessage(`claimed ${others.length + (only === undefined ? 0 : 1)} jobs instead of one`)
        : Effect.succeed(only)
    )
    return {
      queue,
      queues,
      jobAdmin,
      search,
      overview,
      standing,
      operations,
      batches,
      events,
      endpoints,
      erasure,
      workflows,
      kinds,
      logs,
      routes,
      transactions,
      pods,
      advance,
      setBack,
      now,
      name,
      pod,
      newId: Effect.map(now, ids.job),
      job,
      put,
      submit,
      claim,
      claimOne,
      run: (more) => Effect.zipRight(put(more), claimOne),
      end: ({ id, lease }, end) => Effect.zipRight(queue.finalize([{ id, lease, end }]), search.get(id)),
      crash: ({ id }) =>
        queue
          .recoverStuck(Duration.minutes(30))
          .pipe(
            Effect.zipRight(advance("1 hour")),
            Effect.zipRight(queue.recoverStuck(Duration.minutes(30))),
            Effect.zipRight(search.get(id))
          ),
      all: (other = name) => Effect.map(search.list({ queue: other }, { limit: 1000 }), ({ jobs }) => jobs)
    }
  })

/** Declares a law as a test. */
export type Law = (name: string, story: (line: Line) => Effect.Effect<void, unknown>) => void

export const lawOf = (test: Vitest.Test<Ports>, clocks: Clocks): Law => {
  let opened = 0
  return (name, story) => test(name, () => Effect.suspend(() => Effect.flatMap(open(clocks, `law-${++opened}`), story)))
}
