import { Duration, Schema } from "effect"
import { JobId, Lease } from "../../core/Ids.js"
import * as Kind from "../../core/Kind.js"
import { limits } from "../../core/StoredJob.js"
import type { Level } from "../../telemetry/Level.js"
import { Instant, Moment } from "../Instant.js"
import * as WireText from "../WireText.js"

// Bodies of the routes for remote workers. Times that a worker waits or asks for are numbers of seconds.

export const bounds = { jobs: 1_000, queues: 100, kinds: 1_000, waitSeconds: 50, seconds: 31_536_000, logLines: 1_000 }

const text = (most: number, description: string) =>
  WireText.Text.pipe(
    // Without override: an empty text, or one with characters that cannot be stored, keeps its own message.
    Schema.minLength(1, { message: () => "must not be empty" }),
    Schema.maxLength(most, { message: () => `must be at most ${most} characters long` })
  ).annotations({ description })

const whole = (least: number, most: number, description: string) =>
  Schema.Int.pipe(Schema.between(least, most)).annotations({
    ...WireText.withMessage(`must be a whole number from ${least} to ${most}`),
    jsonSchema: { type: "integer", minimum: least, maximum: most },
    description
  })

const seconds = (least: number, most: number, description: string) =>
  Schema.Finite.pipe(Schema.between(least, most)).annotations({
    ...WireText.withMessage(`must be a number of seconds from ${least} to ${most}`),
    jsonSchema: { type: "number", minimum: least, maximum: most },
    description
  })

const names = (most: number, description: string) =>
  Schema.Array(text(limits.nameCharacters, "A name."))
    .annotations({ message: () => `must be a list of 1 to ${most} names` })
    .pipe(
      Schema.minItems(1, { message: () => "must not be empty" }),
      Schema.maxItems(most, { message: () => `must have at most ${most} entries` })
    )
    .annotations({ description })

const jobs = <A, I>(job: Schema.Schema<A, I>) =>
  Schema.Array(job)
    .annotations({ message: () => "must be a list of jobs" })
    .pipe(Schema.maxItems(bounds.jobs, { message: () => `must have at most ${bounds.jobs} entries` }))

const Worker = Schema.Struct({
  id: text(200, "Chosen by the worker, and unique: a UUID made when the process starts."),
  name: WireText.optional(text(100, "Name shown in the list of processes.")),
  runtime: WireText.optional(text(100, "Language or runtime, such as `python 3.12`.")),
  host: WireText.optional(text(255, "Host name.")),
  pid: WireText.optional(whole(0, 2_147_483_647, "Process id."))
}).annotations(WireText.body("RemoteWorker", "must be an object with id"))

/** Body of `POST /api/v1/work/claim`. */
export const ClaimRequest = Schema.Struct({
  worker: Worker,
  queues: WireText.optional(names(bounds.queues, "Queues to claim from. Defaults to the queues of the kinds.")),
  kinds: WireText.optional(
    names(
      bounds.kinds,
      "Kinds that the worker has handlers for. Jobs of other kinds stay in the queue. Kinds that no process has registered are registered. Without it, the worker takes every kind."
    )
  ),
  max: WireText.optional(whole(1, bounds.jobs, "Maximum number of jobs. Defaults to 1.")),
  waitSeconds: WireText.optional(
    seconds(0, bounds.waitSeconds, "How long to wait for a job if none is due. Defaults to 0.")
  ),
  timeoutSeconds: WireText.optional(
    seconds(1, bounds.seconds, `How long an attempt may run. Defaults to ${Duration.toSeconds(Kind.defaults.timeout)}.`)
  )
}).annotations(WireText.body("ClaimRequest", "must be an object with worker, and queues or kinds"))
export type ClaimRequest = typeof ClaimRequest.Type

export const ClaimedJobView = Schema.Struct({
  id: JobId,
  lease: Lease.annotations({ description: "Send it with every request about this attempt." }),
  queue: Schema.String,
  kind: Schema.String,
  version: Schema.Int.annotations({ description: "Version of the payload's schema." }),
  payload: Schema.Unknown,
  key: Schema.NullOr(Schema.String),
  meta: Schema.Unknown,
  attempt: Schema.Int.annotations({ description: "Number of this attempt, from 1." }),
  attempts: Schema.Int,
  createdAt: Moment,
  deadline: Moment.annotations({ description: "When the attempt times out, unless a heartbeat extends it." })
}).annotations({ identifier: "ClaimedJob" })

export const ClaimAnswer = Schema.Struct({
  jobs: Schema.Array(ClaimedJobView).annotations({ description: "Empty if no job became due. All are of one queue." }),
  heartbeatSeconds: Schema.Number.annotations({ description: "How often to send a heartbeat while holding jobs." })
}).annotations({ identifier: "ClaimedJobs" })

const held = {
  id: JobId.annotations(WireText.withMessage("must be a UUID")),
  lease: Lease.annotations(WireText.withMessage("must be a UUID"))
}

const JobBeat = Schema.Struct({
  ...held,
  deadline: WireText.optional(Instant),
  extendSeconds: WireText.optional(seconds(1, bounds.seconds, "Moves the deadline to this long from now.")),
  progress: WireText.optional(Schema.Unknown)
}).annotations({ identifier: "JobHeartbeat", message: () => "must be an object with id and lease" })

/** Body of `POST /api/v1/work/heartbeat`. */
export const HeartbeatRequest = Schema.Struct({
  worker: Worker,
  jobs: jobs(JobBeat),
  leave: WireText.flag("The worker stops: remove it from the list of processes.")
}).annotations(WireText.body("HeartbeatRequest", "must be an object with worker and jobs"))

const Fault = Schema.NullOr(Schema.Struct({ tag: Schema.String, message: Schema.String }))

export const HeartbeatAnswer = Schema.Struct({
  jobs: Schema.Array(
    Schema.Struct({
      ...held,
      deadline: Moment,
      error: Fault.annotations({ description: "Why the progress was not stored, or null." })
    })
  ).annotations({
    description: "The jobs that the worker holds. Send the deadline with the next heartbeat."
  }),
  stop: Schema.Array(Schema.Struct({ ...held, reason: Schema.Literal("cancelled", "lost", "timeout") })).annotations({
    description:
      "Jobs to stop. A cancelled job is finished by the worker; a lost one belongs to another process, and one that timed out has failed, or is cancelled if that was requested."
  })
}).annotations({ identifier: "HeartbeatAnswer" })

const outcomes = ["done", "failed", "retry", "snooze", "throttled", "dead", "cancelled", "returned"] as const

const levels = ["trace", "debug", "info", "warn", "error", "fatal"] as const satisfies ReadonlyArray<Level>

const LogLine = Schema.Struct({
  at: WireText.optional(Instant),
  level: WireText.optional(WireText.oneOf(levels)),
  message: Schema.String.annotations({ message: () => "must be text" })
}).annotations({ message: () => "must be an object with message" })

const JobEnd = Schema.Struct({
  ...held,
  outcome: WireText.oneOf(
    outcomes,
    "done; failed or retry: runs again after the backoff or afterSeconds; snooze and throttled: runs again without using up an attempt; dead: not retried; cancelled: stopped because it was cancelled; returned: back to the queue, as if it had not started."
  ),
  result: WireText.optional(Schema.Unknown),
  error: WireText.optional(
    Schema.String.annotations({ description: "Message stored with the job; for failed, retry and dead." })
  ),
  afterSeconds: WireText.optional(seconds(0, bounds.seconds, "Delay of failed, retry, snooze or throttled.")),
  scope: WireText.optional(
    Schema.Literal("queue", "key", "job").annotations({
      ...WireText.withMessage("must be queue, key or job"),
      description: "What throttled pauses. Defaults to queue."
    })
  ),
  log: WireText.optional(
    Schema.Array(LogLine)
      .annotations({ message: () => "must be a list of lines" })
      .pipe(Schema.maxItems(bounds.logLines, { message: () => `must have at most ${bounds.logLines} lines` }))
  )
}).annotations({ identifier: "JobEnd", message: () => "must be an object with id, lease and outcome" })
export type JobEnd = typeof JobEnd.Type

/** Body of `POST /api/v1/work/finish`. */
export const FinishRequest = Schema.Struct({
  worker: Worker,
  jobs: jobs(JobEnd).pipe(Schema.minItems(1, { message: () => "must not be empty" }))
}).annotations(WireText.body("FinishRequest", "must be an object with worker and jobs"))

export const FinishAnswer = Schema.Struct({
  jobs: Schema.Array(
    Schema.Struct({
      ...held,
      status: Schema.NullOr(Schema.String).annotations({
        description: "The job's status: done, pending or dead. Null if the result was not accepted."
      }),
      error: Fault
    })
  )
}).annotations({ identifier: "FinishAnswer" })
