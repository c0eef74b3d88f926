import { Data, Effect, Random } from "effect"
import { makeGenerator } from "../../core/Ids.js"
import type { Continuation } from "../../core/Suspension.js"
import * as Undos from "../../queue/workflow/Undo.js"
import type { Recorded } from "../../queue/workflow/Workflows.js"
import { checkEvent, type EventDefinition } from "../EventDefinition.js"
import * as HandlerTransaction from "../HandlerTransaction.js"
import { InvalidOptionError } from "../ShiftErrors.js"
import type * as StandardSchema from "../StandardSchema.js"
import type { AskHandler } from "./AskHandlers.js"
import type { AskSchema } from "./Asks.js"
import * as ChildSteps from "./ChildSteps.js"
import type { Stored } from "./Replay.js"
import * as SignalStep from "./SignalStep.js"
import type {
  EventWaitOptions,
  Step,
  StepContext,
  StepOptions,
  StepTransactionContext,
  StreamContext,
  StreamResult,
  StreamValue,
  WaitOptions
} from "./Step.js"
import {
  checkAnswer,
  checkEventWait,
  checked,
  checkedInstant,
  checkName,
  checkRun,
  checkSet,
  checkWait,
  waitMillis
} from "./StepArguments.js"
import type { Attempts } from "./StepAttempts.js"
import * as StepExit from "./StepExit.js"
import * as StepScope from "./StepScope.js"
import * as StepTags from "./StepTags.js"
import * as StreamStep from "./StreamStep.js"
import type { WorkflowRun } from "./WorkflowRun.js"

// The `step` argument of a workflow: each method describes one kind of step to the run.

/** A new UUID of version 7. */
const newUuid = (now: number) => Effect.map(makeGenerator, ({ plain }) => plain(now))

/** An earlier try recorded the step, but the reply to its commit was lost. Rolls this try back. */
class AlreadyRecorded extends Data.TaggedError("AlreadyRecorded")<{ readonly recorded: Recorded }> {}

/** The code of a transactional step threw. Rolls back. */
class Threw extends Data.TaggedError("Threw")<{ readonly error: unknown }> {}

/** Runs the code and records its result in one transaction. */
const inTransaction = (
  run: WorkflowRun,
  code: (transaction: HandlerTransaction.HandlerTransaction) => unknown,
  record: Parameters<Attempts["perform"]>[2]
): Promise<Recorded> => {
  const whole = Effect.gen(function* () {
    const transaction = yield* HandlerTransaction.current
    const value = yield* Effect.tryPromise({
      try: async () => code(transaction),
      catch: (error) => new Threw({ error })
    })
    const recorded = yield* record(StepExit.ofValue(value))
    return recorded.repeated ? yield* new AlreadyRecorded({ recorded }) : recorded
  })
  return run.journal.withRetries(run.journal.services.transactions.runHandler(whole)).catch((error: unknown) => {
    if (error instanceof AlreadyRecorded) return error.recorded
    throw error instanceof Threw ? error.error : error
  })
}

/**
 * `schemaOf`: the validator of a signal, if the workflow declares its signals. `askSchema`: the validators of an ask. Both throw
 * for other names. `continuation` validates the payload of a new journal.
 */
export const make = (
  run: WorkflowRun,
  isFork: boolean,
  schemaOf: (signal: string) => StandardSchema.StandardSchema | undefined,
  askSchema: (ask: string) => AskSchema,
  continuation: (payload: unknown) => Continuation | Promise<Continuation>
): Step => {
  /** Gives the value, and registers the undo of a step that is done. */
  const read =
    <A>(base: string, options: StepOptions<A>) =>
    (stored: Stored, name: string, sequence: number): A => {
      const value = StepExit.recordedValue(stored) as A
      const { undo, ...others } = options
      if (undo !== undefined) {
        run.onUndo({ step: name, base, sequence, options: others, code: (context) => undo(value, context) })
      }
      return value
    }

  /** The validator and the timeout of a wait for a signal. */
  const checkedWait = (call: "waitFor" | "next", name: string, options: WaitOptions<unknown>) => {
    const timeout = checkWait(call, name, options)
    return [SignalStep.schemaFor(name, schemaOf(name), options.schema), timeout] as const
  }

  const sleep = (name: string, dueAtOf: (startedAt: number) => number): Promise<void> =>
    run.call(
      "sleep",
      name,
      (numbered, settle) => {
        const startedAt = run.journal.begunAt("sleep", numbered, run.now())
        const dueAt = run.journal.deferred("sleep", numbered)?.dueAt ?? dueAtOf(startedAt)
        const wake = () =>
          run.conclude({ name: numbered, kind: "sleep" }, StepExit.ofValue(undefined), settle, startedAt)
        if (dueAt <= run.now()) wake()
        else run.block({ kind: "sleep", name: numbered, dueAt }, { onDue: wake })
      },
      () => undefined
    )

  /** A value that differs from run to run: recorded when the code receives it first. */
  const value = (name: string, make: () => unknown): Promise<unknown> => {
    checkName(name)
    return run.call(
      "value",
      name,
      (numbered, settle) => run.conclude({ name: numbered, kind: "value" }, StepExit.ofValue(make()), settle),
      StepExit.recordedValue
    )
  }

  return {
    version: run.execution.version,
    execution: run.execution.id,

    run: <A>(name: string, code: (context: StepContext) => A, options: StepOptions<Awaited<A>> = {}) =>
      checked(() => {
        checkRun(name, code, options)
        return run.call(
          "run",
          name,
          (numbered, settle) =>
            run.attempt({
              name: numbered,
              base: Undos.within(run.undoing, name),
              kind: "run",
              options,
              perform: async (context, record) =>
                record(StepExit.ofValue(await StepScope.inside(run, numbered, () => code(context)))),
              settle
            }),
          read(name, options),
          { canUndo: options.undo !== undefined }
        )
      }),

    runInTransaction: <A>(
      name: string,
      code: (context: StepTransactionContext) => A,
      options: StepOptions<Awaited<A>> = {}
    ) =>
      checked(() => {
        checkRun(name, code, options)
        return run.call(
          "transaction",
          name,
          (numbered, settle) =>
            run.attempt({
              name: numbered,
              base: Undos.within(run.undoing, name),
              kind: "transaction",
              options,
              perform: (context, _, recordInside) =>
                inTransaction(
                  run,
                  (transaction) => StepScope.inside(run, numbered, () => code(Object.assign(context, transaction))),
                  recordInside
                ),
              settle
            }),
          read(name, options)
        )
      }),

    stream: <Returned>(
      name: string,
      code: (context: StreamContext) => Returned,
      options: StepOptions<StreamResult<StreamValue<Returned>>> = {}
    ) =>
      checked(() => {
        checkRun(name, code, options)
        return run.call(
          "stream",
          name,
          (numbered, settle) =>
            run.attempt({
              name: numbered,
              base: Undos.within(run.undoing, name),
              kind: "stream",
              options,
              perform: async (context, record) =>
                record(StepExit.ofValue(await StreamStep.perform(run, numbered, context, code))),
              settle
            }),
          read(name, options),
          { canUndo: options.undo !== undefined }
        )
      }),

    sleep: (name, duration) =>
      checked(() => {
        checkName(name)
        const millis = waitMillis("duration", name, duration)
        return sleep(name, (startedAt) => startedAt + millis)
      }),
    sleepUntil: (name, instant) =>
      checked(() => {
        checkName(name)
        const dueAt = checkedInstant(name, instant)
        return sleep(name, () => dueAt)
      }),

    now: (name = "now") => checked(() => value(name, () => run.now()).then((millis) => new Date(millis as number))),
    uuid: (name = "uuid") => checked(() => value(name, () => run.journal.sync(newUuid(run.now())))) as Promise<string>,
    random: (name = "random") => checked(() => value(name, () => run.journal.sync(Random.next))) as Promise<number>,

    waitFor: ((name: string, options: WaitOptions<unknown> = {}) =>
      checked(() => SignalStep.waitFor(run, name, ...checkedWait("waitFor", name, options)))) as Step["waitFor"],
    waitForEvent: ((event: EventDefinition<never>, options: EventWaitOptions = {}) =>
      checked(() => {
        checkEvent("waitForEvent", event)
        const [match, timeout] = checkEventWait(event.name, options)
        return SignalStep.waitForEvent(run, event, match, timeout)
      })) as unknown as Step["waitForEvent"],
    next: ((name: string, options: WaitOptions<unknown> = {}) =>
      checked(() => SignalStep.next(run, name, ...checkedWait("next", name, options)))) as Step["next"],

    answer: (name, handler) => {
      checkAnswer(name, handler)
      run.answer(name, askSchema(name).payload, handler as AskHandler)
    },

    set: (name, value) =>
      checked(() => {
        checkSet(name, value, run.names)
        const exit = { value: value === undefined ? null : value, set: name }
        return run.call(
          "set",
          name,
          (numbered, settle) => run.conclude({ name: numbered, kind: "set" }, { outcome: "done", exit }, settle),
          () => undefined,
          { passed: { value: undefined } }
        )
      }),

    ...ChildSteps.make(run, isFork),

    continueAs: (payload) =>
      checked(() => {
        if (run.undoing !== undefined)
          throw new InvalidOptionError("payload", "An undo cannot call step.continueAs: the execution is ending.")
        const next = continuation(payload)
        // The call may never start.
        if (next instanceof Promise) next.catch(() => {})
        // Started like a step: not before the code has done what the journal says. Only a failure is recorded.
        return run.call<never>(
          "run",
          "continueAs",
          (numbered, settle) =>
            run.busy(async () => {
              const refused = await Promise.resolve(next).then(
                (continues) => run.continueAs(continues),
                StepExit.ofInvalidPayload
              )
              if (refused !== undefined) run.conclude({ name: numbered, kind: "run" }, refused, settle)
            }),
          () => {
            throw new Error("continueAs has no result")
          },
          { onFailed: (stored) => StepExit.throwInvalidPayload(stored) }
        )
      }),

    tag: (tags) => checked(() => StepTags.set(run, tags)),

    patched: (name) =>
      checked(() => {
        checkName(name)
        return run.call(
          "patch",
          name,
          (numbered, settle) => run.conclude({ name: numbered, kind: "patch" }, StepExit.ofValue(true), settle),
          () => true,
          { passed: { value: false } }
        )
      })
  }
}
