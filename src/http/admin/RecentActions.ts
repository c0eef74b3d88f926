import type { AuditEntry } from "../../access/Audit.js"
import type { Operation } from "../../queue/admin/Operations.js"
import * as Instant from "../Instant.js"
import * as Snoozes from "./Snoozes.js"

// What an audit entry means to an operator: the action in words, how many jobs it changed, and how to undo it.

/** A request of the API. */
export interface UndoRequest {
  readonly method: "POST" | "PATCH" | "DELETE"
  readonly path: string
  readonly body: unknown
}

/** What is known about the actions of the last hour. */
export interface Known {
  /** Newest first. */
  readonly entries: ReadonlyArray<AuditEntry>
  readonly operations: ReadonlyMap<string, Operation>
  readonly undoneOperations: ReadonlySet<string>
  /** Ids of actions on one job that can still be undone. */
  readonly undoable: ReadonlySet<string>
  /** Epoch milliseconds. */
  readonly now: number
}

type Fields = Readonly<Record<string, unknown>>

const fieldsOf = (state: unknown): Fields => (typeof state === "object" && state !== null ? (state as Fields) : {})

/** An incident by its words: its name is for programs. */
const incidentText = ({ act, after, before }: AuditEntry) => {
  const { text } = fieldsOf(act === Snoozes.acts.snooze ? after : before)
  return `${act === Snoozes.acts.snooze ? "snoozed" : "shown again"}: ${text}`
}

export const isOfOneJob = ({ act }: AuditEntry): boolean => act.startsWith("job.")

const undos = new Set(["job.undo", "jobs.undo"])

/** An undo is part of the action that it undoes. */
export const isShown = ({ act }: AuditEntry): boolean => !undos.has(act)

const pastTense: Readonly<Record<string, string>> = {
  ask: "asked",
  cancel: "cancelled",
  change: "changed",
  create: "created",
  delete: "deleted",
  disable: "disabled",
  drain: "drained",
  edit: "edited",
  enable: "enabled",
  erase: "erased",
  fork: "forked",
  replay: "replayed",
  requeue: "requeued",
  retry: "retried",
  revoke: "revoked",
  rotate: "rotated",
  "run-now": "made due",
  signal: "signalled",
  tag: "tagged",
  trigger: "triggered",
  tune: "tuned",
  unpin: "unpinned",
  unsubscribe: "unsubscribed"
}

const jobsText = (count: number) => `${count.toLocaleString("en")} ${count === 1 ? "job" : "jobs"}`

/** The settings of a queue that `PATCH /queues/{name}` accepts. */
const queueFields = ["paused", "maxWorkers", "retainDone", "retainDead", "backoff", "limits"]

const changedFields = (before: Fields, after: Fields) =>
  queueFields.filter((field) => JSON.stringify(before[field]) !== JSON.stringify(after[field]))

const queueText = ({ after, before, target }: AuditEntry): string => {
  const [was, is] = [fieldsOf(before), fieldsOf(after)]
  const changed = changedFields(was, is)
  if (changed.length === 1 && changed[0] === "paused") return `queue ${target} ${is.paused ? "paused" : "resumed"}`
  if (changed.length === 1 && changed[0] === "maxWorkers")
    return `queue ${target}: ${was.maxWorkers} to ${is.maxWorkers} workers`
  return `queue ${target} changed${changed.length === 0 ? "" : `: ${changed.join(", ")}`}`
}

/** An action in words. */
export const textOf = (entry: AuditEntry, operation?: Operation): string => {
  const [noun = "", verb = ""] = entry.act.split(".")
  const done = pastTense[verb] ?? verb
  if (entry.act === "queue.change") return queueText(entry)
  if (noun === "incident") return incidentText(entry)
  if (noun === "jobs") {
    const { total } = fieldsOf(entry.after)
    const count = operation?.done ?? fieldsOf(total).count
    return `${typeof count === "number" ? jobsText(count) : "jobs"} ${done}`
  }
  if (noun === "job") {
    const { kind } = fieldsOf(entry.before)
    return `${typeof kind === "string" ? kind : "job"} ${done}`
  }
  return `${noun} ${entry.target} ${done}`
}

const undoOf = (entry: AuditEntry, known: Known): UndoRequest | undefined => {
  const { act, before, id, target } = entry
  const [noun] = act.split(".")
  if (noun === "jobs") {
    const operation = known.operations.get(target)
    const isEnded = operation?.finishedAt !== undefined && operation.undoable && operation.done > 0
    return isEnded && !known.undoneOperations.has(target)
      ? { method: "POST", path: `operations/${target}/undo`, body: {} }
      : undefined
  }
  if (noun === "job")
    return known.undoable.has(id) ? { method: "POST", path: `jobs/${target}/undo`, body: { undo: id } } : undefined
  // Settings are restored only if they have not been changed again.
  const last = known.entries.find((other) => other.target === target && other.act.startsWith(`${noun}.`))
  if (last !== entry) return undefined
  const was = fieldsOf(before)
  switch (act) {
    case "queue.change": {
      const changed = changedFields(was, fieldsOf(entry.after))
      if (changed.length === 0) return undefined
      const body = Object.fromEntries(changed.map((field) => [field, was[field]]))
      return { method: "PATCH", path: `queues/${encodeURIComponent(target)}`, body }
    }
    case "schedule.delete": {
      // A summary that was too long for the audit log has no fields.
      if (was.cron === undefined) return undefined
      return { method: "POST", path: "schedules", body: { name: target, ...was, force: true } }
    }
    case Snoozes.acts.snooze:
      if (Number(fieldsOf(entry.after).until) <= known.now) return undefined
      return { method: "DELETE", path: `snoozes/${id}`, body: null }
    case "view.delete":
      return was.filter === undefined ? undefined : { method: "POST", path: "views", body: was }
    default:
      return undefined
  }
}

const isUndone = ({ act, id, target }: AuditEntry, known: Known) =>
  act.startsWith("jobs.")
    ? known.undoneOperations.has(target)
    : known.entries.some((other) => other.act === "job.undo" && fieldsOf(other.after).undoes === id)

/** How many jobs it changed; null if it is no action on jobs. */
const jobsOf = (entry: AuditEntry, operation: Operation | undefined): number | null =>
  isOfOneJob(entry) ? 1 : (operation?.done ?? null)

const operationOf = ({ act, target }: AuditEntry, known: Known) =>
  act.startsWith("jobs.") ? known.operations.get(target) : undefined

/** When the action ended. A bulk action that runs has not ended yet. */
export const endOf = (entry: AuditEntry, known: Known): number => {
  const operation = operationOf(entry, known)
  return operation === undefined ? entry.at : (operation.finishedAt ?? known.now)
}

export const of = (entry: AuditEntry, known: Known) => {
  const operation = operationOf(entry, known)
  return {
    id: entry.id,
    at: Instant.format(entry.at),
    who: entry.who,
    act: entry.act,
    target: entry.target,
    text: textOf(entry, operation),
    reason: entry.reason ?? null,
    jobs: jobsOf(entry, operation),
    error: operation?.error ?? null,
    running: operation !== undefined && operation.finishedAt === undefined,
    undone: isUndone(entry, known),
    undo: undoOf(entry, known)
  }
}
