import { Cause, Data, Effect, Either, Predicate, Random } from "effect"
import { withoutTrace } from "../../core/ErrorText.js"
import { makeGenerator } from "../../core/Ids.js"
import { issuesText } from "../../core/Issues.js"
import type { Deferred } from "../../queue/workflow/Execution.js"
import * as Undos from "../../queue/workflow/Undo.js"
import type { NewChild, Recorded } from "../../queue/workflow/Workflows.js"
import * as Enqueue from "../Enqueue.js"
import { fromCause } from "../FromCause.js"
import * as HandlerTransaction from "../HandlerTransaction.js"
import { InvalidOptionError } from "../ShiftErrors.js"
import * as StandardSchema from "../StandardSchema.js"
import type { Stored } from "./Replay.js"
import type {
  ChildCall,
  ChildEnd,
  Step,
  StepContext,
  StepOptions,
  StepTransactionContext,
  StreamContext,
  StreamResult,
  StreamValue,
  WaitOptions
} from "./Step.js"
import { checkAll, checkedChild, checkedInstant, checkName, checkRun, checkWait, waitMillis } from "./StepArguments.js"
import type { Attempts } from "./StepAttempts.js"
import * as StepExit from "./StepExit.js"
import * as StepScope from "./StepScope.js"
import * as StreamStep from "./StreamStep.js"
import type { WorkflowRun } from "./WorkflowRun.js"

// The `step` argument of a workflow: each method describes one kind of step to the run.

/** Requests a step whose arguments are valid. Rejects like any other error of the code if they are not. */
const checked = <A>(request: () => Promise<A>): Promise<A> => {
  try {
    return request()
  } catch (error) {
    const refused = Promise.reject(error)
    // Without this, a call that the code does not await would end the process.
    refused.catch(() => {})
    return refused
  }
}

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

/** `parent`: the id of the execution, if it is a fork. The children of a fork are separate from those of the original. */
const childOf = async (
  call: ChildCall<unknown>,
  fallback: string,
  now: number,
  parent: string | undefined
): Promise<NewChild> => {
  const target = call.job as Enqueue.Enqueueable<unknown, unknown>
  const made = await Enqueue.newJob(target, call.payload, {}, () => now)
  const job = Either.getOrThrowWith(made, (error) => fromCause(Cause.fail(error)))
  const { dedupe: _, id: __, link: ___, ...rest } = job
  if (!call.isWorkflow) return rest
  if (parent === undefined || call.execution === undefined) return { ...rest, execution: call.execution ?? fallback }
  return { ...rest, execution: `${call.execution}@${parent}`, meta: { forkOf: call.execution } }
}

/** Whether starting the same children again would fail again. */
const isRefused = (error: unknown): boolean =>
  Predicate.hasProperty(error, "_tag") && ["InvalidJob", "ChildNotLinked", "JobIdTaken"].includes(String(error._tag))

const endsOf = (run: WorkflowRun, name: string): Promise<ReadonlyArray<ChildEnd<unknown>>> =>
  run.journal.perform(run.journal.workflows.children(run.execution.id, name)).then((children) =>
    children.map(({ job }): ChildEnd<unknown> => {
      if (job === undefined) return { state: "deleted", error: "its job was deleted" }
      if (job.state === "done") return { state: "done", value: job.result ?? null }
      const state = job.state === "cancelled" ? "cancelled" : job.execution === undefined ? "dead" : "failed"
      return { state, error: job.lastError === undefined ? (job.reason ?? state) : withoutTrace(job.lastError) }
    })
  )

/** The result of `all`: every value, or the failures. */
const judged = (name: string, ends: ReadonlyArray<ChildEnd<unknown>>): Stored => {
  const failures = ends.flatMap((end, position) => (end.state === "done" ? [] : [{ position, error: end.error }]))
  if (failures.length === 0) return StepExit.ofValue(ends.map((end) => (end.state === "done" ? end.value : null)))
  const [first] = failures
  const message = `${failures.length} of ${ends.length} children of "${name}" failed; items[${first?.position}]: ${first?.error}`
  return StepExit.ofError(new Error(message), failures.slice(0, 100))
}

/** `schemaOf`: the validator of a signal, if the workflow declares its signals. Throws for other names. */
export const make = (
  run: WorkflowRun,
  isFork: boolean,
  schemaOf: (signal: string) => StandardSchema.StandardSchema | undefined
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

  const children = <A>(
    name: string,
    items: ReadonlyArray<unknown>,
    call: (item: never, index: number) => ChildCall<unknown>,
    judge: (name: string, ends: ReadonlyArray<ChildEnd<unknown>>) => Stored,
    detached = false
  ): Promise<A> =>
    run.call(
      "children",
      name,
      (numbered, settle) => {
        const startedAt = run.journal.begunAt("children", numbered, run.now())
        const step = { name: numbered, kind: "children" } as const
        // The mapper and the validators of the payloads are code of the workflow: their errors are those of the step.
        const made = async (): Promise<ReadonlyArray<NewChild>> =>
          Promise.all(
            items.map((item, index) => {
              const child = checkedChild(name, call(item as never, index), ` for items[${index}]`)
              const { id } = run.execution
              return childOf(child, `${id}/${numbered}/${index}`, run.now(), isFork ? id : undefined)
            })
          )
        /** Starts the children. Returns the error of those that can never start. */
        const begin = async (): Promise<{ readonly error: unknown } | undefined> => {
          const jobs = await made().catch((error: unknown) => ({ error }))
          if ("error" in jobs) return jobs
          return run.journal.startChildren(numbered, jobs, detached).then(
            () => undefined,
            (error: unknown) => {
              if (isRefused(error)) return { error }
              throw error
            }
          )
        }
        const collect = () =>
          run.busy(async () => run.conclude(step, judge(numbered, await endsOf(run, numbered)), settle, startedAt))
        const wait = () => run.block({ kind: "children", name: numbered }, { onDue: undefined, onCompleted: collect })
        run.busy(async () => {
          await run.journal.known()
          const before = run.journal.deferred("children", numbered)
          const fault = before === undefined && items.length > 0 ? await begin() : undefined
          if (fault !== undefined) return run.conclude(step, StepExit.ofError(fault.error), settle, startedAt)
          if (detached) run.conclude(step, StepExit.ofValue(undefined), settle, startedAt)
          else if (before?.completedAt !== undefined || items.length === 0) collect()
          else wait()
        })
      },
      (stored) => StepExit.recordedValue(stored) as A
    )

  const signal = <A>(
    name: string,
    options: Pick<WaitOptions<A>, "schema">,
    timeout: number | undefined
  ): Promise<A | undefined> =>
    run.call(
      "signal",
      name,
      (numbered, settle) => {
        const startedAt = run.journal.begunAt("signal", numbered, run.now())
        const step = { name: numbered, kind: "signal" } as const
        const validated = async (exit: unknown): Promise<Stored> => {
          if (options.schema === undefined) return StepExit.ofValue(exit)
          const result: StandardSchema.Checked<unknown> = await StandardSchema.check(options.schema, exit)
          if (result.issues === undefined) return StepExit.ofValue(result.value)
          throw new Error(
            `The value of the signal "${numbered}" is invalid: ${issuesText("value", result.issues)}. A retry of the execution waits for this signal again.`
          )
        }
        const take = ({ exit }: Deferred) =>
          run.busy(async () => run.conclude(step, await validated(exit).catch(StepExit.ofError), settle, startedAt))
        const timeOut = () => run.conclude(step, StepExit.timedOut, settle, startedAt)
        // A signal that arrived in the meantime takes precedence over the timeout.
        const onDue = () =>
          run.busy(async () => {
            await run.refresh()
            const late = run.journal.deferred("signal", numbered)
            if (late?.completedAt !== undefined) take(late)
            else timeOut()
          })
        run.busy(async () => {
          await run.journal.known()
          const before = run.journal.deferred("signal", numbered)
          const dueAt = before?.dueAt ?? (timeout === undefined ? undefined : run.now() + timeout)
          if (before?.completedAt !== undefined) take(before)
          else if (dueAt !== undefined && dueAt <= run.now()) timeOut()
          else
            run.block(
              { kind: "signal", name: numbered, dueAt },
              { onDue: dueAt === undefined ? undefined : onDue, onCompleted: take }
            )
        })
      },
      (stored) => StepExit.recordedValue(stored) as A | undefined
    )

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
        else run.block({ kind: "sleep", name: numbered, dueAt }, { onDue: wake, onCompleted: undefined })
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
      checked(() => {
        const timeout = checkWait(name, options)
        const declared = schemaOf(name)
        if (declared !== undefined && options.schema !== undefined)
          throw new InvalidOptionError(
            "schema",
            `"${name}" is a declared signal with a validator: remove the option schema.`
          )
        return signal(name, { schema: declared ?? options.schema }, timeout)
      })) as Step["waitFor"],

    all: (name, items, call) =>
      checked(() => {
        checkAll(name, items, call)
        return children(name, items, call as never, judged)
      }),
    allSettled: (name, items, call) =>
      checked(() => {
        checkAll(name, items, call)
        return children(name, items, call as never, (_, ends) => StepExit.ofValue(ends))
      }),
    start: (name, call) =>
      checked(() => {
        checkName(name)
        checkedChild(name, call)
        return children(name, [undefined], () => call, judged, true)
      }),

    patched: (name) =>
      checked(() => {
        checkName(name)
        return run.call(
          "patch",
          name,
          (numbered, settle) => run.conclude({ name: numbered, kind: "patch" }, StepExit.ofValue(true), settle),
          () => true,
          { passed: false }
        )
      })
  }
}
