import * as Activity from "@effect/workflow/Activity"
import * as DurableClock from "@effect/workflow/DurableClock"
import * as Workflow from "@effect/workflow/Workflow"
import { type Encoded, WorkflowEngine, WorkflowInstance } from "@effect/workflow/WorkflowEngine"
import { Cause, Clock, Effect, Exit, Fiber, Layer, Schema } from "effect"
import { type DurationInput, decode } from "../core/DurationText.js"
import { type KindOptions, withIdentity } from "../core/Kind.js"
import * as Outcome from "../core/Outcome.js"
import * as Suspension from "../core/Suspension.js"
import * as Handler from "../handlers/Handler.js"
import type { JobContext } from "../handlers/JobContext.js"
import * as Job from "../queue/Job.js"
import type { TagChanges } from "../queue/workflow/Execution.js"
import * as Undos from "../queue/workflow/Undo.js"
import { InvalidTags } from "../queue/workflow/WorkflowErrors.js"
import { Workflows } from "../queue/workflow/Workflows.js"
import * as Schedule from "../schedule/Schedule.js"
import * as ActivityHeartbeat from "./ActivityHeartbeat.js"
import * as Compensation from "./Compensation.js"
import { CurrentRun } from "./CurrentRun.js"
import * as Engine from "./EffectEngine.js"
import * as ExitJson from "./ExitJson.js"
import { isFirstRun, storedWithEnqueue } from "./Journal.js"
import * as MessageCalls from "./MessageCalls.js"
import { Run } from "./Run.js"

/** Job options of the workflows' executions. */
export interface Options
  extends Pick<
    KindOptions<never, never>,
    "queue" | "priority" | "version" | "upcasters" | "timeout" | "attempts" | "backoff"
  > {
  /**
   * Whether an execution is run only by processes with the release of the code that ran it first. The release of these
   * workflows is NIGHTSHIFT_WORKER_VERSION. [false]
   */
  readonly pin?: boolean | undefined
}

/** Workflows that run on the job queue. */
export interface NightshiftWorkflows {
  /** Pass them to `Nightshift.layer`, `TestShift.layer` or `worker`. */
  readonly handlers: ReadonlyArray<Handler.Handler<Workflows>>
  /** The engine of `@effect/workflow`. `toLayer` of the workflows registers their code in it. */
  readonly layer: Layer.Layer<WorkflowEngine, never, Workflows>
  /** A schedule that starts an execution of the workflow at each of its times, for `Nightshift.layer({ schedules })`. */
  readonly schedule: <W extends Workflow.Any>(
    workflow: W,
    name: string,
    options: Schedule.ScheduleSettings & {
      /** Payload of every execution. */
      readonly payload: W["payloadSchema"]["Type"]
    }
  ) => Schedule.Schedule
}

type Code = Parameters<Encoded["register"]>[1]

/** Registered code, and its runs in this process. */
interface Registered {
  readonly code: Code
  readonly runs: Set<Effect.Effect<unknown>>
}

/** How long a cancel waits for the activities that run. */
const cancelGrace = "5 seconds"

/** Reports activities that did not end in time after a cancel. */
const logInterrupted = ({ execution, running }: Run) =>
  running.length === 0
    ? Effect.void
    : Effect.logWarning(
        `execution ${execution.id} was cancelled and interrupts ${running.join(", ")}, which did not end in time: if it took effect, it is not compensated`
      )

/** Waits for a cancel, and then for the activities that run: those that end are recorded, and can be compensated. */
const untilCancelled = (run: Run) =>
  run.cancelled.await.pipe(
    Effect.zipRight(Effect.timeoutOption(run.idle.await, cancelGrace)),
    Effect.zipRight(Effect.suspend(() => logInterrupted(run)))
  )

/**
 * Runs an effect in a separate fiber. If the run must stop, the run is marked as suspended before the fiber is
 * interrupted. A cancel stops the code of the workflow, but not its compensations.
 */
const supervised = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  run: Run,
  instance: WorkflowInstance["Type"],
  runs: Registered["runs"],
  until: Effect.Effect<void> = Effect.never
) =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function* () {
      const fiber = yield* Effect.fork(restore(effect))
      const stop = Effect.suspend(() => {
        run.isStopping = true
        instance.suspended = true
        return Fiber.interrupt(fiber)
      })
      runs.add(stop)
      const ended = Fiber.await(fiber)
      const stopped = Effect.zipRight(until, Effect.zipRight(stop, ended))
      return yield* restore(Effect.raceFirst(ended, stopped)).pipe(
        Effect.onInterrupt(() => stop),
        Effect.ensuring(Effect.sync(() => runs.delete(stop)))
      )
    })
  )

/** The finalizers in the order in which they run: those of the last step first. */
const ordered = (run: Run): ReadonlyArray<Compensation.Undo & { readonly name: string }> => {
  const used = new Map<string, number>()
  const named = run.undos.map(({ finalizer, step = "finalizer" }) => {
    const times = (used.get(step) ?? 0) + 1
    used.set(step, times)
    return { finalizer, step, name: times === 1 ? step : `${step}/${times}` }
  })
  return named
    .map((undo, index) => ({ undo, index, sequence: run.lastSequence(undo.step) }))
    .sort((a, b) => b.sequence - a.sequence || b.index - a.index)
    .map(({ undo }) => undo)
}

/** Runs one execution until it ends or waits. */
const runExecution = (
  workflow: Workflow.Any,
  { code, runs }: Registered,
  payload: object,
  run: Run,
  engine: WorkflowEngine["Type"]
) =>
  Effect.gen(function* () {
    const { cancelled, id } = run.execution
    const initial = WorkflowInstance.initial(workflow, id)
    const instance = { ...initial, scope: Compensation.scopeOn(initial.scope, run.undos) }
    const suspension = (error?: string) =>
      Suspension.make({ woken: run.isStopping ? -1 : run.woken, waits: [...run.open.values()], error })

    const ended = yield* code(payload, id).pipe(
      Workflow.intoResult,
      Effect.provideService(WorkflowInstance, instance),
      Effect.provideService(WorkflowEngine, engine),
      Effect.provideService(CurrentRun, run),
      (body) => supervised(body, run, instance, runs, untilCancelled(run))
    )
    yield* run.healthy
    if (run.isStopping) return suspension()
    // A defect that the workflow does not capture is not a result: the queue retries the run.
    if (Exit.isFailure(ended) && !Cause.isInterruptedOnly(ended.cause)) return yield* ended
    const isOver = cancelled || run.failure !== undefined
    const isSuspended = Exit.isSuccess(ended) && ended.value._tag === "Suspended"
    if (
      run.follower.difference !== undefined ||
      ((isOver || !isSuspended) && !(yield* run.follower.follows(undefined)))
    ) {
      return yield* run.changed
    }
    if (run.next !== undefined && !isOver) {
      if (!(yield* run.follower.follows(undefined))) return yield* run.changed
      return Suspension.make({ woken: -1, waits: [], caughtUp: true, continues: run.next })
    }
    if (Exit.isSuccess(ended) && ended.value._tag === "Suspended" && !isOver) {
      return suspension(ended.value.cause && ExitJson.textOf(ended.value.cause))
    }

    const own =
      Exit.isSuccess(ended) && ended.value._tag === "Complete"
        ? ended.value.exit
        : Exit.interrupt(yield* Effect.fiberId)
    const exit =
      run.failure !== undefined
        ? yield* ExitJson.decodeOf(workflow, run.failure)
        : cancelled && Exit.isSuccess(own)
          ? Exit.interrupt(yield* Effect.fiberId)
          : own
    const json = yield* ExitJson.encodeOf(workflow, exit)
    const isFailed = Exit.isFailure(exit) && !(cancelled && Cause.isInterruptedOnly(exit.cause))
    if (isFailed && run.failure === undefined) {
      yield* run.conclude({ name: ExitJson.failureStep, kind: "run" }, json)
    }

    if (cancelled && !run.execution.dying) {
      const waiting = yield* run.attempt(run.untilChildrenAreUndone(yield* Clock.currentTimeMillis))
      yield* run.healthy
      if (waiting !== undefined) return waiting
    }

    const failures: Array<string> = []
    for (const undo of ordered(run)) {
      const name = Undos.nameOf(undo.name)
      const failed = (cause: Cause.Cause<unknown>) => Undos.failureText(name, ExitJson.textOf(cause))
      const before = Exit.isFailure(exit) ? yield* run.recorded(name) : undefined
      if (before !== undefined) {
        if (Exit.isFailure(before)) failures.push(failed(before.cause))
        continue
      }
      instance.suspended = false
      run.open.clear()
      run.undoing = undo.name
      const undone = yield* supervised(undo.finalizer(exit), run, instance, runs)
      run.undoing = undefined
      yield* run.healthy
      if (run.isStopping || (Exit.isInterrupted(undone) && run.open.size > 0)) return suspension()
      if (Exit.isFailure(undone)) failures.push(failed(undone.cause))
      if (Exit.isFailure(exit)) {
        const outcome = Exit.asVoid(Exit.mapError(undone, String))
        yield* run.conclude({ name, kind: "undo" }, ExitJson.encode(outcome))
      }
    }
    yield* run.healthy
    if (run.isStopping) return suspension()
    if (Exit.isSuccess(exit)) return Outcome.done(json._tag === "Success" ? json.value : undefined)
    return Undos.outcomeOf(isFailed ? { message: ExitJson.textOf(exit.cause), trace: "" } : undefined, failures)
  })

/**
 * Makes the engine for these workflows, and the handlers that run them. The workflows' code comes from their `toLayer`, on
 * top of `layer`.
 */
export const make = (
  workflows: ReadonlyArray<Workflow.Any>,
  { pin = false, ...options }: Options = {}
): NightshiftWorkflows => {
  const registered = new Map<string, Registered>()
  const kinds = new Map<string, Job.JobKind<unknown>>()
  const kindOf: Engine.KindOf = (workflow) => {
    const known = kinds.get(workflow.name)
    if (known !== undefined) return known
    const made = Job.make(workflow.name, {
      ...options,
      upcasters: withIdentity(options),
      payload: workflow.payloadSchema as never
    }) as Job.JobKind<unknown>
    const kind = { ...made, workflow: true, ...(pin ? { pinned: true } : {}) }
    kinds.set(workflow.name, kind)
    return kind
  }

  const register: Encoded["register"] = (workflow, code) => {
    const entry: Registered = { code, runs: new Set() }
    return Effect.acquireRelease(
      Effect.sync(() => void registered.set(workflow.name, entry)),
      // The services of the code close next: its runs are suspended and continue in another process.
      () =>
        Effect.suspend(() => {
          if (registered.get(workflow.name) === entry) registered.delete(workflow.name)
          return Effect.forEach(entry.runs, (stop) => stop, { concurrency: "unbounded", discard: true })
        })
    )
  }

  const engineOf = (service: typeof Workflows.Service) => Engine.make(service, kindOf, register)

  const handlerOf = (workflow: Workflow.Any) =>
    Handler.make(kindOf(workflow), (payload, { attempt, execution }: JobContext) =>
      Effect.gen(function* () {
        if (execution === undefined) return storedWithEnqueue(workflow.name, "execute() of the workflow")
        const entry = registered.get(workflow.name)
        if (entry === undefined) {
          yield* Effect.logWarning(`workflow "${workflow.name}" has no code in this process: provide its toLayer(...)`)
          return Outcome.snooze("1 second")
        }
        const service = yield* Workflows
        const run = new Run(execution, service, kindOf(workflow).version)
        execution.state.onCancel(() => run.cancel())
        if (!isFirstRun(execution, attempt)) yield* run.load
        if (pin && !execution.cancelled) yield* run.attempt(run.pin(run.isBlank))
        yield* run.healthy
        if (run.isStopping) return Suspension.make({ woken: -1, waits: [] })
        return yield* runExecution(workflow, entry, payload as object, run, engineOf(service))
      })
    ) as Handler.Handler<Workflows>

  return {
    handlers: workflows.map(handlerOf),
    layer: Layer.effect(WorkflowEngine, Effect.map(Workflows, engineOf)),
    schedule: (workflow, name, options) => ({
      ...Schedule.make(name, { ...options, job: kindOf(workflow) }),
      workflow: true
    })
  }
}

/**
 * Ends the journal of the execution, and runs the workflow from its start with this payload, under the same id. Compensations
 * of steps before the call do not run later, and children that still run are on their own.
 */
export const continueAs = <W extends Workflow.Any>(
  workflow: W,
  payload: W["payloadSchema"]["Type"]
): Effect.Effect<never, never, WorkflowInstance> =>
  Effect.gen(function* () {
    const instance = yield* WorkflowInstance
    const run = yield* Engine.currentRunOf("continueAs")
    const encoded = yield* Schema.encode(workflow.payloadSchema as unknown as Schema.Schema<unknown, unknown>)(payload)
    yield* run.continueAs(encoded)
    return yield* Workflow.suspend(instance)
  }).pipe(Effect.orDie)

/**
 * Reports that an activity is alive: its run may take the `timeout` of a run again from now on. The details, a JSON value of at
 * most 4 KiB, are stored for the next attempt, at most every 5 seconds. Dies outside of an activity.
 */
export const heartbeat: (details?: unknown) => Effect.Effect<void> = ActivityHeartbeat.heartbeat

/** Details of the last heartbeat of an earlier attempt of this activity, perhaps in a process that crashed. */
export const lastHeartbeat: Effect.Effect<unknown> = ActivityHeartbeat.lastHeartbeat

/**
 * Sets tags of the execution that runs, by which lists find it: `{ customer: "42" }`. Null removes a tag. It is an activity with
 * the name `tag`: name each one if there are several.
 */
export const tag = (
  tags: TagChanges,
  options: {
    /** Name of the activity. [`tag`] */
    readonly name?: string
  } = {}
): Effect.Effect<void, InvalidTags, WorkflowEngine | WorkflowInstance> =>
  Activity.make({
    name: options.name ?? "tag",
    error: InvalidTags,
    execute: Effect.gen(function* () {
      const run = yield* Engine.currentRun
      const set = Effect.as(run.workflows.tagHeld(run.execution.run, tags), undefined)
      const refused = yield* run.attempt(Effect.catchTag(set, "InvalidTags", (error) => Effect.succeed(error)))
      if (refused !== undefined) return yield* refused
    })
  })

/**
 * Takes the next value of a signal: all its values one after another, in the order of their arrival, each at most once. `schema`
 * decodes it from JSON; a value that does not match is a defect. Calls are numbered in the order in which the code makes them,
 * so only one fiber may take the values of a signal. Send them with `Workflows.signal({ execution, name, value })`.
 */
export const next: <A = unknown, I = unknown>(
  signal: string,
  options?: {
    /** Decodes the value. [any JSON value] */
    readonly schema?: Schema.Schema<A, I> | undefined
  }
) => Effect.Effect<A, never, WorkflowEngine | WorkflowInstance> = MessageCalls.next

/**
 * Sets a value that `Workflows.values`, the API and Mission Control show: the last one of each name. At most 4 KiB as JSON, and
 * 100 names. Recorded like an activity.
 */
export const set: (name: string, value: unknown) => Effect.Effect<void, never, WorkflowEngine | WorkflowInstance> =
  MessageCalls.set

/** How often and after which delays an activity is tried again. */
export interface RetryOptions {
  /** Attempts of the activity, counting the first. */
  readonly attempts: number
  /** Delay before the next attempt. It is durable: it takes no slot and survives a restart. */
  readonly delay: DurationInput | ((attempt: number) => DurationInput)
}

/** Runs an activity again if it fails, with durable waits between the attempts. */
export const retry = <A, E, R>(
  activity: Effect.Effect<A, E, R> & {
    /** Name of the activity, from which the names of its waits are derived. */
    readonly name: string
  },
  { attempts, delay }: RetryOptions
): Effect.Effect<A, E, R | WorkflowEngine | WorkflowInstance> => {
  const delayOf = typeof delay === "function" ? delay : () => delay
  const from = (attempt: number): Effect.Effect<A, E, R | WorkflowEngine | WorkflowInstance> =>
    Effect.catchAll(Effect.provideService(activity, Activity.CurrentAttempt, attempt), (error) =>
      attempt >= attempts
        ? Effect.fail(error)
        : Effect.zipRight(
            DurableClock.sleep({ name: `${activity.name}/${attempt}`, duration: decode(delayOf(attempt)) }),
            from(attempt + 1)
          )
    )
  return from(1)
}
