import { Duration, Schema } from "effect"
import type { StoredPod } from "../../cluster/Pods.js"
import * as Outcome from "../../core/Outcome.js"
import type { DeadReason, StoredJob } from "../../core/StoredJob.js"
import type { LimitState } from "../../limits/Limit.js"
import type { Standing } from "../../queue/why/JobDiagnosis.js"

// Why a job does not run, as a value. Pure: the same facts give the same answer. Several reasons may hold at a time; the answer
// is the one to begin with: a pause, which only a person ends; that its time has not come; that nobody could run it; and then
// what passes by itself, from pauses of many jobs down to its own place in the line.

/** Every reason there is. */
export const Reason = Schema.Literal(
  "paused",
  "not_due",
  "retrying",
  "cooling_down",
  "rate_limited",
  "no_pod",
  "unknown_kind",
  "key_busy",
  "key_order",
  "waiting_for_slot",
  "running",
  "done",
  "dead",
  "cancelled"
)
export type Reason = typeof Reason.Type

/** Why a job stands where it stands. */
export interface Why {
  readonly reason: Reason
  /** For people: what is so, and what to do about it. */
  readonly detail: string
  /** When this reason ends by itself, in epoch milliseconds, where that is known. */
  readonly until: number | undefined
}

export interface Facts {
  readonly standing: Standing
  /** Those that live. */
  readonly pods: ReadonlyArray<Pick<StoredPod, "id" | "label" | "queues" | "kinds" | "slots" | "draining">>
  /** The limit that sent the job away, as it is now. */
  readonly limit: LimitState | undefined
  /** How long a running job may show no sign of life. */
  readonly staleAfter: Duration.Duration
}

const why = (reason: Reason, detail: string, until?: number): Why => ({ reason, detail, until })

const deaths: Readonly<Record<Exclude<DeadReason, "cancelled">, (job: StoredJob) => string>> = {
  exhausted: ({ maxAttempts }) =>
    `${maxAttempts === 1 ? "Its one attempt" : `All its ${maxAttempts} attempts`} failed. Requeue it when the cause is mended.`,
  rejected: () => "Its handler said that it can never succeed. Requeue it if that has changed.",
  undecodable: () => "No version of its kind reads its payload. Deploy code that does, then requeue it.",
  unknown_kind: () => "No pod knew its kind for a day. Deploy one that does, then requeue it.",
  poison: ({ crashCount }) =>
    `Its pod died ${crashCount} times while it ran, so it is kept apart. Find out why before you requeue it.`
}

const ofDead = (job: StoredJob): Why =>
  job.deadReason === undefined || job.deadReason === "cancelled"
    ? why("cancelled", "It was cancelled. Requeue it if it should run after all.")
    : why("dead", deaths[job.deadReason](job))

const ofRunning = ({ pods, staleAfter, standing: { job } }: Facts): Why => {
  const pod = pods.find(({ id }) => id === job.pod)
  const name = pod?.label ?? job.pod ?? "unknown"
  if (pod === undefined) {
    const until = (job.heartbeatAt ?? job.updatedAt) + Duration.toMillis(staleAfter)
    const next = job.cancelRequestedAt === undefined ? "is given to another" : "ends, as it was asked to"
    return why("running", `Its pod ${name} shows no sign of life; without one the job ${next}.`, until)
  }
  return job.cancelRequestedAt === undefined
    ? why("running", `It runs on pod ${name}.`)
    : why("running", `It runs on pod ${name}, was asked to stop and has not stopped yet.`)
}

/** How the last attempt ended, if nothing happened to the job since. */
const lastEnd = ({ history, updatedAt }: StoredJob) => {
  const last = history.at(-1)
  return last?.endedAt === updatedAt ? last.outcome : undefined
}

/** The limit that sent the job away the last time it ran. */
export const limitOf = (job: StoredJob): string | undefined => {
  const end = lastEnd(job)
  return end === undefined ? undefined : Outcome.throttledBy(end)
}

const round = (tokens: number) => Math.floor(tokens * 10) / 10

const ofLimit = (scope: string, limit: LimitState | undefined, until: number): Why => {
  const holds = limit === undefined ? "" : ` Now it holds ${round(limit.tokens)} of ${limit.capacity}.`
  return why(
    "rate_limited",
    `Limit "${scope}" had no token for it.${holds} Tune the limit if the upstream bears more.`,
    until
  )
}

const ofLater = ({ limit, standing: { job } }: Facts): Why => {
  const end = lastEnd(job)
  const scope = limitOf(job)
  if (scope !== undefined) return ofLimit(scope, limit, job.runAt)
  if (end === "throttled") {
    return why("cooling_down", "Its handler was throttled. Run it now if the upstream has recovered.", job.runAt)
  }
  if (end === "snoozed") return why("not_due", "Its handler wants to be called again later.", job.runAt)
  if (job.lastError === undefined) {
    return why("not_due", "It is meant for later. Run it now if it should not wait.", job.runAt)
  }
  const failed = job.attempt === 0 ? "It was put back" : `Attempt ${job.attempt} of ${job.maxAttempts} failed`
  return why("retrying", `${failed} and waits for the next try. Run it now if the cause is mended.`, job.runAt)
}

const serving = ({ pods, standing: { job } }: Facts) => pods.filter(({ queues }) => queues.includes(job.queue))

/** Where nobody could run it, whatever else is in its way. */
const ofNobody = (facts: Facts): Why | undefined => {
  const { kind, queue } = facts.standing.job
  const there = serving(facts)
  const staying = there.filter(({ draining }) => !draining)
  if (staying.length === 0) {
    const nobody =
      there.length > 0 ? `Every pod that serves queue "${queue}" is stopping` : `No live pod serves queue "${queue}"`
    return why("no_pod", `${nobody}. Start one with --queues ${queue}.`)
  }
  if (staying.some(({ kinds }) => kinds.includes(kind))) return undefined
  const elsewhere = facts.pods.some((pod) => !pod.draining && pod.kinds.includes(kind))
  const advice = elsewhere ? "A pod that serves other queues does: let it serve this one." : "Deploy one that does."
  return why("unknown_kind", `No pod that serves queue "${queue}" has a handler for the kind "${kind}". ${advice}`)
}

const ofPause = ({ cooling, job, keyCoolingUntil, rated }: Standing): Why | undefined => {
  if (cooling !== undefined) {
    const times = cooling.times > 1 ? `, ${cooling.times} times in a row` : ""
    const advice = "End the cool-down in its settings if the upstream has recovered."
    return why(
      "cooling_down",
      `Queue "${job.queue}" cools down: a job of it was throttled${times}. ${advice}`,
      cooling.until
    )
  }
  if (keyCoolingUntil !== undefined) {
    return why("cooling_down", "A job of its key was throttled, and all jobs of the key wait.", keyCoolingUntil)
  }
  if (rated === undefined) return undefined
  const most = `${rated.rate.jobs} ${rated.rate.jobs === 1 ? "job" : "jobs"} in ${Duration.format(rated.rate.per)}`
  return why(
    "rate_limited",
    `Queue "${job.queue}" begins at most ${most}, and has. Raise its rate if that is too slow.`,
    rated.opensAt
  )
}

const ofKey = ({ held }: Standing): Why | undefined => {
  if (held === undefined) return undefined
  if (held.cause === "busy") {
    return why("key_busy", `Job ${held.by} of the same key runs, and no more of a key may run at a time.`)
  }
  const waits = held.until === undefined ? "" : ", and waits for its own next try"
  return why("key_order", `Job ${held.by} of the same key comes first${waits}.`, held.until)
}

const ofSlots = (facts: Facts): Why => {
  const { ahead, job, keyed, maxWorkers } = facts.standing
  const slots = serving(facts)
    .filter(({ draining }) => !draining)
    .flatMap((pod) => pod.slots.filter(({ queue }) => queue === job.queue))
  const sum = (field: "have" | "busy") => slots.reduce((total, of) => total + of[field], 0)
  const [have, busy] = [sum("have"), sum("busy")]
  if (maxWorkers === 0) {
    return why("waiting_for_slot", `Queue "${job.queue}" has a worker total of 0: scale it up and the job begins.`)
  }
  if (busy < have && ahead.count === 0) {
    return why("waiting_for_slot", "It is the next in line and a slot is free: it begins in a moment.")
  }
  const place = ahead.exact ? `number ${ahead.count + 1}` : `behind more than ${ahead.count} others`
  const turns = keyed ? " (keys take turns, so it may come sooner)" : ""
  return why(
    "waiting_for_slot",
    `It is ${place} in line${turns}; ${busy} of ${have} slots of queue "${job.queue}" are busy. Scale it up if that is too slow.`
  )
}

const ofPending = (facts: Facts): Why => {
  const { standing } = facts
  const { job, now, paused } = standing
  if (paused) {
    return why("paused", `Queue "${job.queue}" is paused: nothing of it begins until somebody resumes it.`)
  }
  const nobody = ofNobody(facts)
  // A pod that has no handler for a job puts it back for a while, which tells less than that nobody has one.
  if (job.runAt > now) return nobody?.reason === "unknown_kind" && job.lastError !== undefined ? nobody : ofLater(facts)
  return nobody ?? ofPause(standing) ?? ofKey(standing) ?? ofSlots(facts)
}

/** The one answer. */
export const judge = (facts: Facts): Why => {
  const { job } = facts.standing
  switch (job.status) {
    case "pending":
      return ofPending(facts)
    case "running":
      return ofRunning(facts)
    case "done":
      return why("done", "It is done. Requeue it if it should run once more.")
    case "dead":
      return ofDead(job)
  }
}
