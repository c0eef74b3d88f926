import type { JobRow } from "../../../queue/JobRowMemory.js"
import type { History } from "../History.js"
import type { Finding, Invariant } from "../Invariant.js"
import { accepts } from "../PushEndpoint.js"
import { kinds, upstream } from "../Workload.js"
import { overflow } from "./ClaimInvariants.js"

/** Jobs of a kind. Those that are erased, as they were before. */
const ofKind = ({ erased, rows }: History, kind: string): ReadonlyArray<JobRow> =>
  [...rows.values()].map((row) => erased.get(row.id) ?? row).filter((row) => row.kind === kind)

const childWithParent: Invariant = {
  name: "rollback",
  promise: "a job enqueued in a transaction exists if and only if the transaction committed",
  atEnd: (history) =>
    ofKind(history, kinds.parent).flatMap((parent): ReadonlyArray<Finding> => {
      const children = ofKind(history, kinds.child).filter(({ payload }) => payload === parent.payload).length
      const due = parent.status === "done" ? 1 : 0
      // A requeued job runs its transaction again.
      const isRepeated = history.trace.about(parent.id).some(({ what }) => what.includes("done -> pending"))
      return children === due || isRepeated
        ? []
        : [{ job: parent.id, found: `${history.nameOf(parent.id)} is ${parent.status} and has ${children} children` }]
    })
}

const tokens: Invariant = {
  name: "token limit",
  promise: "tokens are never granted faster than their rate limit",
  atEnd: ({ clockSteps, grants }) => {
    const bucket = { capacity: upstream.capacity * (1 + clockSteps), perMilli: upstream.rate / 1000 }
    const found = overflow(
      grants.filter(({ scope }) => scope === upstream.scope).map(({ at }) => at),
      bucket
    )
    return found === undefined ? [] : [{ found: `tokens granted from "${upstream.scope}": ${found}` }]
  }
}

const obituaries: Invariant = {
  name: "follow-up",
  promise: "each death of a job with a follow-up enqueues it once, unless an operator cancelled the job",
  atEnd: (history) =>
    ofKind(history, kinds.plain).flatMap((dead): ReadonlyArray<Finding> => {
      const deaths = history.trace
        .about(dead.id)
        .filter(({ what, who }) => who !== "checker" && / -> dead \((?!cancelled)/.test(what)).length
      const stored = ofKind(history, kinds.obituary).filter(
        ({ meta }) => meta !== undefined && JSON.parse(meta).follows === dead.id
      ).length
      return stored === deaths
        ? []
        : [{ job: dead.id, found: `${history.nameOf(dead.id)} died ${deaths} times and has ${stored} follow-ups` }]
    })
}

const webhooks: Invariant = {
  name: "webhook",
  promise: "an acknowledged webhook is stored as one job, however often it is delivered",
  atEnd: (history) =>
    [...history.delivered].flatMap(([id, job]): ReadonlyArray<Finding> => {
      const stored = ofKind(history, kinds.webhook).filter(
        ({ meta }) => meta !== undefined && JSON.parse(meta).delivery === id
      ).length
      return stored === 1 && history.rows.has(job) ? [] : [{ job, found: `${id} is stored as ${stored} jobs` }]
    })
}

const events: Invariant = {
  name: "event",
  promise: "an acknowledged event makes one job for each subscriber, however often it is published",
  atEnd: (history) =>
    [...history.published].flatMap(([id, n]): ReadonlyArray<Finding> => {
      const counts = kinds.subscribers.map(
        (kind) => ofKind(history, kind).filter(({ payload }) => JSON.parse(payload).n === n).length
      )
      return counts.every((count) => count === 1) ? [] : [{ found: `${id} has ${counts.join(" and ")} jobs` }]
    })
}

const inbox: Invariant = {
  name: "uploads",
  promise: "a stored file stays in the inbox until it is acknowledged, and not longer",
  atEnd: ({ ending, uploads }) =>
    [...uploads].flatMap(([id, state]): ReadonlyArray<Finding> => {
      if (ending === undefined || ending.inbox.has(id) === (state === "stored")) return []
      return [{ found: state === "stored" ? `upload ${id} is lost` : `upload ${id} is acknowledged and still listed` }]
    })
}

const pushed: Invariant = {
  name: "push",
  promise: "a pushed job has its own id and signature in every request, and is done only if the endpoint accepted it",
  atEnd: (history) => [
    ...(history.reported.get("push") ?? []),
    ...ofKind(history, kinds.pushed).flatMap(({ id, status }): ReadonlyArray<Finding> => {
      const isAccepted = history.trace.about(id).some(({ what }) => what.startsWith(accepts))
      return status !== "done" || isAccepted
        ? []
        : [{ job: id, found: `${history.nameOf(id)} is done, but the endpoint has not accepted it` }]
    })
  ]
}

/** Checked by the remote workers, which know their leases. */
const remoteEnds: Invariant = {
  name: "remote end",
  promise: "the end of a remote attempt is acknowledged only if it was written under the lease of that attempt",
  atEnd: ({ reported }) => reported.get("remote end") ?? []
}

export const all: ReadonlyArray<Invariant> = [
  childWithParent,
  tokens,
  obituaries,
  webhooks,
  events,
  inbox,
  pushed,
  remoteEnds
]
