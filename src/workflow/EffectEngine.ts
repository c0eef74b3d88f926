import * as Workflow from "@effect/workflow/Workflow"
import { type Encoded, makeUnsafe, type WorkflowEngine, WorkflowInstance } from "@effect/workflow/WorkflowEngine"
import { Cause, Clock, Duration, Effect, Exit, Option } from "effect"
import type { JobKind } from "../queue/Job.js"
import type { NewChild, Workflows } from "../queue/workflow/Workflows.js"
import { watched } from "./ActivityHeartbeat.js"
import { CurrentActivity, CurrentRun } from "./CurrentRun.js"
import * as ExitJson from "./ExitJson.js"
import type { Run } from "./Run.js"

// Implements the engine of @effect/workflow on Nightshift's journal. Calls of a running workflow go through its `Run`.

/** The name of the activity inside its code, where a wait cannot suspend without repeating the activity. */
export const insideActivity = Effect.map(CurrentActivity, (activity) => activity?.name)

const suspended = new Workflow.Suspended({})
const complete = (exit: Exit.Exit<unknown, unknown> | undefined) =>
  exit === undefined ? suspended : new Workflow.Complete({ exit })

const clockName = "DurableClock/"

/** The run whose code calls the engine. Dies outside of a workflow. */
export const currentRun: Effect.Effect<Run> = Effect.flatMap(Effect.serviceOption(CurrentRun), (run) =>
  Option.isSome(run)
    ? Effect.succeed(run.value)
    : Effect.dieMessage("This call is only possible inside a Nightshift workflow.")
)

/** The run of a call that ends it: not inside an activity or a compensation. */
export const currentRunOf = (call: string): Effect.Effect<Run> =>
  Effect.gen(function* () {
    const run = yield* currentRun
    const inside = (yield* insideActivity) ?? run.undoing
    if (inside === undefined) return run
    return yield* Effect.dieMessage(`${call} is not possible inside "${inside}". Call it in the code of the workflow.`)
  })

/** How long the code of a short durable sleep would sleep. */
const sleepOf = (code: Effect.Effect<unknown, unknown, unknown>) =>
  Effect.gen(function* () {
    let millis = 0
    const clock = yield* Effect.clock
    const measuring: Clock.Clock = {
      [Clock.ClockTypeId]: Clock.ClockTypeId,
      currentTimeMillis: clock.currentTimeMillis,
      currentTimeNanos: clock.currentTimeNanos,
      unsafeCurrentTimeMillis: () => clock.unsafeCurrentTimeMillis(),
      unsafeCurrentTimeNanos: () => clock.unsafeCurrentTimeNanos(),
      sleep: (duration) =>
        Effect.sync(() => {
          millis += Duration.toMillis(duration)
        })
    }
    yield* Effect.withClock(code, measuring)
    return millis
  }) as Effect.Effect<number>

/** The instance for the code of an activity, and an effect that ends when something inside waits. */
const suspendable = (instance: WorkflowInstance["Type"]) => {
  const latch = Effect.unsafeMakeLatch(false)
  let isSuspended = false
  Object.defineProperty(instance, "suspended", {
    get: () => isSuspended,
    set: (value: boolean) => {
      isSuspended = value
      if (value) latch.unsafeOpen()
    }
  })
  return { instance, suspension: latch.await }
}

const runActivity = (run: Run, given: Parameters<Encoded["activityExecute"]>[0], asked: number) =>
  Effect.gen(function* () {
    const instance = yield* WorkflowInstance
    const name = run.nameOf(given.name)
    const attempt = run.attemptOf(name, asked)
    const before = yield* run.request(name, "run", attempt)
    if (before !== "start") return complete(before)
    const startedAt = yield* Clock.currentTimeMillis
    const inner = suspendable(WorkflowInstance.initial(instance.workflow, instance.executionId))
    const code = given.executeEncoded as Effect.Effect<unknown, unknown>
    const result = yield* code.pipe(
      watched(run, { name, attempt: run.attemptsBefore(name) + attempt, startedAt }),
      // Waits side by side end as a failure that the activity would retry, instead of an interruption of its fiber.
      Effect.raceFirst(Effect.zipRight(inner.suspension, Effect.interrupt)),
      Workflow.intoResult,
      Effect.provideService(WorkflowInstance, inner.instance),
      Effect.provideService(CurrentActivity, { name, attempt }),
      Effect.onError((cause) =>
        Cause.isInterruptedOnly(cause) ? run.abandon({ name, attempt, startedAt }, instance.suspended) : Effect.void
      )
    )
    // An interrupted activity has no result and runs again.
    if (result._tag === "Suspended" || Exit.isInterrupted(result.exit)) return result
    return complete(yield* run.conclude({ name, kind: "run", attempt, startedAt }, ExitJson.encode(result.exit)))
  })

/** How much longer than before the code may wait for an activity that it interrupted in an earlier run. */
const slack = Duration.seconds(10)

/**
 * An activity that the code interrupted in an earlier run: it never ends, until the code interrupts it again. Undefined
 * for other activities.
 */
const abandonedActivity = (run: Run, given: string, asked: number) =>
  Effect.gen(function* () {
    const name = run.nameOf(given)
    const attempt = run.attemptOf(name, asked)
    const after = run.abandonedAfter(name, attempt)
    if (after === undefined) return undefined
    yield* run.request(name, "run", attempt)
    yield* Effect.sleep(Duration.sum(Duration.millis(2 * after), slack))
    run.follower.difference ??= { recorded: `${name} (interrupted)`, requested: `${name} (not interrupted)` }
    return suspended
  })

/** How executions of a workflow are stored as jobs. */
export type KindOf = (workflow: Workflow.Any) => JobKind<unknown>

/** Makes the engine. `NightshiftWorkflow` registers and runs workflows. */
export const make = (
  workflows: typeof Workflows.Service,
  kindOf: KindOf,
  register: Encoded["register"]
): WorkflowEngine["Type"] => {
  const jobOf = (workflow: Workflow.Any, payload: object, execution: string) =>
    Effect.map(kindOf(workflow).job(payload), ({ dedupe: _, id: __, ...job }): NewChild & { execution: string } => ({
      ...job,
      execution
    }))

  const exitOf = (execution: string) =>
    workflows.show(execution).pipe(
      Effect.map((found) => ({ json: ExitJson.ofExecution(found), state: found.state })),
      Effect.catchTag("ExecutionNotFound", () => Effect.succeed(undefined)),
      Effect.orDie
    )

  const poll: Encoded["poll"] = (workflow, execution) =>
    Effect.gen(function* () {
      const found = yield* exitOf(execution)
      if (found === undefined) return undefined
      if (found.json !== undefined) return complete(yield* ExitJson.decodeOf(workflow, found.json))
      return found.state === "waiting" || found.state === "sleeping" || found.state === "changed"
        ? suspended
        : undefined
    })

  /** Runs a workflow as a child. The wait for its end is a row, so that any number of parents can wait. */
  const runChild = (
    run: Run,
    workflow: Workflow.Any,
    { discard, executionId, payload }: Parameters<Encoded["execute"]>[1]
  ) =>
    Effect.gen(function* () {
      const name = run.nameOf(`${workflow.name}/${executionId}`)
      const before = yield* run.request(name, "children")
      if (before === undefined) return suspended
      if (before !== "start") return complete(yield* ExitJson.decodeOf(workflow, ExitJson.encode(before)))
      const started = run.deferred("children", name)
      if (started === undefined) {
        const child = yield* Effect.orDie(jobOf(workflow, payload, executionId))
        yield* run.attempt(workflows.startChildren(run.execution.run, name, [child], { detached: discard }))
      }
      if (discard) return suspended
      // Children side by side all start: the first that waits interrupts the fibers that have not started theirs.
      if (started === undefined) yield* run.follower.quiet()
      const ended = started?.completedAt === undefined ? undefined : yield* exitOf(executionId)
      if (ended?.json === undefined) {
        run.wait(name, { kind: "children", name }, yield* insideActivity)
        return suspended
      }
      const startedAt = run.begunAt("children", name, yield* Clock.currentTimeMillis)
      const exit = yield* run.conclude({ name, kind: "children", startedAt }, ended.json)
      return exit === undefined ? suspended : complete(yield* ExitJson.decodeOf(workflow, ExitJson.encode(exit)))
    })

  return makeUnsafe({
    register,
    execute: ((workflow, options) =>
      Effect.gen(function* () {
        const run = yield* Effect.serviceOption(CurrentRun)
        if (options.parent !== undefined && Option.isSome(run)) return yield* runChild(run.value, workflow, options)
        yield* Effect.orDie(Effect.flatMap(jobOf(workflow, options.payload, options.executionId), workflows.start))
        return options.discard ? undefined : ((yield* poll(workflow, options.executionId)) ?? suspended)
      })) as Encoded["execute"],
    poll,
    interrupt: (_, execution) =>
      workflows
        .cancel(execution)
        .pipe(
          Effect.catchTags({ ExecutionNotFound: () => Effect.void, JobNotInState: () => Effect.void }),
          Effect.orDie
        ),
    resume: (_, execution) => Effect.orDie(workflows.wake(execution)),
    activityExecute: (activity, attempt) =>
      Effect.gen(function* () {
        const run = yield* currentRun
        if (!activity.name.startsWith(clockName) || (yield* insideActivity) !== undefined) {
          const abandoned = yield* abandonedActivity(run, activity.name, attempt)
          if (abandoned !== undefined) return abandoned
          return yield* Effect.uninterruptible(run.busy(activity.name, runActivity(run, activity, attempt)))
        }
        const exit = yield* run.clock(activity.name, yield* sleepOf(activity.execute))
        return complete(exit)
      }),
    deferredResult: (deferred) =>
      Effect.gen(function* () {
        const run = yield* currentRun
        // An activity that waits runs again from its start, so waiting in this process saves nothing.
        const inside = yield* insideActivity
        const isClock = run.clocks.has(run.nameOf(deferred.name))
        return yield* isClock ? run.clock(deferred.name, 0, inside) : run.awaitSignal(deferred.name, inside)
      }),
    deferredDone: ({ deferredName, executionId, exit }) =>
      Effect.gen(function* () {
        const run = yield* Effect.serviceOption(CurrentRun)
        if (Option.isSome(run) && run.value.execution.id === executionId)
          return yield* run.value.complete(deferredName, exit)
        // A deferred has one value: with the id, a second one is a repetition.
        yield* workflows.signal({
          execution: executionId,
          name: deferredName,
          value: ExitJson.encode(exit),
          id: "exit"
        })
      }).pipe(Effect.orDie, Effect.asVoid),
    scheduleClock: (_, { clock }) =>
      Effect.gen(function* () {
        const run = yield* currentRun
        const name = run.nameOf(clock.deferred.name)
        const now = yield* Clock.currentTimeMillis
        if (!run.clocks.has(name)) run.clocks.set(name, now + Duration.toMillis(clock.duration))
      })
  })
}
