import { Cause, Effect, Either, GlobalValue, Predicate } from "effect"
import type { DurationInput } from "../../core/DurationInput.js"
import { issuesText } from "../../core/Issues.js"
import { withIdentity } from "../../core/Kind.js"
import * as Outcome from "../../core/Outcome.js"
import { jsonText, shown } from "../../core/Storable.js"
import { limits } from "../../core/StoredJob.js"
import type { Continuation } from "../../core/Suspension.js"
import * as Thrown from "../../core/Thrown.js"
import * as Core from "../../handlers/Handler.js"
import type { JobContext } from "../../handlers/JobContext.js"
import { Events } from "../../queue/events/Events.js"
import type { ClaimedExecution, Queue } from "../../queue/Queue.js"
import { Transactions } from "../../queue/Transactions.js"
import * as ChangedCode from "../../queue/workflow/ChangedCode.js"
import { Workflows } from "../../queue/workflow/Workflows.js"
import { RateLimits } from "../../rate-limits/RateLimits.js"
import type { Schedule } from "../../schedule/ScheduleSettings.js"
import { isFirstRun, storedWithEnqueue } from "../../workflow/Journal.js"
import { checkJob, type Enqueueable } from "../Enqueue.js"
import type { EventDefinition } from "../EventDefinition.js"
import { defined, type JobOptions, type RetryOptions, type ScheduleOptions } from "../JobDefinition.js"
import { checkCode } from "../Options.js"
import * as PromiseHandler from "../PromiseHandler.js"
import type { Handler } from "../Recipe.js"
import { InvalidOptionError } from "../ShiftErrors.js"
import type { Decoded, StandardSchema } from "../StandardSchema.js"
import { type AskSchemas, askSchemaOf, checkAsks } from "./Asks.js"
import { keyOf, type Startable, type WorkflowDefinition } from "./ExecutionHandle.js"
import { checkSignals, type SignalSchemas, schemaOf } from "./Signals.js"
import * as StartOn from "./StartOn.js"
import type { ChildCall, Step } from "./Step.js"
import * as Steps from "./Steps.js"
import { WorkflowRun } from "./WorkflowRun.js"

/** `attempts`, `backoff` and `jitter` apply to runs that fail for reasons outside the code, such as a lost connection. A failure of the code is final. */
export interface WorkflowOptions<
  In,
  Out,
  ROut,
  Signals extends SignalSchemas = SignalSchemas,
  Asks extends AskSchemas = AskSchemas
> extends RetryOptions {
  /** Validates payloads, at the start and before every run: zod, valibot, arktype, or any other Standard Schema. */
  readonly payload: StandardSchema<In, Out>
  /** Names an execution: while it is retained, starting it again returns the same one. [a new name for each start] */
  readonly key?: ((payload: In) => string) | undefined
  /**
   * Starts an execution for each of these events, with its data as payload. The subscriber has the name of the workflow and `:start`;
   * without a `key`, the execution has the id of the event. [none]
   */
  readonly startOn?: EventDefinition<In> | undefined
  /** Validates the result when it is read. */
  readonly result?: StandardSchema<unknown, ROut> | undefined
  /** Validators of the signals that executions receive, by name. Other names are refused. [any name, not validated] */
  readonly signals?: Signals | undefined
  /**
   * Validators of the asks that executions answer, by name: `{ addItem: { payload: schema, result: schema } }`. Other names are
   * refused. [any name, not validated]
   */
  readonly asks?: Asks | undefined
  /** Raise it with changes that older code cannot run: processes with an older version leave such executions alone. [1] */
  readonly version?: number | undefined
  /** Converts stored payloads to the next version: `1` takes version 1 and returns version 2. [payloads are kept] */
  readonly upcasters?: JobOptions<In, Out, never, unknown>["upcasters"] | undefined
  /** Queue that executions wait in. [the declared routes, then `default`] */
  readonly queue?: string | undefined
  /** Lower runs first, from -32768 to 32767. [0] */
  readonly priority?: number | undefined
  /** Time limit of one run, without the time it is suspended. [15m] */
  readonly timeout?: DurationInput | undefined
  /**
   * Whether an execution is run only by processes with the release of the code that ran it first. Other releases leave it
   * alone, until it ends, continues with a new journal or is unpinned. [false]
   */
  readonly pin?: boolean | undefined
}

/** The services that a workflow needs. @internal */
export type WorkflowServices = Workflows | Transactions | Queue | Events | RateLimits

/** Compares the code of a workflow with the journal of a finished execution, and says how it differs. For tests. @internal */
export type Compare = (payload: never, job: JobContext) => Effect.Effect<string | undefined, unknown, WorkflowServices>

const comparisons = GlobalValue.globalValue("nightshift/client/comparisons", () => new WeakMap<object, Compare>())

/** How to compare an execution that this handler has run. Nothing for handlers that are no workflows. @internal */
export const comparisonOf = ({ run }: { readonly run: object }): Compare | undefined => comparisons.get(run)

/** A workflow. Pass it to `worker` or `testShift` as a handler; call it to make a child for `step.all`. */
export interface Workflow<in In, out Result, out Signals = SignalSchemas, out Asks = AskSchemas>
  extends Handler,
    Startable<In, Result, Signals, Asks> {
  (payload: In): ChildCall<Result>
  /** A schedule that starts an execution at each of its times, for `worker(shift, { schedules })`. */
  schedule(name: string, options: ScheduleOptions<In>): Schedule
}

const runOf = Effect.fnUntraced(function* (
  workflow: string,
  execution: ClaimedExecution,
  isFirst: boolean,
  isPinned: boolean
) {
  const services = {
    workflows: yield* Workflows,
    transactions: yield* Transactions,
    limits: yield* RateLimits,
    events: yield* Events
  }
  const runtime = yield* Effect.runtime<never>()
  return new WorkflowRun(workflow, execution, services, runtime, yield* Effect.clock, isFirst, isPinned)
})

/** The payload of a new journal as it is stored. */
const continuationOf = (payload: unknown, version: number): Continuation => {
  const text = Either.getOrThrowWith(
    jsonText(payload, limits.payloadBytes),
    (reason) => new InvalidOptionError("payload", `The payload of step.continueAs ${reason}.`)
  )
  return { payload: text, version }
}

/**
 * Declares a workflow: a function whose progress survives crashes, deploys and waiting.
 *
 * @example
 * ```ts
 * import { connect, worker, workflow } from "nightshift/client"
 * import { z } from "zod"
 *
 * const options = { payload: z.object({ id: z.string() }), key: ({ id }: { id: string }) => id }
 * const order = workflow("order", options, async ({ id }, step) => {
 *   const charge = await step.run("charge", async ({ idempotencyKey }) => `charge ${id} once: ${idempotencyKey}`)
 *   await step.sleep("cooling-off", "14d")
 *   return charge
 * })
 * const shift = await connect()
 * await worker(shift, { handlers: [order] })
 * const run = await shift.start(order, { id: "A-17" })
 * console.log(await run.result())
 * ```
 */
export const workflow = <
  In,
  Out = In,
  Result = unknown,
  ROut = Result,
  Signals extends SignalSchemas = SignalSchemas,
  Asks extends AskSchemas = AskSchemas
>(
  name: string,
  options: WorkflowOptions<In, Out, ROut, Signals, Asks>,
  code: (payload: Out, step: Step<Signals, In, Asks>) => Promise<Result>
): Workflow<In, ROut, Signals, Asks> => {
  const { asks, key, pin = false, signals, startOn, ...given } = options
  const rest = { ...given, upcasters: withIdentity(given) }
  const definition = defined(name, rest as JobOptions<In, Out, Result, ROut>)
  checkCode(`workflow("${name}", options, code)`, code)
  checkSignals(name, signals)
  checkAsks(name, asks)
  if (typeof pin !== "boolean")
    throw new InvalidOptionError("pin", `pin of "${name}" must be true or false, got ${shown(pin)}.`)
  const continuation = (payload: unknown): Continuation | Promise<Continuation> => {
    const encoded = definition.encode(payload as In)
    const { version } = definition.kind
    return encoded instanceof Promise
      ? encoded.then((stored) => continuationOf(stored, version))
      : continuationOf(encoded, version)
  }
  const stepsOf = (run: WorkflowRun, isFork: boolean) =>
    Steps.make(
      run,
      isFork,
      (signal) => schemaOf(name, signals, signal),
      (ask) => askSchemaOf(name, asks, ask),
      continuation
    ) as unknown as Step<Signals, In, Asks>

  // One generator function per workflow, not per run: V8 keeps each one, and what it refers to, until a full collection.
  const runOnce = Effect.fnUntraced(function* (decoded: Decoded, context: JobContext) {
    const { execution } = context
    if (execution === undefined) return storedWithEnqueue(name, "shift.start(workflow, payload)")
    const checked = yield* Effect.tryPromise({ try: async () => decoded, catch: Thrown.plain })
    if (checked.issues !== undefined) {
      const reason = issuesText("payload", checked.issues)
      // Nothing has happened yet, and other code would not accept it either.
      if (execution.woken === 0 && execution.version === definition.kind.version) {
        return Outcome.dead(`the payload is invalid: ${reason}`)
      }
      return ChangedCode.ofPayload(reason, execution, (yield* Effect.clock).unsafeCurrentTimeMillis())
    }
    const run = yield* runOf(name, execution, isFirstRun(execution, context.attempt), pin)
    const step = stepsOf(run, Predicate.hasProperty(context.meta, "forkOf"))
    execution.state.onCancel(() => run.cancel())
    return yield* Effect.async<unknown, unknown>((resume) => {
      run
        .run(async () => code(checked.value as Out, step))
        .then(
          (result) => resume(Effect.succeed(result)),
          (error: unknown) => resume(Effect.failCause(Cause.fail(Thrown.plain(error))))
        )
      return Effect.promise(() => run.stop())
    })
  })
  const kind = { ...definition.kind, workflow: true, ...(pin ? { pinned: true } : {}) }
  const handler = Core.make(kind, runOnce)

  const compare = (decoded: Decoded, { execution }: JobContext) =>
    Effect.gen(function* () {
      const checked = yield* Effect.tryPromise({ try: async () => decoded, catch: Thrown.plain })
      // A cancelled execution is compared by its own run, which starts nothing either.
      if (execution === undefined || execution.cancelled || checked.issues !== undefined) return undefined
      const run = yield* runOf(name, execution, false, false)
      return yield* Effect.tryPromise(() => run.compare(async () => code(checked.value as Out, stepsOf(run, false))))
    })

  const call = (payload: In): ChildCall<ROut> => {
    const given = keyOf(name, key, payload)
    const execution = given === undefined ? undefined : `${name}/${given}`
    return { job: definition as Enqueueable<never, ROut>, payload, execution, isWorkflow: true }
  }
  const also = startOn === undefined ? [] : [StartOn.starter(name, definition, startOn, key)]
  const core = { ...(handler as unknown as Core.Handler<WorkflowServices>), source: `${code}`, also }
  comparisons.set(core.run, compare as Compare)
  Object.defineProperty(call, "name", { value: name })
  const described: WorkflowDefinition<In, ROut, Signals, Asks> = { job: definition, key, signals, asks }
  const schedule: Workflow<In, ROut, Signals, Asks>["schedule"] = (...given) => ({
    ...definition.schedule(...given),
    workflow: true
  })
  const held = Object.assign(call, { definition: described, schedule })
  return PromiseHandler.of(held, core, { call: "workflow", name, options, run: code })
}

/** A plain job as a child of a workflow. */
export const child = <In, Result>(target: Enqueueable<In, Result>, payload: In): ChildCall<Result> => {
  checkJob("child", target)
  return { job: target as Enqueueable<never, Result>, payload, execution: undefined, isWorkflow: false }
}
