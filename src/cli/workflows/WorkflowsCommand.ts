import { Clock, Console, Duration, Effect, Either } from "effect"
import { isId } from "../../core/Ids.js"
import { joinOr, suggestion } from "../../core/Spelling.js"
import * as Audited from "../../http/access/Audited.js"
import { ask as askExecution, awaitedSignals, start as startExecution } from "../../http/workflows/ExecutionActs.js"
import { tagsOf } from "../../http/workflows/ExecutionsFilter.js"
import * as ExecutionView from "../../http/workflows/ExecutionView.js"
import { ExecutionState, maxExecutionPage, type Tags } from "../../queue/workflow/Execution.js"
import { Workflows } from "../../queue/workflow/Workflows.js"
import { UsageError } from "../Failure.js"
import * as EnqueueOptions from "../jobs/EnqueueOptions.js"
import * as Command from "../kit/Command.js"
import * as Input from "../kit/Input.js"
import * as Operator from "../Operator.js"
import * as QueueCommand from "../QueueCommand.js"
import { counted, print, printJson, printText, table } from "../Terminal.js"
import { details, rowOf, tagText } from "./ExecutionText.js"
import { stream } from "./StreamCommand.js"

const id = Input.required(Input.text, "The execution's id, as in order/A-17, or the id of its job.")

/** Returns the execution's id, given that id or the id of its job. */
const executionOf = (given: string) =>
  isId(given)
    ? Effect.flatMap(Workflows, (workflows) => Effect.map(workflows.show(given), ({ execution }) => execution))
    : Effect.succeed(given)

/** Tags as `customer=42`; undefined if there are none. */
const tags = (about: string): Input.Input<Tags | undefined> => ({
  ...Input.repeated(Input.text, about),
  read: (texts) => (texts.length === 0 ? Either.right(undefined) : tagsOf(texts))
})

const list = QueueCommand.make({
  about: "List workflow executions, newest first.",
  options: {
    workflow: Input.optional(Input.text, "Only executions of this workflow."),
    state: Input.optional(Input.choice(ExecutionState.literals), "Only executions in this state."),
    prefix: Input.optional(Input.text, "Only executions whose id starts with this text."),
    tag: tags("Only executions with this tag, as in customer=42."),
    since: Input.optional(Input.instant, "Only executions started at or after this time, as in 2026-01-31T09:00:00Z."),
    until: Input.optional(Input.instant, "Only executions started before this time."),
    roots: Input.flag("Only executions that no other execution started or waits for."),
    ...QueueCommand.page("executions", { max: maxExecutionPage, default: 20 })
  },
  examples: {
    "nightshift workflows list --state waiting": "list executions that wait for a signal or children",
    "nightshift workflows list --tag customer=42": "list the executions of a customer"
  },
  run: ({ cursor, json, limit, prefix, roots, since, state, tag, until, workflow }) =>
    Effect.gen(function* () {
      const workflows = yield* Workflows
      const filter = { workflow, state, prefix, tag, since, until }
      const { executions, next } = yield* workflows.list({ ...filter, roots }, { limit, before: cursor })
      if (json) {
        const shown = executions.map(ExecutionView.ofSummary)
        return yield* printJson({ executions: shown, next: next ?? null })
      }
      const isFiltered = roots || Object.values(filter).some((value) => value !== undefined)
      const none = isFiltered
        ? "No executions match this filter."
        : "No executions yet. Start one with `nightshift workflows start`."
      if (executions.length === 0) return yield* Console.log(none)
      const now = yield* Clock.currentTimeMillis
      const heading = ["EXECUTION", "STATE", "VERSION", "STARTED", "WAITS FOR OR ERROR"]
      yield* printText(table(heading, executions.map(rowOf(now))))
      if (next !== undefined) yield* Console.log(`\nMore: add --cursor ${next}`)
    })
})

/** Whether the execution waits for the signal, or for no signal at all: then it may wait for it later. */
const isExpected = (given: { readonly name: string; readonly waitsFor: ReadonlyArray<string> }) =>
  given.waitsFor.length === 0 || given.waitsFor.includes(given.name)

const show = QueueCommand.make({
  about: "Show an execution with its steps, waits and children.",
  args: { execution: id },
  examples: { "nightshift workflows show order/A-17": "show its steps, waits and children" },
  run: (given) =>
    Effect.gen(function* () {
      const execution = yield* Effect.flatMap(Workflows, (workflows) => workflows.show(given.execution))
      const now = yield* Clock.currentTimeMillis
      yield* print(given.json, ExecutionView.of(execution), details(execution, now))
    })
})

const start = QueueCommand.make({
  about: "Start an execution, once per key.",
  args: {
    workflow: Input.required(Input.text, "The workflow's name."),
    key: Input.required(
      Input.text,
      "Key of the execution. A second start with the same key returns the existing execution."
    )
  },
  options: {
    payload: Input.withDefault(Input.json, {}, "The payload as JSON (default {})."),
    queue: Input.optional(Input.text, "The queue (default: the workflow's queue)."),
    subject: EnqueueOptions.subject,
    tag: tags("A tag by which the execution is found, as in customer=42."),
    force: Input.flag("Accept a workflow that no process has registered and a payload that does not match its schema.")
  },
  examples: {
    'nightshift workflows start order A-17 --payload \'{"id":"A-17"}\'': "start an execution, once per key"
  },
  run: ({ force, json, key, payload, queue, subject, tag, workflow }) =>
    Effect.gen(function* () {
      const started = yield* startExecution({ workflow, key, payload, queue, subject, tags: tag, force })
      const message = started.outcome === "started" ? "started" : "already exists:"
      yield* print(json, started, `${message} ${started.execution}`)
    })
})

const signal = QueueCommand.make({
  about: "Send a signal. A signal that arrives before its execution waits for it is kept until then.",
  args: { execution: id, name: Input.required(Input.text, "The signal's name.") },
  options: {
    value: Input.withDefault(Input.json, null, "The value as JSON (default null)."),
    id: Input.optional(Input.text, "Id of this value: a second value of the signal with the same id is not stored."),
    reason: Operator.reason
  },
  examples: {
    'nightshift workflows signal order/A-17 approval --value \'{"by":"ada"}\'': "send a signal",
    "nightshift workflows signal order/A-17 message --value '\"hello\"' --id m1": "send a value once, even if repeated"
  },
  run: ({ id, json, name, reason, value, ...given }) =>
    Effect.gen(function* () {
      const workflows = yield* Workflows
      const audited = yield* Audited.make
      const execution = yield* executionOf(given.execution)
      // Without a slash it is no id of a workflow that could start later.
      if (!execution.includes("/")) yield* workflows.show(execution)
      const waitsFor = yield* awaitedSignals(execution)
      const outcome = yield* workflows
        .signal({ execution, name, value, id })
        .pipe(audited("workflow.signal", execution, (outcome) => ({ after: { name, outcome } })))
      const sent =
        waitsFor === null
          ? `kept ${name}: ${execution} does not exist yet and receives the signal when it starts`
          : isExpected({ name, waitsFor })
            ? `sent ${name} to ${execution}`
            : `kept ${name}: ${execution} does not wait for it now, but for ${joinOr(waitsFor)}.${suggestion(name, waitsFor)}`
      const message =
        outcome === "completed"
          ? sent
          : outcome === "appended"
            ? `appended to the values of ${name}: ${execution} receives it with step.next; step.waitFor keeps the first value`
            : `${execution} already has the value of ${name} with the id ${id}, so nothing was sent`
      yield* print(json, { execution, outcome, waitsFor }, message)
    }).pipe(Operator.acting(reason))
})

const ask = QueueCommand.make({
  about: "Ask a running execution, and print its answer.",
  args: { execution: id, name: Input.required(Input.text, "The ask's name.") },
  options: {
    value: Input.withDefault(Input.json, null, "The value as JSON (default null)."),
    id: Input.optional(Input.text, "Id of the ask: a second ask with the same id gets the same answer."),
    timeout: Input.optional(Input.duration, "How long to wait for the answer (default 30s)."),
    reason: Operator.reason
  },
  examples: {
    "nightshift workflows ask order/A-17 addItem --value '\"book\"'": "call the handler that its code has attached"
  },
  run: ({ id, json, name, reason, timeout, value, ...given }) =>
    Effect.gen(function* () {
      const execution = yield* executionOf(given.execution)
      const millis = timeout === undefined ? undefined : Duration.toMillis(timeout)
      const answer = yield* askExecution({ execution, name, value, id, timeout: millis }, yield* Audited.make)
      yield* print(json, { execution, answer }, JSON.stringify(answer))
    }).pipe(Operator.acting(reason))
})

const cancel = QueueCommand.make({
  about: "Cancel an execution and its children, and undo their steps.",
  args: { execution: id },
  options: { reason: Operator.reason, now: Input.flag("End the execution immediately, without undoing its steps.") },
  examples: { "nightshift workflows cancel order/A-17": "undo its steps and end it" },
  run: ({ json, now, reason, ...given }) =>
    Effect.gen(function* () {
      const workflows = yield* Workflows
      const audited = yield* Audited.make
      const execution = yield* executionOf(given.execution)
      const { cancelled } = yield* workflows
        .cancel(execution, { now })
        .pipe(audited("workflow.cancel", execution, ({ cancelled }) => ({ after: { now, cancelled } })))
      const children = cancelled > 1 ? ` and ${counted(cancelled - 1, "child", "children")}` : ""
      const message = now
        ? `ended ${execution}${children}; its steps were not undone`
        : `cancelling ${execution}${children}`
      yield* print(json, { execution, cancelled }, cancelled === 0 ? `${execution} has already ended` : message)
    }).pipe(Operator.acting(reason))
})

const retry = QueueCommand.make({
  about: "Run a failed or cancelled execution again from where it ended, or try a changed one now.",
  args: { execution: id },
  options: { reason: Operator.reason },
  examples: { "nightshift workflows retry order/A-17": "continue from the failed step" },
  run: ({ json, reason, ...given }) =>
    Effect.gen(function* () {
      const workflows = yield* Workflows
      const audited = yield* Audited.make
      const execution = yield* executionOf(given.execution)
      yield* workflows
        .retry(execution)
        .pipe(audited("workflow.retry", execution, ({ state }) => ({ after: { state } })))
      if (json) return yield* printJson(ExecutionView.of(yield* workflows.show(execution)))
      yield* Console.log(`retrying ${execution}`)
    }).pipe(Operator.acting(reason))
})

const tag = QueueCommand.make({
  about: "Set or remove tags of an execution.",
  args: { execution: id },
  options: {
    set: tags("A tag to set, as in customer=42."),
    remove: Input.repeated(Input.text, "Name of a tag to remove."),
    reason: Operator.reason
  },
  examples: { "nightshift workflows tag order/A-17 --set customer=42": "find it later by its customer" },
  run: ({ json, reason, remove, set = {}, ...given }) =>
    Effect.gen(function* () {
      const both = remove.find((name) => Object.hasOwn(set, name))
      if (both !== undefined)
        return yield* new UsageError({ message: `--set and --remove both name the tag ${JSON.stringify(both)}.` })
      const workflows = yield* Workflows
      const audited = yield* Audited.make
      const execution = yield* executionOf(given.execution)
      const changes = { ...Object.fromEntries(remove.map((name) => [name, null])), ...set }
      const all = yield* workflows
        .tag(execution, changes)
        .pipe(audited("workflow.tag", execution, (after) => ({ after })))
      yield* print(json, { execution, tags: all }, `tags of ${execution}: ${tagText(all) || "none"}`)
    }).pipe(Operator.acting(reason))
})

const fork = QueueCommand.make({
  about: "Start a new execution from a step of another one.",
  args: { execution: id, step: Input.required(Input.text, "The first step that runs again.") },
  options: {
    reason: Operator.reason,
    as: Input.optional(Input.text, "Id of the new execution (default: generated).")
  },
  examples: { "nightshift workflows fork order/A-17 charge": "start a new execution from this step" },
  run: ({ as, json, reason, step, ...given }) =>
    Effect.gen(function* () {
      const workflows = yield* Workflows
      const audited = yield* Audited.make
      const execution = yield* executionOf(given.execution)
      const forked = yield* workflows
        .fork(execution, step, { as })
        .pipe(audited("workflow.fork", execution, (after) => ({ after: { step, execution: after.execution } })))
      yield* print(json, forked, `started ${forked.execution}`)
    }).pipe(Operator.acting(reason))
})

const unpin = QueueCommand.make({
  about: "Unpin an execution, or all executions of a release. Any release may then run them.",
  args: { execution: Input.optional(Input.text, "The execution's id, as in order/A-17, or the id of its job.") },
  options: {
    reason: Operator.reason,
    release: Input.optional(Input.text, "All executions that are pinned to this release, as doctor names it.")
  },
  examples: {
    "nightshift workflows unpin order/A-17": "let the current release run it",
    "nightshift workflows unpin --release 1f0c9a7be402": "all executions of a release that no process runs"
  },
  run: ({ json, reason, release, ...given }) =>
    Effect.gen(function* () {
      if ((given.execution === undefined) === (release === undefined))
        return yield* new UsageError({ message: "Pass the id of an execution, or --release." })
      const workflows = yield* Workflows
      const audited = yield* Audited.make
      const which = release === undefined ? { execution: yield* executionOf(given.execution ?? "") } : { release }
      const target = "execution" in which ? which.execution : `release ${which.release}`
      const unpinned = yield* workflows
        .unpin(which)
        .pipe(audited("workflow.unpin", target, (count) => ({ after: { unpinned: count } })))
      const message =
        unpinned === 0
          ? `${target} is not pinned, or has ended`
          : `unpinned ${unpinned === 1 ? "1 execution" : `${unpinned} executions`}`
      yield* print(json, { unpinned }, message)
    }).pipe(Operator.acting(reason))
})

export const command = Command.group("List, inspect and control workflow executions.", {
  list,
  show,
  start,
  signal,
  ask,
  cancel,
  retry,
  tag,
  fork,
  stream,
  unpin
})
