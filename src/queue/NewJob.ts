import { Duration, Either } from "effect"
import { type DurationInput, decode as decodeDuration } from "../core/DurationText.js"
import { type BatchId, type IdGenerator, isId, type JobId } from "../core/Ids.js"
import { InvalidJob } from "../core/InvalidJob.js"
import {
  faultOfInstant,
  faultOfKind,
  faultOfText,
  faultOfWait,
  faultOfWhole,
  isPlainName,
  jsonText,
  plainNameRule,
  shown
} from "../core/Storable.js"
import { computed, type DedupeScope, type FollowUp, limits, type OnDead } from "../core/StoredJob.js"
import { erasedKey, type SubjectDigest, subjectMeta, subjectOf } from "../core/Subject.js"
import { digestOf, subjectCharacters } from "../database/SubjectText.js"

/** A job to store, with its kind already resolved to queue, version and attempts. */
export interface NewJob {
  readonly kind: string
  readonly version: number
  readonly queue: string
  /** The caller chose no queue: a matching route takes precedence. */
  readonly routed?: boolean | undefined
  readonly payload: unknown
  /** The JSON text that the payload was parsed from, which is stored without encoding the payload again. */
  readonly payloadText?: string | undefined
  readonly attempts: number
  /** Generated if absent. With an id, a request whose reply was lost can be repeated safely. */
  readonly id?: JobId | undefined
  readonly priority?: number | undefined
  /** Epoch milliseconds; now when absent. */
  readonly runAt?: number | undefined
  readonly key?: string | undefined
  readonly dedupe?: Dedupe | undefined
  readonly onDead?: OnDead | undefined
  readonly meta?: Readonly<Record<string, unknown>> | undefined
  /** The person or customer whose data the job holds. Its digest becomes part of `meta`. */
  readonly subject?: string | undefined
  /** The batch to which the job belongs. Set by `Batches`. */
  readonly batch?: BatchId | undefined
  /** Whether the job is a workflow execution, whose id is its dedupe key with the scope `retained`. */
  readonly isExecution?: boolean | undefined
  /** Whether its end is counted by a row of workflow_child. */
  readonly isChild?: boolean | undefined
}

export interface Dedupe {
  readonly key: string
  /** How long the key is held: until the job ends, or as long as its row exists. [`retained` with a window, else `active`] */
  readonly scope?: DedupeScope | undefined
  /** How long a `retained` key is held after the job was stored. Without it, as long as the row exists. */
  readonly window?: DurationInput | undefined
  /** If the holder is still pending, replace its payload and start time instead of ignoring this job. */
  readonly replace?: boolean | undefined
}

/**
 * A validated job with its id and start time, ready to insert: JSON is text, absent is null, and nothing in it can make a
 * batch statement fail.
 */
export interface StampedJob {
  readonly id: JobId
  readonly queue: string
  readonly kind: string
  readonly version: number
  readonly payload: string
  readonly attempts: number
  readonly priority: number
  readonly runAt: number
  readonly key: string | null
  readonly dedupeKey: string | null
  readonly dedupeScope: DedupeScope | null
  readonly dedupeWindow: number | undefined
  readonly replace: boolean
  readonly onDead: string | null
  readonly meta: string | null
  readonly batch: BatchId | null
  /** 0 for an execution. */
  readonly woken: 0 | null
  readonly isChild: true | null
  /** Whether the caller supplied the id, so that the job may already exist. */
  readonly ownId: boolean
}

export type StampedJobs = ReadonlyArray<StampedJob>

export {
  faultOfInstant as faultOfRunAt,
  isPlainName as isQueueName,
  isUnstorable,
  jsonText
} from "../core/Storable.js"

export const faultOfPriority = (priority: number): string | undefined =>
  faultOfWhole(priority, limits.priority.min, limits.priority.max)

/** An invalid field, and why. */
export type Fault = readonly [field: string, reason: string]

export const at = (field: string, reason: string | undefined): Fault | undefined =>
  reason === undefined ? undefined : [field, reason]

/** The scope of a dedupe key. A window implies `retained`. */
export const scopeOf = ({ scope, window }: Dedupe): DedupeScope =>
  scope ?? (window === undefined ? "active" : "retained")

/** Checks what only programs in JavaScript can get wrong, and the key. */
const faultOfDedupe = (dedupe: Dedupe): Fault | undefined => {
  if (typeof dedupe !== "object" || dedupe === null)
    return ["dedupe", `must be a key or an object with a key, got ${shown(dedupe)}`]
  const { key, scope } = dedupe
  if (scope !== undefined && scope !== "active" && scope !== "retained")
    return ["dedupe.scope", `must be active or retained, got ${shown(scope)}`]
  return at("dedupe.key", faultOfText(key, limits.keyCharacters)) ?? at("dedupe.window", faultOfWindow(dedupe))
}

const faultOfMeta = (meta: unknown): string | undefined => {
  if (typeof meta !== "object" || meta === null || Array.isArray(meta)) return `must be an object, got ${shown(meta)}`
  return erasedKey in meta ? `must not have the field ${erasedKey}, which only an erasure sets` : undefined
}

const maxDedupeWindow = Duration.toMillis(Duration.days(limits.waitDays))

const faultOfWindow = ({ scope, window }: Dedupe): string | undefined => {
  if (window === undefined) return undefined
  if (scope === "active") return 'needs the scope "retained", got "active"'
  if (typeof window === "number" && window >= 0 && window <= maxDedupeWindow) return undefined
  try {
    return faultOfWait(decodeDuration(window))
  } catch (error) {
    return `must be a duration: ${error instanceof Error ? error.message.replace(/\.$/, "") : String(error)}`
  }
}

const windowMillis = (window: Dedupe["window"]): number | undefined =>
  window === undefined || typeof window === "number" ? window : Duration.toMillis(decodeDuration(window))

/** An execution is found by its dedupe key as long as its row exists. */
const faultOfExecution = (dedupe: Dedupe | undefined): string | undefined =>
  dedupe?.scope === "retained" && dedupe.window === undefined && dedupe.replace !== true
    ? undefined
    : "of an execution must have a key and the scope `retained`, and no other field"

/** Returns the first invalid field. Builds no list, because a bulk enqueue calls this a thousand times. */
export const faultOfFields = (job: NewJob): Fault | undefined =>
  at("id", job.id === undefined || isId(job.id) ? undefined : "must be a lower-case UUID") ??
  at("kind", faultOfKind(job.kind)) ??
  at("queue", isPlainName(job.queue) ? undefined : plainNameRule) ??
  at("version", faultOfWhole(job.version, 1, 2_147_483_647)) ??
  at("attempts", faultOfWhole(job.attempts, 1, limits.attempts)) ??
  at("priority", faultOfPriority(job.priority ?? 0)) ??
  at("runAt", job.runAt === undefined ? undefined : faultOfInstant(job.runAt)) ??
  at("key", job.key === undefined ? undefined : faultOfText(job.key, limits.keyCharacters)) ??
  (job.dedupe === undefined ? undefined : faultOfDedupe(job.dedupe)) ??
  at("dedupe", job.isExecution === true ? faultOfExecution(job.dedupe) : undefined) ??
  at("meta", job.meta === undefined ? undefined : faultOfMeta(job.meta)) ??
  at("subject", job.subject === undefined ? undefined : faultOfText(job.subject, subjectCharacters)) ??
  (job.onDead === undefined || job.onDead === computed ? undefined : faultOfFollowUp(job.onDead))

/**
 * Validates the follow-up on enqueue: it is stored when the job dies, in one statement with the ends of other jobs, and
 * must not make that statement fail.
 */
export const faultOfFollowUp = (followUp: FollowUp, field = "onDead"): Fault | undefined => {
  if (typeof followUp !== "object" || followUp === null)
    return [field, `must be otherJob.followUp(…), got ${shown(followUp)}`]
  const fault =
    at("kind", faultOfKind(followUp.kind)) ??
    at("queue", isPlainName(followUp.queue) ? undefined : plainNameRule) ??
    at("version", faultOfWhole(followUp.version, 1, 2_147_483_647)) ??
    at("attempts", faultOfWhole(followUp.attempts, 1, limits.attempts)) ??
    at("priority", faultOfPriority(followUp.priority ?? 0)) ??
    at("payload", followUp.payload === undefined ? "must be a JSON value" : undefined)
  return fault === undefined ? undefined : [`${field}.${fault[0]}`, fault[1]]
}

const absent = Either.right(null)

const metaOf = ({ meta, subject }: NewJob): NewJob["meta"] =>
  subject === undefined ? meta : { ...meta, ...subjectMeta(digestOf(subject)) }

/** The job with this subject, unless it has one. */
export const about =
  (own: SubjectDigest | undefined) =>
  (job: NewJob): NewJob =>
    own === undefined || job.subject !== undefined || subjectOf(job.meta) !== undefined
      ? job
      : { ...job, meta: { ...job.meta, ...subjectMeta(own) } }

/** Generates ids, and the time at which a job without a start time is due. */
interface Stamp {
  readonly ids: Pick<IdGenerator, "job">
  readonly now: number
}

export const admit = (job: NewJob, { ids, now }: Stamp, index = 0, jobs = 1): Either.Either<StampedJob, InvalidJob> => {
  const refuse = (field: string, reason: string) => Either.left(new InvalidJob({ index, jobs, field, reason }))
  const fault = faultOfFields(job)
  if (fault !== undefined) return refuse(...fault)
  const payload = jsonText(job.payload, limits.payloadBytes, job.payloadText)
  if (Either.isLeft(payload)) return refuse("payload", payload.left)
  const onDead = job.onDead === undefined ? absent : jsonText(job.onDead, limits.payloadBytes)
  if (Either.isLeft(onDead)) return refuse("onDead", onDead.left)
  const given = metaOf(job)
  const meta = given === undefined ? absent : jsonText(given, limits.resultBytes)
  if (Either.isLeft(meta)) return refuse("meta", meta.left)
  return Either.right({
    id: job.id ?? ids.job(now),
    queue: job.queue,
    kind: job.kind,
    version: job.version,
    payload: payload.right,
    attempts: job.attempts,
    priority: job.priority ?? 0,
    runAt: job.runAt === undefined ? now : Math.floor(job.runAt),
    key: job.key ?? null,
    dedupeKey: job.dedupe?.key ?? null,
    dedupeScope: job.dedupe === undefined ? null : scopeOf(job.dedupe),
    dedupeWindow: windowMillis(job.dedupe?.window),
    replace: job.dedupe?.replace ?? false,
    onDead: onDead.right,
    meta: meta.right,
    batch: job.batch ?? null,
    woken: job.isExecution === true ? 0 : null,
    isChild: job.isChild === true ? true : null,
    ownId: job.id !== undefined
  })
}

export const admitAll = (jobs: ReadonlyArray<NewJob>, by: Stamp): Either.Either<StampedJobs, InvalidJob> => {
  if (jobs.length === 0 || jobs.length > limits.batch) {
    const reason = `must contain 1 to ${limits.batch} jobs, got ${jobs.length}`
    return Either.left(new InvalidJob({ index: 0, field: "jobs", reason }))
  }
  const [only] = jobs
  if (only !== undefined && jobs.length === 1) return Either.map(admit(only, by), (job) => [job])
  const admitted: Array<StampedJob> = []
  const ids = new Set<string>()
  for (const [index, job] of jobs.entries()) {
    const result = admit(job, by, index, jobs.length)
    if (Either.isLeft(result)) return Either.left(result.left)
    const { id, ownId } = result.right
    if (ownId) {
      if (ids.has(id))
        return Either.left(
          new InvalidJob({ index, jobs: jobs.length, field: "id", reason: "is used twice in this request" })
        )
      ids.add(id)
    }
    admitted.push(result.right)
  }
  return Either.right(admitted)
}

/** Whether the job needs the wide insert, because it may conflict or has additional columns. */
export const hasExtras = (job: StampedJob) =>
  job.ownId ||
  job.dedupeKey !== null ||
  job.key !== null ||
  job.onDead !== null ||
  job.meta !== null ||
  job.batch !== null ||
  job.woken !== null ||
  job.isChild !== null

/**
 * Whether all jobs share kind, queue and settings. Most batches do, and the repeated names would be half of the data
 * sent.
 */
export const isUniform = (jobs: StampedJobs) => {
  const first = jobs[0]
  return (
    first !== undefined &&
    jobs.every(
      (job) =>
        job.kind === first.kind &&
        job.queue === first.queue &&
        job.version === first.version &&
        job.priority === first.priority &&
        job.attempts === first.attempts
    )
  )
}

/** Maximum JSON text per statement: PostgreSQL rejects arrays of 256 MiB, and memory is limited on both ends. */
export const statementCharacters = 16 * 1024 * 1024

/**
 * A batch's weight is its job count or its text size in units, whichever is larger, so it is full by count or by size.
 */
export const batchWeight = 2_000
const charactersPerUnit = statementCharacters / batchWeight

export const charactersOf = ({ meta, onDead, payload }: StampedJob) =>
  payload.length + (onDead?.length ?? 0) + (meta?.length ?? 0)

export const weightOf = (jobs: StampedJobs): number => {
  let characters = 0
  for (const job of jobs) characters += charactersOf(job)
  return Math.max(jobs.length, characters / charactersPerUnit)
}
