import { Duration, Schema } from "effect"
import * as ErrorText from "../../core/ErrorText.js"
import { type PodId, shortPod } from "../../core/Ids.js"
import * as Outcome from "../../core/Outcome.js"
import { suggestion } from "../../core/Spelling.js"
import * as StepName from "../../core/StepName.js"
import type { DeadReason, StoredJob } from "../../core/StoredJob.js"
import { erasedAtOf } from "../../core/Subject.js"
import { never } from "../../core/Suspension.js"
import type { QueueSettings } from "../settings/QueueSettings.js"
import type { OpenWait, Standing } from "./JobDiagnosis.js"
import type { Why } from "./Reason.js"
import * as Reasons from "./Reason.js"

// Explains why a job is not running. Pure: the same facts give the same answer. If several reasons apply, the first in
// this order is returned: the queue is paused, which only an operator can end; the job is not due; no pod can run it;
// and then the temporary reasons, from pauses of the whole queue down to the job's position in the queue.

export const Reason = Schema.Literal(...Reasons.reasons)
export type Reason = Reasons.Reason
export type { Why }

/** What is known about a live pod. */
interface LivePod {
  readonly id: PodId
  readonly label: string | undefined
  readonly queues: ReadonlyArray<string>
  readonly kinds: ReadonlyArray<string>
  readonly slots: ReadonlyArray<{ readonly queue: string; readonly have: number; readonly busy: number }>
  readonly draining: boolean
}

export interface Facts {
  readonly standing: Standing
  readonly pods: ReadonlyArray<LivePod>
  /** The current state of the limit that throttled the job. */
  readonly limit: { readonly tokens: number; readonly capacity: number } | undefined
  /** Time without a heartbeat after which a running job is rescued. */
  readonly staleAfter: Duration.Duration
}

const why = (reason: Reason, detail: string, until?: number): Why => ({ reason, detail, until })

const deaths: Readonly<Record<Exclude<DeadReason, "cancelled">, (job: StoredJob) => string>> = {
  exhausted: ({ attempts }) =>
    `${attempts === 1 ? "Its one attempt" : `All its ${attempts} attempts`} failed. Fix the cause, then requeue it.`,
  rejected: () => "Its handler rejected it permanently. Requeue it if the cause is fixed.",
  undecodable: () => "No version of its kind can decode its payload. Deploy code that can, then requeue it.",
  unknown_kind: () => "No process had a handler for its kind for a day. Deploy code that has one, then requeue it.",
  poison: ({ crashCount }) =>
    `Its process died ${crashCount} times while the job ran, so the job was quarantined. Find the cause before you requeue it.`,
  not_undone: () =>
    "It ended, but not all of its steps are undone. Undo the steps that its last error names manually, or fix the cause and retry the execution."
}

/** The first line of the last error, as a sentence. */
const errorText = ({ lastError }: StoredJob): string => {
  const line = lastError === undefined ? undefined : ErrorText.headline(lastError).replace(/\.+$/, "")
  return line === undefined || line === "" ? "" : ` Last error: ${line}.`
}

/** Says so if the data of an ended job was erased: every other advice would be to run it again. */
const erased = ({ meta }: StoredJob): string | undefined => {
  const at = erasedAtOf(meta)
  return at === undefined
    ? undefined
    : `Its data was erased on ${new Date(at).toISOString().slice(0, 10)}, so it cannot run again.`
}

const ofDead = (job: StoredJob): Why =>
  job.reason === undefined || job.reason === "cancelled"
    ? why("cancelled", erased(job) ?? "It was cancelled. Requeue it if it should run after all.")
    : why("dead", erased(job) ?? `${deaths[job.reason](job)}${errorText(job)}`)

const ofRunning = ({ pods, staleAfter, standing: { job } }: Facts): Why => {
  const pod = pods.find(({ id }) => id === job.pod)
  const name = pod?.label ?? (job.pod === undefined ? "unknown" : shortPod(job.pod))
  if (pod === undefined) {
    const until = (job.heartbeatAt ?? job.updatedAt) + Duration.toMillis(staleAfter)
    const next = job.cancelRequestedAt === undefined ? "is returned to the queue" : "is cancelled as requested"
    return why("running", `Its process ${name} sends no heartbeat; unless it resumes, the job ${next}.`, until)
  }
  return job.cancelRequestedAt === undefined
    ? why("running", `It runs in process ${name}.`)
    : why("running", `It runs in process ${name}. It was asked to stop and has not stopped yet.`)
}

/** The outcome of the last attempt, if the job has not changed since. */
const lastEnd = ({ history, updatedAt }: StoredJob) => {
  const last = history.at(-1)
  return last?.endedAt === updatedAt ? last.outcome : undefined
}

/** Returns the limit that throttled the job's last attempt. */
export const limitOf = (job: StoredJob): string | undefined => {
  const end = lastEnd(job)
  return end === undefined ? undefined : Outcome.throttledBy(end)
}

const round = (tokens: number) => Math.floor(tokens * 10) / 10

const ofLimit = (scope: string, limit: Facts["limit"], until: number): Why => {
  const holds = limit === undefined ? "" : ` It now has ${round(limit.tokens)} of ${limit.capacity} tokens.`
  return why(
    "rate_limited",
    `Limit "${scope}" had no token for it.${holds} Raise the limit if the upstream allows more.`,
    until
  )
}

/** What a suspended execution waits for. The first that an operator can do something about is named. */
const ofWaits = ({ job, leftTo, waits }: Standing): Why | undefined => {
  const find = (kind: OpenWait["kind"]) => waits.find((wait) => wait.kind === kind)
  const until = job.runAt < never ? job.runAt : undefined
  if (leftTo !== undefined) {
    const advice = `Start a process with that release, or unpin it: nightshift workflows unpin ${job.execution ?? job.id}`
    return why("pinned", `It is pinned to release ${leftTo}, and other releases leave it alone. ${advice}.`, until)
  }
  const changed = find("changed")
  if (changed !== undefined) {
    const next = "Deploy code that follows the journal, or fork the execution."
    if (changed.name === "payload" && job.lastError?.includes("cannot decode the payload") === true) {
      return why("changed", `Its code cannot decode its payload.${errorText(job)}`, until)
    }
    return why("changed", `Its code no longer follows its journal at step "${changed.name}". ${next}`, until)
  }
  const children = find("children")
  if (children !== undefined) {
    const open = children.remaining === undefined ? "" : ` ${children.remaining} of them have not ended.`
    return why("waiting_for_child", `Its step "${children.name}" waits for children.${open}`, until)
  }
  const signal = find("signal")
  if (signal !== undefined) {
    const event = StepName.eventOf(signal.name)
    const what = event === undefined ? `the signal "${signal.name}"` : `the event "${event}"`
    return why("waiting_for_signal", `It waits for ${what}.`, until)
  }
  const limit = find("limit")
  if (limit !== undefined) return why("rate_limited", `Its step "${limit.name}" waits for its limit.`, until)
  const message = find("message")
  if (message !== undefined) {
    const name = StepName.signalOf(message.name)
    return why("waiting_for_signal", `It waits for the next value of the signal "${name}".`, until)
  }
  const ask = find("answer")
  if (ask !== undefined) return why("waiting_for_signal", `It waits for an ask "${ask.name}".`, until)
  const [first] = waits
  if (first === undefined) return undefined
  const what = first.kind === "retry" ? `the retry of step "${first.name}"` : `the end of "${first.name}"`
  return why("sleeping", `It sleeps until ${what}.`, until)
}

const ofLater = (facts: Facts): Why => {
  const { limit, standing } = facts
  const { job } = standing
  const waiting = ofWaits(standing)
  if (waiting !== undefined) return waiting
  const end = lastEnd(job)
  const scope = limitOf(job)
  if (scope !== undefined) return ofLimit(scope, limit, job.runAt)
  if (end === "throttled") {
    return why("cooling_down", "Its handler was throttled. Run it now if the upstream has recovered.", job.runAt)
  }
  if (end === "snoozed") return why("not_due", "Its handler snoozed it.", job.runAt)
  if (job.lastError === undefined) {
    return why("not_due", "It is scheduled for later. Run it now if it should not wait.", job.runAt)
  }
  if (wasReturned(job, job.lastError)) return ofReturned(facts, job.lastError)
  const failed = `Attempt ${job.attempt} of ${job.attempts} failed`
  return why("retrying", `${failed}, and the job waits for its retry. Run it now if the cause is fixed.`, job.runAt)
}

const serving = ({ pods, standing: { job } }: Facts) => pods.filter(({ queues }) => queues.includes(job.queue))

type PodSlots = Pick<LivePod, "queues" | "slots" | "draining">

/** The pods that serve a queue and are not stopping. */
const staying = <Pod extends PodSlots>(queue: string, pods: ReadonlyArray<Pod>): ReadonlyArray<Pod> =>
  pods.filter(({ draining, queues }) => !draining && queues.includes(queue))

/** The slots of a queue in these pods. */
const slotsOf = (queue: string, pods: ReadonlyArray<PodSlots>) => {
  const slots = staying(queue, pods).flatMap((pod) => pod.slots.filter((of) => of.queue === queue))
  const sum = (field: "have" | "busy") => slots.reduce((total, of) => total + of[field], 0)
  return { have: sum("have"), busy: sum("busy") }
}

/** A pod that returns a job it cannot run sets the last error, restores the attempt and adds no history entry. */
const wasReturned = ({ attempt, history }: StoredJob, lastError: string): boolean => {
  if (attempt === 0) return true
  const failed = history.findLast(({ message }) => message !== undefined)
  return failed !== undefined && failed.message !== lastError
}

/** The job waits because a pod could not run it. Names the pods that serve the queue without the handler, if any do. */
const ofReturned = (facts: Facts, lastError: string): Why => {
  const { kind, queue, runAt } = facts.standing.job
  const without = staying(queue, facts.pods).filter(({ kinds }) => !kinds.includes(kind))
  const [first] = without
  if (first === undefined) {
    const cause = ErrorText.headline(lastError).replace(/\.$/, "")
    return why("retrying", `A process returned it to the queue: ${cause}. Run it now if the cause is fixed.`, runAt)
  }
  const name = first.label ?? shortPod(first.id)
  const pods =
    without.length === 1 ? `Process ${name} serves` : `${without.length} processes, among them ${name}, serve`
  const cause = `${pods} queue "${queue}" without a handler for the kind "${kind}" and returned it.`
  return why(
    "unknown_kind",
    `${cause} Add the handler there, or start that process with other --queues (or --queues none).`,
    runAt
  )
}

/** How to get pods for queues that have none. */
export const startAdvice = (queues: ReadonlyArray<string>): string =>
  `Start your worker, or run \`nightshift serve --app <module> --queues ${queues.join(",")}\`.`

const idleText = (pods: Facts["pods"]): string => {
  const idle = pods.filter(({ queues }) => queues.length === 0).length
  if (idle === 0) return ""
  return `; ${idle === 1 ? "1 live process serves" : `${idle} live processes serve`} no queue (--queues none)`
}

const similarKind = (kind: string, pods: Facts["pods"]): string =>
  suggestion(kind, new Set(pods.flatMap(({ kinds }) => kinds)))

/** Checks that a live pod serves the queue and has a handler for the kind. */
const ofNobody = (facts: Facts): Why | undefined => {
  const { kind, queue } = facts.standing.job
  const there = staying(queue, facts.pods)
  if (there.length === 0) {
    const nobody =
      serving(facts).length > 0
        ? `Every process that serves queue "${queue}" is stopping`
        : `No live process serves queue "${queue}"${idleText(facts.pods)}`
    return why("no_pod", `${nobody}. ${startAdvice([queue])}`)
  }
  if (there.some(({ kinds }) => kinds.includes(kind))) return undefined
  const elsewhere = facts.pods.some((pod) => !pod.draining && pod.queues.length > 0 && pod.kinds.includes(kind))
  const advice = elsewhere
    ? "A process that serves other queues has one: let it serve this queue too."
    : "Start a process that has one."
  const missing = `No process that serves queue "${queue}" has a handler for the kind "${kind}".`
  return why("unknown_kind", `${missing}${elsewhere ? "" : similarKind(kind, facts.pods)} ${advice}`)
}

const ofPause = ({ cooling, job, keyCoolingUntil, rated }: Standing): Why | undefined => {
  if (cooling !== undefined) {
    const times = cooling.times > 1 ? `, ${cooling.times} times in a row` : ""
    const advice = "End the cool-down in the queue's settings if the upstream has recovered."
    return why(
      "cooling_down",
      `Queue "${job.queue}" is cooling down because one of its jobs was throttled${times}. ${advice}`,
      cooling.until
    )
  }
  if (keyCoolingUntil !== undefined) {
    return why(
      "cooling_down",
      "A job with the same key was throttled, so all jobs with this key wait.",
      keyCoolingUntil
    )
  }
  if (rated === undefined) return undefined
  const most = `${rated.rate.jobs} ${rated.rate.jobs === 1 ? "job" : "jobs"} in ${Duration.format(rated.rate.per)}`
  return why(
    "rate_limited",
    `Queue "${job.queue}" has reached its rate of ${most}. Raise the rate if that is too slow.`,
    rated.opensAt
  )
}

const ofKey = ({ held }: Standing): Why | undefined => {
  if (held === undefined) return undefined
  if (held.cause === "busy") {
    return why("key_busy", `Job ${held.by} with the same key is running, and the key's concurrency limit is reached.`)
  }
  const waits = held.until === undefined ? "" : ", and waits for its retry"
  return why("key_order", `Job ${held.by} with the same key comes first${waits}.`, held.until)
}

const ofSlots = (facts: Facts): Why => {
  const { ahead, job, keyed, maxWorkers } = facts.standing
  const { busy, have } = slotsOf(job.queue, facts.pods)
  if (maxWorkers === 0) {
    return why("waiting_for_slot", `Queue "${job.queue}" has a worker total of 0. Scale the queue up to start the job.`)
  }
  if (busy < have && ahead.count === 0) {
    return why("waiting_for_slot", "It is next in line and a slot is free, so it starts in a moment.")
  }
  const place = ahead.exact ? `number ${ahead.count + 1}` : `behind more than ${ahead.count} others`
  const turns = keyed ? " (keys take turns, so it may come sooner)" : ""
  return why(
    "waiting_for_slot",
    `It is ${place} in line${turns}; ${busy} of ${have} slots of queue "${job.queue}" are busy. Scale the queue up if that is too slow.`
  )
}

const ofPending = (facts: Facts): Why => {
  const { standing } = facts
  const { job, now, paused } = standing
  if (paused) {
    return why("paused", `Queue "${job.queue}" is paused. None of its jobs start until you resume it.`)
  }
  const nobody = ofNobody(facts)
  // A pod without a handler returns the job to the queue with a delay. The missing handler is the better explanation.
  if (job.runAt > now) return nobody?.reason === "unknown_kind" && job.lastError !== undefined ? nobody : ofLater(facts)
  return nobody ?? ofPause(standing) ?? ofKey(standing) ?? ofSlots(facts)
}

/**
 * Why due jobs of a queue do not start, derived only from the queue's settings and the pods, in the order of `judge`.
 * Whether the rate or a key delays the jobs is not known, so these are the reason only while slots are free. Undefined
 * if nothing delays the jobs.
 */
export const reasonOfQueue = (
  queue: string,
  settings: Pick<QueueSettings, "paused" | "throttledUntil" | "rate" | "perKey"> | undefined,
  pods: ReadonlyArray<PodSlots>,
  now: number
) => {
  if (settings?.paused === true) return "paused"
  if (staying(queue, pods).length === 0) return "no_pod"
  if ((settings?.throttledUntil ?? 0) > now) return "cooling_down"
  const { busy, have } = slotsOf(queue, pods)
  if (busy >= have) return "waiting_for_slot"
  if (settings?.rate !== undefined) return "rate_limited"
  return settings?.perKey === undefined ? undefined : "key_busy"
}

/** Returns the most important reason. */
export const judge = (facts: Facts): Why => {
  const { job } = facts.standing
  switch (job.state) {
    case "scheduled":
    case "retrying":
    case "pending":
      return ofPending(facts)
    case "running":
      return ofRunning(facts)
    case "done":
      return why("done", erased(job) ?? "It is done. Requeue it to run it again.")
    case "dead":
    case "cancelled":
      return ofDead(job)
  }
}
