import { Duration } from "effect"
import type { Releases } from "../../cluster/Pods.js"
import { End } from "../../queue/AttemptEnd.js"
import type { ClaimedExecution } from "../../queue/Queue.js"
import { isChanged } from "../../queue/workflow/ChangedCode.js"

// During a rolling deploy, pods of two releases claim the executions of a workflow, and the code of one release may not
// follow the journal that the other has written. Such an execution is `changed`. It is tried again soon while pods of
// another release are alive. Pods of other releases return it to the queue while a pod of the release that wrote the
// journal can take it.

/** The releases of the code of a workflow. */
export interface CodeRelease {
  readonly own: string | undefined
  /** Releases of other live pods that serve the same queue. */
  readonly others: ReadonlyArray<string>
}

export const of = (kind: string, own: Releases, others: ReadonlyArray<Releases> = []): CodeRelease => {
  const found = others.flatMap(({ [kind]: release }) => release ?? [])
  return { own: own[kind], others: found.filter((release) => release !== own[kind]) }
}

/** Bounds of the delay before another pod tries. The delay is half of the time that the execution has been `changed`. */
const pause = { shortest: 100, longest: Duration.toMillis("1 second") }
/** How long the release that wrote the journal is preferred: its pods may have no free slot. */
const preferredFor = Duration.toMillis("1 minute")

const changedSince = ({ journal }: ClaimedExecution): number | undefined =>
  journal?.waits.find(({ kind, waiting }) => kind === "changed" && waiting)?.createdAt

const soon = (since: number, now: number): number =>
  now + Math.min(pause.longest, Math.max(pause.shortest, (now - since) / 2))

/**
 * When a pinned execution is due again that was left to its release, whose pods take it before that. This is for pods that
 * did not notice it: the release may have started since.
 */
const parkedFor = { alive: Duration.toMillis("10 seconds"), gone: Duration.toMillis("10 minutes") }

/** Leaves an execution to the release that it is pinned to. */
const park = (pinned: string, { others }: CodeRelease, now: number): End => {
  const runAt = now + (others.includes(pinned) ? parkedFor.alive : parkedFor.gone)
  return End.Again({ runAt, counted: false, error: undefined, remember: undefined, parked: true })
}

/**
 * The releases of this process that look for executions that were left to them: while pods with other releases of a workflow
 * serve the queue, and for a minute after that and after the start. Without them nothing is left to anyone.
 */
export const pinned = (
  kinds: ReadonlyArray<string>,
  releasesOf: (kind: string) => CodeRelease
): ((now: number) => ReadonlyArray<string> | undefined) => {
  if (kinds.length === 0) return () => undefined
  let lookUntil: number | undefined
  return (now) => {
    const all = kinds.map(releasesOf)
    if (lookUntil === undefined || all.some(({ others }) => others.length > 0)) lookUntil = now + preferredFor
    return now > lookUntil ? undefined : all.flatMap(({ own }) => own ?? [])
  }
}

/** Returns an execution to the queue that another release should run. Undefined if this release may run it. */
export const handBack = (execution: ClaimedExecution, releases: CodeRelease, now: number): End | undefined => {
  const { others, own } = releases
  if (execution.pinned !== undefined && execution.pinned !== own) return park(execution.pinned, releases, now)
  const { release } = execution
  if (release === undefined || release === own || !others.includes(release)) return undefined
  const since = changedSince(execution)
  if (since === undefined || now - since > preferredFor) return undefined
  return End.Again({ runAt: soon(since, now), counted: false, error: undefined, remember: undefined })
}

/** Completes a suspension: notes the release, and lets other releases try soon if the code has changed. */
export const suspended = (
  end: Extract<End, { readonly _tag: "Suspended" }>,
  execution: ClaimedExecution,
  { others, own }: CodeRelease,
  now: number
): End => {
  if (!isChanged(end.waits) || others.length === 0) return { ...end, release: own }
  const isWriterAlive = execution.release !== undefined && others.includes(execution.release)
  const dueAt = isWriterAlive ? soon(changedSince(execution) ?? now, now) : now + pause.longest
  const waits = end.waits.map((wait) => (wait.kind === "changed" ? { ...wait, dueAt } : wait))
  return { ...end, release: own, runAt: dueAt, waits }
}
