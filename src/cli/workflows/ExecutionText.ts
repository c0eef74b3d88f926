import { Predicate } from "effect"
import * as BytesText from "../../core/BytesText.js"
import * as ErrorText from "../../core/ErrorText.js"
import { measured } from "../../core/SpanText.js"
import * as StepName from "../../core/StepName.js"
import type { Deferred, Execution, ExecutionSummary, Heartbeat, Step, Tags } from "../../queue/workflow/Execution.js"
import { age, factList, printable, type Shown, stack, stateText, table } from "../Terminal.js"

// Executions as the command line prints them.

const waitText =
  (now: number) =>
  ({ dueAt, exit, kind, name, remaining }: Deferred) => {
    const until =
      dueAt === undefined ? "" : `, ${kind === "signal" || kind === "message" ? "times out" : "due"} ${age(dueAt, now)}`
    const left = remaining === undefined ? "" : ` (${remaining} left)`
    const limit = kind === "limit" ? ` ${printable(String(exit))} for` : ""
    const event = kind === "signal" ? StepName.eventOf(name) : undefined
    const shown = event ?? (kind === "message" ? StepName.withoutPrefix(name) : name)
    return `${event === undefined ? kind : "event"}${limit} "${printable(shown)}"${left}${until}`
  }

const heartbeatText =
  (now: number) =>
  ({ at, attempt, details, step }: Heartbeat) => {
    const sent = details === undefined ? "" : `: ${JSON.stringify(details)}`
    return `"${printable(step)}" ${age(at, now)}, attempt ${attempt}${sent}`
  }

export const rowOf = (now: number) => (execution: ExecutionSummary) => [
  printable(execution.execution),
  stateText(execution),
  String(execution.version),
  age(execution.createdAt, now),
  execution.waits.length === 0
    ? printable(ErrorText.headline(execution.lastError ?? "-")).slice(0, 60)
    : execution.waits.map(waitText(now)).join(", ").slice(0, 60)
]

export const tagText = (all: Tags) =>
  Object.entries(all)
    .map(([name, value]) => `${name}=${value}`)
    .join(", ")

/** Unwraps the exit of a step of `nightshift/client`. Exits of other engines are printed whole. */
const exitText = (exit: unknown): string => {
  if (!Predicate.isRecord(exit)) return JSON.stringify(exit) ?? ""
  const names = Object.keys(exit)
  if (names.length === 0) return ""
  const isMarked = names.length === 2 && ["taken", "set", "ask"].some((mark) => mark in exit)
  if ((names.length === 1 || isMarked) && "value" in exit) return JSON.stringify(exit.value) ?? ""
  if (names.length === 1 && exit.timedOut === true) return "timed out"
  const { error } = exit
  if (names.length === 1 && Predicate.hasProperty(error, "name") && Predicate.hasProperty(error, "message")) {
    return `${error.name}: ${error.message}`
  }
  return JSON.stringify(exit)
}

const stepRow = (now: number) => (step: Step) => [
  printable(step.name),
  step.kind,
  step.attempt === 1 ? step.outcome : `${step.outcome}, attempt ${step.attempt}`,
  measured((step.endedAt - step.startedAt) / 1000),
  age(step.endedAt, now),
  printable(exitText(step.exit)).slice(0, 60)
]

const times = (count: number): string => (count === 1 ? "once" : `${count} times`)

export const details = (execution: Execution, now: number): Shown => {
  const { unclaimed } = execution
  const facts = factList([
    ["execution", execution.execution],
    ["job", execution.id],
    ["workflow", `${execution.workflow}, version ${execution.version}`],
    ["state", stateText(execution)],
    ["started", age(execution.createdAt, now)],
    ["finished", execution.finishedAt === undefined ? undefined : age(execution.finishedAt, now)],
    ["continues", execution.dueAt === undefined || execution.dueAt <= now ? undefined : age(execution.dueAt, now)],
    ["continued", execution.continued === 0 ? undefined : times(execution.continued)],
    ["pinned to", execution.pinned === undefined ? undefined : `release ${execution.pinned}`],
    ["unclaimed", unclaimed.length === 0 ? undefined : `signals ${unclaimed.join(", ")}`],
    ["waits for", execution.waits.length === 0 ? undefined : execution.waits.map(waitText(now)).join(", ")],
    [
      "heartbeat",
      execution.heartbeats.length === 0 ? undefined : execution.heartbeats.map(heartbeatText(now)).join(", ")
    ],
    ["values", Object.keys(execution.values).length === 0 ? undefined : JSON.stringify(execution.values)],
    ["payload", JSON.stringify(execution.payload)],
    ["result", JSON.stringify(execution.result)],
    ["last error", execution.lastError],
    ["tags", Object.keys(execution.tags).length === 0 ? undefined : tagText(execution.tags)],
    ["parents", execution.parents.length === 0 ? undefined : execution.parents.join(", ")]
  ])
  const steps = table(["STEP", "KIND", "OUTCOME", "TOOK", "ENDED", "RESULT"], execution.steps.map(stepRow(now)))
  const children = execution.children.map(({ id, job, name }) => [
    printable(name),
    id,
    printable(job?.execution ?? job?.kind ?? "-"),
    job === undefined ? "deleted" : stateText(job)
  ])
  const streams = execution.streams.map(({ bytes, count, generation, name, startedAt, state }) => [
    printable(name),
    state,
    String(generation),
    String(count),
    BytesText.format(bytes),
    age(startedAt, now)
  ])
  return stack(
    facts,
    ...(execution.steps.length === 0 ? ["", "No steps yet."] : ["", steps]),
    ...(streams.length === 0 ? [] : ["", table(["STREAM", "STATE", "GENERATION", "CHUNKS", "SIZE", "BEGAN"], streams)]),
    ...(children.length === 0 ? [] : ["", table(["STEP", "CHILD", "WHAT", "STATE"], children)])
  )
}
