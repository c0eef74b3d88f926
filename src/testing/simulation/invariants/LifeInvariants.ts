import { limits } from "../../../core/Job.js"
import type { NewJob } from "../../../queue/intake/NewJob.js"
import type { JobRow } from "../../../queue/JobRowMemory.js"
import type { Enqueued } from "../../../queue/Queue.js"
import { endOf } from "../Facts.js"
import type { Finding, Invariant } from "../Invariant.js"

/** 1 */
export const kept: Invariant = {
  name: "kept",
  promise: "an enqueue that was answered stands",
  atEnd: ({ acknowledged, rows, trace }) =>
    [...acknowledged].flatMap(
      (job): ReadonlyArray<Finding> =>
        rows.has(job) ? [] : [{ job, found: `${trace.nameOf(job)} was answered as stored and is not there` }]
    )
}

/** 3 */
export const ran: Invariant = {
  name: "ran",
  promise: "a job is done only when its handler ran to its end",
  onChange: ({ after, before }, facts) => {
    if (after?.status !== "done" || before?.status === "done") return undefined
    const ended = facts.runs.some(({ how, job }) => job === after.id && how === "returned")
    return ended ? undefined : `${facts.nameOf(after.id)} is done and no handler of it has returned`
  }
}

/** 5 */
export const attemptsBounded: Invariant = {
  name: "attempts",
  promise: "attempts never exceed the maximum",
  onChange: ({ act, after, before }, facts) => {
    if (after === undefined) return undefined
    const { attempt, id, maxAttempts, status } = after
    if (attempt > maxAttempts) return `${facts.nameOf(id)} is at attempt ${attempt} of ${maxAttempts}`
    if (act?.call !== "Queue.finalize" || status !== "pending" || before === undefined) return undefined
    const end = endOf(act, before)?.end
    const used = (facts.attempts.get(id) ?? 0) + (end?._tag === "Again" && end.counted ? 1 : 0)
    return used >= maxAttempts
      ? `${facts.nameOf(id)} has failed ${used} times of ${maxAttempts} and is to be tried again`
      : undefined
  }
}

/** 5 */
export const historyKept: Invariant = {
  name: "history",
  promise: "a run that did not simply succeed is in the job's history",
  onChange: ({ act, after, before }, facts) => {
    if (after === undefined || before?.status !== "running" || after.status === "running" || after.status === "done")
      return undefined
    if (act === undefined || act.call.startsWith("JobDesk.")) return undefined
    const end = act.call === "Queue.finalize" ? endOf(act, before)?.end : undefined
    if (end?._tag === "Again" && end.remember === undefined) return undefined
    const grew = after.history.length > before.history.length || after.history.length >= limits.historyEntries
    return grew
      ? undefined
      : `${act.call} of ${act.who} made ${facts.nameOf(after.id)} ${after.status}, and its history does not tell`
  }
}

const holds = ({ dedupe, finishedAt }: JobRow) =>
  dedupe !== undefined && (dedupe.scope === "retained" || finishedAt === undefined)

/** 7. Once by what the rows say, and once by what was asked: a key that was forgotten on the way is in no row. */
export const oncePerKey: Invariant = {
  name: "dedupe",
  promise: "there is one job per dedupe key in its scope",
  onChange: ({ after }, facts) => {
    if (after === undefined || !holds(after)) return undefined
    const twin = [...facts.rows.values()].find(
      (row) => row.id !== after.id && row.dedupe?.key === after.dedupe?.key && holds(row)
    )
    return twin === undefined
      ? undefined
      : `${facts.nameOf(after.id)} and ${facts.nameOf(twin.id)} both hold "${after.dedupe?.key}"`
  },
  onAnswer: (act, answer, facts) => {
    if (act.call !== "Queue.enqueue") return []
    const stored = answer as ReadonlyArray<Enqueued>
    return (act.args[0] as ReadonlyArray<NewJob>).flatMap(({ dedupe }, index): ReadonlyArray<Finding> => {
      const fresh = stored[index]
      const holder = dedupe === undefined ? undefined : facts.holders.get(dedupe.key)
      if (dedupe === undefined || holder === undefined || fresh === undefined || !facts.isNewBy(act, fresh.id))
        return []
      const standing = facts.rows.get(holder.id)
      const isHeld = standing !== undefined && (holder.scope === "retained" || standing.finishedAt === undefined)
      return isHeld
        ? [
            {
              job: fresh.id,
              found: `${facts.nameOf(fresh.id)} was stored beside ${facts.nameOf(holder.id)}, which holds "${dedupe.key}"`
            }
          ]
        : []
    })
  }
}

/** 12 */
export const drains: Invariant = {
  name: "drains",
  promise: "once nothing goes wrong any more, every job comes to its end without anyone's help",
  atEnd: ({ ending, rows, trace }) =>
    [...rows.values()].flatMap(
      ({ id, status }): ReadonlyArray<Finding> =>
        status === "done" || status === "dead"
          ? []
          : [
              {
                job: id,
                found: `${trace.nameOf(id)} is still ${status} ${(ending?.waited ?? 0) / 1000} s after the last fault`
              }
            ]
    )
}
