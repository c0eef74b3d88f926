import { limits } from "../../../core/StoredJob.js"
import type { JobRow } from "../../../queue/JobRowMemory.js"
import type { NewJob } from "../../../queue/NewJob.js"
import type { Enqueued } from "../../../queue/Queue.js"
import { endOf } from "../HistoryEntry.js"
import type { Finding, Invariant } from "../Invariant.js"

export const kept: Invariant = {
  name: "kept",
  promise: "an acknowledged enqueue is durable",
  atEnd: ({ acknowledged, rows, trace }) =>
    [...acknowledged].flatMap(
      (job): ReadonlyArray<Finding> =>
        rows.has(job) ? [] : [{ job, found: `${trace.nameOf(job)} was acknowledged but does not exist` }]
    )
}

export const ran: Invariant = {
  name: "ran",
  promise: "a job is done only if its handler returned",
  onChange: ({ after, before }, history) => {
    if (after?.status !== "done" || before?.status === "done") return undefined
    const ended = history.runs.some(({ how, job }) => job === after.id && how === "returned")
    return ended ? undefined : `${history.nameOf(after.id)} is done, but no run of its handler has returned`
  }
}

export const attemptsBounded: Invariant = {
  name: "attempts",
  promise: "attempts never exceed the maximum",
  onChange: ({ call, after, before }, history) => {
    if (after === undefined) return undefined
    const { attempt, id, attempts, status } = after
    if (attempt > attempts) return `${history.nameOf(id)} is at attempt ${attempt} of ${attempts}`
    if (call?.call !== "Queue.finalize" || status !== "pending" || before === undefined) return undefined
    const end = endOf(call, before)?.end
    // The next runs of a dying execution only undo its steps, and have their own attempts.
    if (end?._tag === "Again" && end.dying !== undefined) return undefined
    const used = (history.attempts.get(id) ?? 0) + (end?._tag === "Again" && end.counted ? 1 : 0)
    return used >= attempts ? `${history.nameOf(id)} has failed ${used} of ${attempts} times but is retried` : undefined
  }
}

export const historyKept: Invariant = {
  name: "history",
  promise: "every run that did not succeed is in the job's history",
  onChange: ({ call, after, before }, history) => {
    if (after === undefined || before?.status !== "running" || after.status === "running" || after.status === "done")
      return undefined
    if (call === undefined || call.call.startsWith("JobAdmin.")) return undefined
    const end = call.call === "Queue.finalize" ? endOf(call, before)?.end : undefined
    if (end?._tag === "Suspended" || (end?._tag === "Again" && end.remember === undefined)) return undefined
    const grew = after.history.length > before.history.length || after.history.length >= limits.historyEntries
    return grew
      ? undefined
      : `${call.call} of ${call.who} made ${history.nameOf(after.id)} ${after.status} without a history entry`
  }
}

const holds = ({ dedupe, finishedAt }: JobRow) =>
  dedupe !== undefined && (dedupe.scope === "retained" || finishedAt === undefined)

/** Checks both rows and requests: a dedupe key that was lost is in no row. */
export const oncePerKey: Invariant = {
  name: "dedupe",
  promise: "at most one job holds a dedupe key",
  onChange: ({ after }, history) => {
    if (after === undefined || !holds(after)) return undefined
    const duplicate = [...history.rows.values()].find(
      (row) => row.id !== after.id && row.dedupe?.key === after.dedupe?.key && holds(row)
    )
    return duplicate === undefined
      ? undefined
      : `${history.nameOf(after.id)} and ${history.nameOf(duplicate.id)} both hold "${after.dedupe?.key}"`
  },
  onAnswer: (call, answer, history) => {
    if (call.call !== "Queue.enqueue") return []
    const stored = answer as ReadonlyArray<Enqueued>
    return (call.args[0] as ReadonlyArray<NewJob>).flatMap(({ dedupe }, index): ReadonlyArray<Finding> => {
      const fresh = stored[index]
      const holder = dedupe === undefined ? undefined : history.holders.get(dedupe.key)
      if (dedupe === undefined || holder === undefined || fresh === undefined || !history.isNewBy(call, fresh.id))
        return []
      const holderRow = history.rows.get(holder.id)
      const isStored = holderRow !== undefined && !history.erased.has(holder.id)
      const isHeld = isStored && (holder.scope === "retained" || holderRow.finishedAt === undefined)
      return isHeld
        ? [
            {
              job: fresh.id,
              found: `${history.nameOf(fresh.id)} was enqueued although ${history.nameOf(holder.id)} holds "${dedupe.key}"`
            }
          ]
        : []
    })
  }
}

export const drains: Invariant = {
  name: "drains",
  promise: "after the last fault, every job finishes without intervention",
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
