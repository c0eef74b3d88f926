import type { Axis } from "./parts/Scale.js"
import { type Execution, stateText } from "./Views.js"

// The life of an execution as bars on one time axis: steps, sleeps, waits and children.

type Step = Execution["steps"][number]
type Wait = Execution["deferreds"][number]
type Heartbeat = Execution["heartbeats"][number]
type Child = Execution["children"][number]

export interface Bar {
  /** Unique within the execution. */
  readonly key: string
  readonly name: string
  /** The kind of step or wait, as named in the workflow's code. */
  readonly kind: string
  /** CSS class that gives the colour. */
  readonly colour: string
  /** Epoch milliseconds. */
  readonly from: number
  readonly to: number
  /** Whether it has not ended, so that `to` is now. */
  readonly open: boolean
  readonly detail?: string | undefined
  /** When it ends by itself. */
  readonly dueAt?: string | null
  readonly step?: Step
  readonly wait?: Wait
  readonly child?: Child
  readonly heartbeat?: Heartbeat
}

const finished: ReadonlyArray<string> = ["done", "failed", "cancelled"]

export const isFinished = ({ state }: Pick<Execution, "state">): boolean => finished.includes(state)

/** Names of the kinds of waits. The run after a wait records its journal entry, if any. */
const waitNames: Readonly<Record<string, string>> = {
  sleep: "sleep",
  signal: "signal",
  value: "value",
  message: "message",
  ask: "ask",
  answer: "ask",
  children: "children",
  retry: "retry",
  limit: "limit",
  changed: "changed code"
}

const outcomeColours = { done: "done", failed: "dead", retrying: "retrying" } as const

/** When the wait began. A signal that arrived before its wait is complete from the start. */
const begunAt = (step: Step, wait: Wait | undefined): number => {
  const recorded = Date.parse(step.startedAt)
  if (wait === undefined || wait.completedAt === wait.createdAt) return recorded
  return Math.min(recorded, Date.parse(wait.createdAt))
}

const detailOf = ({ attempt, outcome, reopenedAt }: Step): string | undefined => {
  if (reopenedAt !== null) return `attempt ${attempt} ${outcome}, then retried`
  return outcome === "done" ? undefined : `attempt ${attempt} ${outcome}`
}

const stepBar = (step: Step, wait: Wait | undefined, createdAt: number): Bar => {
  // A step of the kind `value` is not a wait: it is the time, or a random value.
  const isWait = step.kind in waitNames && step.kind !== "value"
  const to = Date.parse(step.endedAt)
  const isDone = step.outcome === "done"
  return {
    key: `step ${step.name} ${step.attempt}`,
    name: step.name,
    kind: step.kind,
    colour: isDone && step.kind === "undo" ? "cancelled" : isDone && isWait ? "waited" : outcomeColours[step.outcome],
    from: Math.min(to, begunAt(step, wait)),
    to,
    open: false,
    // The journal of a fork begins with steps of its source.
    detail: to < createdAt ? "copied" : detailOf(step),
    step
  }
}

/** When a wait without a completion ends: with the execution, or when that began to undo its steps. */
const cutOffAt = ({ finishedAt, steps }: Execution): number | undefined => {
  if (finishedAt === null) return undefined
  const undone = steps.filter(({ kind }) => kind === "undo").map(({ startedAt }) => Date.parse(startedAt))
  return Math.min(Date.parse(finishedAt), ...undone)
}

const waitDetail = ({ completedAt, kind, remaining, value }: Wait, isOpen: boolean): string | undefined => {
  if (completedAt !== null) return kind === "signal" || kind === "value" ? "not received yet" : undefined
  if (!isOpen) return "cut off"
  if (kind === "limit") return `waits for ${value}`
  // Only a race of children has a value.
  if (kind === "children" && value !== null) return "race: the first to end"
  return kind === "children" && remaining !== null ? `${remaining} left` : undefined
}

const waitBar = (wait: Wait, now: number, cutOff: number | undefined): Bar => {
  const from = Date.parse(wait.createdAt)
  const open = wait.completedAt === null && cutOff === undefined
  return {
    key: `wait ${wait.kind} ${wait.name}`,
    name: wait.name,
    kind: waitNames[wait.kind] ?? wait.kind,
    colour: wait.kind === "changed" ? "retrying" : "waited",
    from,
    to: Math.max(from, wait.completedAt === null ? (cutOff ?? now) : Date.parse(wait.completedAt)),
    open,
    detail: waitDetail(wait, open),
    dueAt: open ? wait.dueAt : null,
    wait
  }
}

/** A step that runs, or whose attempt was cut off. Its result is recorded when it ends. */
const heartbeatBar = (heartbeat: Heartbeat, isRunning: boolean, now: number): Bar => {
  const from = Date.parse(heartbeat.startedAt)
  return {
    key: `heartbeat ${heartbeat.step}`,
    name: heartbeat.step,
    kind: "run",
    colour: isRunning ? "running" : "retrying",
    from,
    to: Math.max(from, isRunning ? now : Date.parse(heartbeat.at)),
    open: isRunning,
    detail: `attempt ${heartbeat.attempt}`,
    dueAt: isRunning ? heartbeat.timeoutAt : null,
    heartbeat
  }
}

const childColours: Readonly<Record<string, string>> = {
  done: "done",
  dead: "dead",
  failed: "dead",
  cancelled: "cancelled",
  running: "running"
}

const childBar = (child: Child, from: number, now: number): Bar => {
  const begun = child.createdAt === null ? from : Date.parse(child.createdAt)
  const isOpen = child.state !== null && child.finishedAt === null
  return {
    key: `child ${child.step} ${child.position}`,
    name: child.execution ?? child.kind ?? child.id,
    kind: child.owned ? "child" : "detached child",
    colour: childColours[child.state ?? ""] ?? "waited",
    from: begun,
    to: Math.max(begun, isOpen ? now : child.finishedAt === null ? begun : Date.parse(child.finishedAt)),
    open: isOpen,
    detail: child.state === null ? "deleted" : stateText(child.state, child.reason),
    child
  }
}

/** Details of a state. */
const presentDetails: Readonly<Record<string, string>> = {
  running: "since the last recorded step",
  pending: "for a slot",
  cancelling: "its steps are about to be undone",
  undoing: "its steps are about to be undone"
}

/** The current state, unless an open wait shows it. A running step is recorded when it ends. */
const presentBar = ({ dueAt, state }: Execution, last: number, now: number): Bar => ({
  key: "present",
  name: state,
  kind: "",
  colour: state === "running" ? "running" : "waited",
  from: last,
  to: Math.max(now, last),
  open: true,
  detail: presentDetails[state],
  dueAt: state in presentDetails ? null : dueAt
})

/** The row of the value that a step of `step.next` has taken. */
const takenRow = ({ exit }: Step): ReadonlyArray<string> => {
  const taken = (exit as { readonly taken?: { readonly signal: string; readonly number: number } } | null)?.taken
  if (taken === undefined) return []
  return [taken.number === 1 ? `signal ${taken.signal}` : `value ${taken.signal}#${taken.number}`]
}

/** The bars by their start, each followed by its children. */
export const barsOf = (execution: Execution, now: number): ReadonlyArray<Bar> => {
  const createdAt = Date.parse(execution.createdAt)
  const nameOf = ({ kind, name }: Pick<Step | Wait, "kind" | "name">) => `${kind} ${name}`
  const waitsByName = new Map(execution.deferreds.map((wait) => [nameOf(wait), wait]))
  const recorded = new Set(execution.steps.map(nameOf))
  const steps = execution.steps.map((step) => stepBar(step, waitsByName.get(nameOf(step)), createdAt))
  const cutOff = cutOffAt(execution)
  const taken = new Set(execution.steps.flatMap(takenRow))
  const isShown = ({ completedAt, kind, name, waiting }: Wait) => {
    if (recorded.has(nameOf({ kind, name }))) return false
    if (kind === "signal" || kind === "value") return !taken.has(`${kind} ${name}`)
    if (kind === "children") return true
    // The end of any other wait is in the journal, or will be soon.
    return completedAt === null && waiting
  }
  const waits = execution.deferreds.filter(isShown).map((wait) => waitBar(wait, now, cutOff))
  const isRunning = execution.state === "running"
  const heartbeats = isFinished(execution)
    ? []
    : execution.heartbeats.map((heartbeat) => heartbeatBar(heartbeat, isRunning, now))
  const inOrder = [...steps, ...waits, ...heartbeats].sort(
    (a, b) => a.from - b.from || (a.step?.sequence ?? Infinity) - (b.step?.sequence ?? Infinity)
  )
  const families = new Map<string, Array<Child>>()
  for (const child of execution.children) {
    const family = families.get(child.step)
    if (family === undefined) families.set(child.step, [child])
    else family.push(child)
  }
  const withChildren = inOrder.flatMap((bar) => {
    const own = bar.kind === "children" ? (families.get(bar.name) ?? []) : []
    if (bar.kind === "children") families.delete(bar.name)
    return [bar, ...own.map((child) => childBar(child, bar.from, now))]
  })
  const orphans = [...families.values()].flat()
  const isShownAlready =
    (waits.some(({ open }) => open) && !(execution.state in presentDetails)) || heartbeats.some(({ open }) => open)
  const last = latest(steps, createdAt)
  return [
    ...withChildren,
    ...orphans.map((child) => childBar(child, createdAt, now)),
    ...(isFinished(execution) || isShownAlready ? [] : [presentBar(execution, last, now)])
  ]
}

/** The latest end. A spread into Math.max fails for very many bars. */
const latest = (bars: ReadonlyArray<Bar>, least: number): number =>
  bars.reduce((most, { to }) => Math.max(most, to), least)

/** From the start of the execution to its end, or to now. Steps that a fork copied are before its start. */
export const axisOf = (execution: Execution, bars: ReadonlyArray<Bar>, now: number): Axis => {
  const start = Date.parse(execution.createdAt)
  const known = execution.finishedAt === null ? now : Date.parse(execution.finishedAt)
  return { start, ends: latest(bars, Math.max(start + 1, known)) }
}
