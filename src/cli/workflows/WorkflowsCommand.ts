import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import { Clock, Console, Effect, Option, Predicate } from "effect"
import * as ErrorText from "../../core/ErrorText.js"
import { isId } from "../../core/Ids.js"
import { joinOr, suggestion } from "../../core/Spelling.js"
import * as Audited from "../../http/access/Audited.js"
import * as ExecutionView from "../../http/workflows/ExecutionView.js"
import { awaitedSignals, start as startExecution } from "../../http/workflows/WorkflowsRoutes.js"
import {
  type Deferred,
  type Execution,
  ExecutionStatus,
  type ExecutionSummary,
  type Step
} from "../../queue/workflow/Execution.js"
import { Workflows } from "../../queue/workflow/Workflows.js"
import * as CommonOptions from "../CommonOptions.js"
import { UsageError } from "../Failure.js"
import * as Operator from "../Operator.js"
import * as QueueLayer from "../QueueLayer.js"
import * as Settings from "../Settings.js"
import { age, printable, printableLines, table } from "../Terminal.js"

const mostListed = 200

const id = Args.text({ name: "execution" }).pipe(
  Args.withDescription("The execution's id, as in order/A-17, or the id of its job.")
)

const oneOptions = { id, ...CommonOptions.database, json: CommonOptions.json }
const actOptions = { ...oneOptions, reason: Operator.reason }

const json = (name: string, about: string, fallback: string) =>
  Options.text(name).pipe(Options.withDescription(`${about} (default ${fallback}).`), Options.withDefault(fallback))

const parsed = (option: string, text: string) =>
  Effect.try({
    try: () => JSON.parse(text) as unknown,
    catch: () => new UsageError({ message: `--${option} must be valid JSON, got ${JSON.stringify(text)}.` })
  })

/** Returns the execution's id, given that id or the id of its job. */
const executionOf = (given: string) =>
  isId(given)
    ? Effect.flatMap(Workflows, (workflows) => Effect.map(workflows.show(given), ({ execution }) => execution))
    : Effect.succeed(given)

const waitText =
  (now: number) =>
  ({ dueAt, kind, name, remaining }: Deferred) => {
    const until = dueAt === undefined ? "" : `, ${kind === "signal" ? "times out" : "due"} ${age(dueAt, now)}`
    const left = remaining === undefined ? "" : ` (${remaining} left)`
    return `${kind} "${printable(name)}"${left}${until}`
  }

const statusText = ({ deadReason, status }: ExecutionSummary) =>
  deadReason === "not_undone" ? `${status}: not undone` : status

const rowOf = (now: number) => (execution: ExecutionSummary) => [
  printable(execution.execution),
  statusText(execution),
  String(execution.version),
  age(execution.createdAt, now),
  execution.waits.length === 0
    ? printable(ErrorText.headline(execution.lastError ?? "-")).slice(0, 60)
    : execution.waits.map(waitText(now)).join(", ").slice(0, 60)
]

export const list = Command.make(
  "list",
  {
    ...CommonOptions.database,
    workflow: Options.text("workflow").pipe(
      Options.withDescription("Only executions of this workflow."),
      Options.optional
    ),
    status: Options.choice("status", ExecutionStatus.literals).pipe(
      Options.withDescription("Only executions with this status."),
      Options.optional
    ),
    prefix: Options.text("prefix").pipe(
      Options.withDescription("Only executions whose id starts with this text."),
      Options.optional
    ),
    limit: Options.integer("limit").pipe(
      Options.withDescription(`Maximum number of executions, up to ${mostListed} (default 20).`),
      Options.withDefault<number>(20)
    ),
    cursor: Options.text("cursor").pipe(
      Options.withDescription("Cursor returned by the previous page."),
      Options.optional
    ),
    json: CommonOptions.json
  },
  (given) =>
    Effect.gen(function* () {
      if (given.limit < 1 || given.limit > mostListed) {
        return yield* new UsageError({ message: `--limit must be between 1 and ${mostListed}, got ${given.limit}.` })
      }
      const [workflow, status, prefix] = [given.workflow, given.status, given.prefix].map(Option.getOrUndefined)
      yield* Effect.gen(function* () {
        const workflows = yield* Workflows
        const filter = { workflow, status: status as ExecutionStatus | undefined, prefix }
        const page = { limit: given.limit, before: Option.getOrUndefined(given.cursor) }
        const { executions, next } = yield* workflows.list(filter, page)
        if (given.json) {
          const shown = executions.map(ExecutionView.ofSummary)
          return yield* Console.log(JSON.stringify({ executions: shown, next: next ?? null }, null, 2))
        }
        if (executions.length === 0) return yield* Console.log("No executions match this filter.")
        const now = yield* Clock.currentTimeMillis
        const heading = ["EXECUTION", "STATUS", "VERSION", "STARTED", "WAITS FOR OR ERROR"]
        yield* Console.log(table(heading, executions.map(rowOf(now))))
        if (next !== undefined) yield* Console.log(`\nMore: add --cursor ${next}`)
      }).pipe(Effect.provide(QueueLayer.layerForCommand))
    }).pipe(Settings.configured(CommonOptions.databaseFlags(given)))
).pipe(Command.withDescription("List workflow executions, newest first."))

/** Unwraps the exit of a step of `nightshift/client`. Exits of other engines are printed whole. */
const exitText = (exit: unknown): string => {
  if (!Predicate.isRecord(exit)) return JSON.stringify(exit) ?? ""
  const names = Object.keys(exit)
  if (names.length === 0) return ""
  if (names.length === 1 && "value" in exit) return JSON.stringify(exit.value) ?? ""
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
  `${step.endedAt - step.startedAt} ms`,
  age(step.endedAt, now),
  printable(exitText(step.exit)).slice(0, 60)
]

/** Whether the execution waits for the signal, or for no signal at all: then it may wait for it later. */
const isExpected = (given: { readonly name: string; readonly waitsFor: ReadonlyArray<string> }) =>
  given.waitsFor.length === 0 || given.waitsFor.includes(given.name)

const details = (execution: Execution, now: number): string => {
  const { unclaimed } = execution
  const facts: ReadonlyArray<readonly [string, string | undefined]> = [
    ["execution", printable(execution.execution)],
    ["job", execution.id],
    ["workflow", `${printable(execution.workflow)}, version ${execution.version}`],
    ["status", statusText(execution)],
    ["started", age(execution.createdAt, now)],
    ["finished", execution.finishedAt === undefined ? undefined : age(execution.finishedAt, now)],
    ["continues", execution.dueAt === undefined || execution.dueAt <= now ? undefined : age(execution.dueAt, now)],
    ["unclaimed", unclaimed.length === 0 ? undefined : `signals ${unclaimed.map(printable).join(", ")}`],
    ["waits for", execution.waits.length === 0 ? undefined : execution.waits.map(waitText(now)).join(", ")],
    ["payload", printable(JSON.stringify(execution.payload) ?? "")],
    ["result", execution.result === undefined ? undefined : printable(JSON.stringify(execution.result) ?? "")],
    ["last error", execution.lastError === undefined ? undefined : printableLines(execution.lastError, 15)],
    ["parents", execution.parents.length === 0 ? undefined : execution.parents.map(printable).join(", ")]
  ]
  const lines = facts.flatMap(([name, value]) => (value === undefined ? [] : [`${name.padEnd(14)} ${value}`]))
  const steps = table(["STEP", "KIND", "OUTCOME", "TOOK", "ENDED", "RESULT"], execution.steps.map(stepRow(now)))
  const children = execution.children.map(({ id, job, name }) => [
    printable(name),
    id,
    printable(job?.execution ?? job?.kind ?? "-"),
    job?.status ?? "deleted"
  ])
  return [
    ...lines,
    ...(execution.steps.length === 0 ? ["", "No steps yet."] : ["", steps]),
    ...(children.length === 0 ? [] : ["", table(["STEP", "CHILD", "WHAT", "STATUS"], children)])
  ].join("\n")
}

/** Prints an execution. */
const print = (execution: Execution, asJson: boolean) =>
  Effect.flatMap(Clock.currentTimeMillis, (now) =>
    Console.log(asJson ? JSON.stringify(ExecutionView.of(execution), null, 2) : details(execution, now))
  )

export const show = Command.make("show", oneOptions, (given) =>
  Effect.gen(function* () {
    const workflows = yield* Workflows
    yield* print(yield* workflows.show(given.id), given.json)
  }).pipe(Effect.provide(QueueLayer.layerForCommand), Settings.configured(CommonOptions.databaseFlags(given)))
).pipe(Command.withDescription("Show an execution with its steps, waits and children."))

export const start = Command.make(
  "start",
  {
    workflow: Args.text({ name: "workflow" }).pipe(Args.withDescription("The workflow's name.")),
    key: Args.text({ name: "key" }).pipe(
      Args.withDescription("Key of the execution. A second start with the same key returns the existing execution.")
    ),
    ...CommonOptions.database,
    payload: json("payload", "The payload as JSON", "{}"),
    queue: Options.text("queue").pipe(
      Options.withDescription("The queue (default: the workflow's queue)."),
      Options.optional
    ),
    force: Options.boolean("force").pipe(
      Options.withDescription(
        "Accept a workflow that no pod has registered and a payload that does not match its schema."
      )
    ),
    json: CommonOptions.json
  },
  (given) =>
    Effect.gen(function* () {
      const payload = yield* parsed("payload", given.payload)
      const { force, key, workflow } = given
      const queue = Option.getOrUndefined(given.queue)
      yield* Effect.gen(function* () {
        const started = yield* startExecution({ workflow, key, payload, queue, force })
        const message = started.outcome === "started" ? "started" : "already exists:"
        yield* Console.log(given.json ? JSON.stringify(started, null, 2) : `${message} ${started.execution}`)
      }).pipe(Effect.provide(QueueLayer.layerForCommand))
    }).pipe(Settings.configured(CommonOptions.databaseFlags(given)))
).pipe(Command.withDescription("Start an execution, once per key."))

export const signal = Command.make(
  "signal",
  {
    id,
    name: Args.text({ name: "name" }).pipe(Args.withDescription("The signal's name.")),
    ...CommonOptions.database,
    value: json("value", "The value as JSON", "null"),
    reason: Operator.reason,
    json: CommonOptions.json
  },
  (given) =>
    Effect.gen(function* () {
      const value = yield* parsed("value", given.value)
      yield* Effect.gen(function* () {
        const workflows = yield* Workflows
        const audited = yield* Audited.make
        const execution = yield* executionOf(given.id)
        // Without a slash it is no id of a workflow that could start later.
        if (!execution.includes("/")) yield* workflows.show(execution)
        const waitsFor = yield* awaitedSignals(execution)
        const outcome = yield* workflows
          .signal({ execution, name: given.name, value })
          .pipe(audited("workflow.signal", execution, (outcome) => ({ after: { name: given.name, outcome } })))
        const sent =
          waitsFor === null
            ? `kept ${given.name}: ${execution} does not exist yet and receives the signal when it starts`
            : isExpected({ name: given.name, waitsFor })
              ? `sent ${given.name} to ${execution}`
              : `kept ${given.name}: ${execution} does not wait for it now, but for ${joinOr(waitsFor)}.${suggestion(given.name, waitsFor)}`
        const message =
          outcome === "completed" ? sent : `${execution} already has a value for ${given.name}, which is unchanged`
        yield* Console.log(given.json ? JSON.stringify({ execution, outcome, waitsFor }, null, 2) : message)
      }).pipe(Operator.acting(given.reason), Effect.provide(QueueLayer.layerForCommand))
    }).pipe(Settings.configured(CommonOptions.databaseFlags(given)))
).pipe(
  Command.withDescription("Send a signal. A signal that arrives before its execution waits for it is kept until then.")
)

export const cancel = Command.make(
  "cancel",
  {
    ...actOptions,
    now: Options.boolean("now").pipe(
      Options.withDescription("End the execution immediately, without undoing its steps.")
    )
  },
  (given) =>
    Effect.gen(function* () {
      const workflows = yield* Workflows
      const audited = yield* Audited.make
      const execution = yield* executionOf(given.id)
      const { cancelled } = yield* workflows
        .cancel(execution, { now: given.now })
        .pipe(audited("workflow.cancel", execution, ({ cancelled }) => ({ after: { now: given.now, cancelled } })))
      const children = cancelled > 1 ? ` and ${cancelled - 1} children` : ""
      const message = given.now
        ? `ended ${execution}${children}; its steps were not undone`
        : `cancelling ${execution}${children}`
      yield* Console.log(given.json ? JSON.stringify({ execution, cancelled }, null, 2) : message)
    }).pipe(
      Operator.acting(given.reason),
      Effect.provide(QueueLayer.layerForCommand),
      Settings.configured(CommonOptions.databaseFlags(given))
    )
).pipe(Command.withDescription("Cancel an execution and its children, and undo their steps."))

export const retry = Command.make("retry", actOptions, (given) =>
  Effect.gen(function* () {
    const workflows = yield* Workflows
    const audited = yield* Audited.make
    const execution = yield* executionOf(given.id)
    yield* workflows.retry(execution).pipe(audited("workflow.retry", execution, ({ state }) => ({ after: { state } })))
    if (given.json) return yield* print(yield* workflows.show(execution), true)
    yield* Console.log(`retrying ${execution}`)
  }).pipe(
    Operator.acting(given.reason),
    Effect.provide(QueueLayer.layerForCommand),
    Settings.configured(CommonOptions.databaseFlags(given))
  )
).pipe(
  Command.withDescription("Run a failed or cancelled execution again from where it ended, or try a changed one now.")
)

export const fork = Command.make(
  "fork",
  {
    ...actOptions,
    step: Args.text({ name: "step" }).pipe(Args.withDescription("The first step that runs again.")),
    as: Options.text("as").pipe(
      Options.withDescription("Id of the new execution (default: generated)."),
      Options.optional
    )
  },
  (given) =>
    Effect.gen(function* () {
      const workflows = yield* Workflows
      const audited = yield* Audited.make
      const execution = yield* executionOf(given.id)
      const forked = yield* workflows
        .fork(execution, given.step, { as: Option.getOrUndefined(given.as) })
        .pipe(
          audited("workflow.fork", execution, (after) => ({ after: { step: given.step, execution: after.execution } }))
        )
      yield* Console.log(given.json ? JSON.stringify(forked, null, 2) : `started ${forked.execution}`)
    }).pipe(
      Operator.acting(given.reason),
      Effect.provide(QueueLayer.layerForCommand),
      Settings.configured(CommonOptions.databaseFlags(given))
    )
).pipe(Command.withDescription("Start a new execution from a step of another one."))

export const command = Command.make("workflows").pipe(
  Command.withDescription("List, inspect and control workflow executions."),
  Command.withSubcommands([list, show, start, signal, cancel, retry, fork])
)
