import type { JobId } from "../../core/Ids.js"
import { JobIdTaken, QueueFull } from "../JobErrors.js"
import type { StampedJob, StampedJobs } from "../NewJob.js"
import { deduplicated, type Enqueued, enqueued } from "../Queue.js"

// The call of the SQL function `enqueue_jobs`, which decides conflicts by id, dedupe key and depth cap. It has one text
// parameter: libraries encode arrays and JSON differently.

const iso = (millis: number): string => new Date(millis).toISOString()

/** A job as JSON. Payload, follow-up and meta are JSON text already. */
const textOf = (job: StampedJob, now: number): string => {
  const fields = {
    id: job.id,
    queue: job.queue,
    kind: job.kind,
    version: job.version,
    priority: job.priority,
    run_at: iso(job.runAt),
    max_attempts: job.attempts,
    key: job.key,
    dedupe_key: job.dedupeKey,
    dedupe_scope: job.dedupeScope,
    dedupe_until: job.dedupeWindow === undefined ? null : iso(now + job.dedupeWindow),
    replace: job.replace,
    batch_id: job.batch,
    woken: job.woken,
    is_child: job.isChild
  }
  const { meta, onDead, payload } = job
  return `${JSON.stringify(fields).slice(0, -1)},"payload":${payload},"on_dead":${onDead},"meta":${meta}}`
}

export interface RequestOptions {
  /** Wait for a key that another transaction holds. In a caller's transaction its own setting applies. */
  readonly lock_timeout?: string
  /** Notifications to send to other processes. */
  readonly notify?: ReadonlyArray<string>
}

/** The parameter of the function. */
export const request = (jobs: StampedJobs, now: number, options: RequestOptions): string =>
  `${JSON.stringify({ now, ...options }).slice(0, -1)},"jobs":[${jobs.map((job) => textOf(job, now)).join(",")}]}`

/** A row that the function returned. */
export interface Answer {
  readonly place: number
  readonly id: JobId
  readonly outcome: "enqueued" | "repeated" | "deduplicated" | "id_taken" | "queue_full"
  readonly note: string | null
}

/** The error, if the function has stored nothing. `request` holds the jobs that the error counts. */
export const refusalOf = (
  [first]: ReadonlyArray<Answer>,
  jobs: StampedJobs,
  request = jobs
): JobIdTaken | QueueFull | undefined => {
  const job = first === undefined ? undefined : jobs[first.place]
  if (first === undefined || job === undefined) return undefined
  if (first.outcome === "queue_full") return new QueueFull({ queue: job.queue, cap: Number(first.note) })
  if (first.outcome !== "id_taken") return undefined
  return new JobIdTaken({ index: request.indexOf(job), jobs: request.length, id: job.id })
}

export const enqueuedOf = ({ id, outcome }: Answer): Enqueued =>
  outcome === "deduplicated" ? deduplicated(id) : enqueued(id)
