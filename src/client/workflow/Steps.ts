import { TransactionConnection } from "@effect/sql/SqlClient"
import { Cause, Data, Duration, Effect, Either, Option, Predicate } from "effect"
import type pg from "pg"
import { type DurationInput, decode } from "../../core/DurationText.js"
import { withoutTrace } from "../../core/ErrorText.js"
import { issuesText } from "../../core/Issues.js"
import type { Deferred } from "../../queue/workflow/Execution.js"
import type { NewChild, Recorded } from "../../queue/workflow/Workflows.js"
import * as Enqueue from "../Enqueue.js"
import { fromCause, InvalidOptionError, ShiftError, TransactionError } from "../ShiftErrors.js"
import * as StandardSchema from "../StandardSchema.js"
import type { Stored } from "./Replay.js"
import type { ChildCall, ChildEnd, Step, StepContext, StepOptions, StepSql, WaitOptions } from "./Step.js"
import type { Attempts } from "./StepAttempts.js"
import * as StepExit from "./StepExit.js"
import * as StepScope from "./StepScope.js"
import type { WorkflowRun } from "./WorkflowRun.js"

// The `step` argument of a workflow: each method describes one kind of step to the run.

const millisOf = (name: string, duration: DurationInput): number => {
  try {
    return Duration.toMillis(decode(duration))
  } catch (error) {
    throw new InvalidOptionError(name, `The duration of "${name}" is invalid: ${StepExit.textOf(error)}`)
  }
}

/** An earlier try recorded the step, but the reply to its commit was lost. Rolls this try back. */
class AlreadyRecorded extends Data.TaggedError("AlreadyRecorded")<{ readonly recorded: Recorded }> {}

/** The code of a transactional step threw. Rolls back. */
class Threw extends Data.TaggedError("Threw")<{ readonly error: unknown }> {}

const noDatabase = {
  query: () =>
    Promise.reject(
      new TransactionError(
        "A test shift keeps its jobs in memory and has no database. Test this step with connect() and a real database."
      )
    )
}

const sqlOf = (client: pg.Client): StepSql =>
  Object.assign(
    async <Row>(strings: TemplateStringsArray, ...values: ReadonlyArray<unknown>) => {
      const text = strings.reduce((all, part, index) => `${all}$${index}${part}`)
      const result = await client.query(text, [...values])
      return result.rows as ReadonlyArray<Row>
    },
    { client }
  )

/** The connection of the transaction in which the effect runs. */
const connection = Effect.map(Effect.serviceOption(TransactionConnection), (outer): pg.Client => {
  const inner: unknown = Option.isSome(outer) ? outer.value[0] : undefined
  return (Predicate.hasProperty(inner, "pg") ? inner.pg : noDatabase) as pg.Client
})

/** Runs the code and records its result in one transaction. */
const inTransaction = (
  run: WorkflowRun,
  code: (sql: StepSql) => unknown,
  record: Parameters<Attempts["perform"]>[2]
): Promise<Recorded> => {
  const whole = Effect.gen(function* () {
    const sql = sqlOf(yield* connection)
    const value = yield* Effect.tryPromise({
      try: async () => code(sql),
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

const childOf = async (call: ChildCall<unknown>, fallback: string, now: number): Promise<NewChild> => {
  const target = call.job as Enqueue.Enqueueable<unknown, unknown>
  const made = await Enqueue.newJob(target, call.payload, {}, () => now)
  const job = Either.getOrThrowWith(made, (error) => fromCause(Cause.fail(error)))
  const { dedupe: _, id: __, link: ___, ...rest } = job
  return call.isWorkflow ? { ...rest, execution: call.execution ?? fallback } : rest
}

/** Whether starting the same children again would fail again. */
const isRefused = (error: unknown): boolean =>
  error instanceof ShiftError ||
  (Predicate.hasProperty(error, "_tag") && ["InvalidJob", "ChildNotLinked", "JobIdTaken"].includes(String(error._tag)))

const endsOf = (run: WorkflowRun, name: string): Promise<ReadonlyArray<ChildEnd<unknown>>> =>
  run.journal.perform(run.journal.services.workflows.children(run.execution.id, name)).then((children) =>
    children.map(({ job }): ChildEnd<unknown> => {
      if (job?.status === "done") return { status: "done", value: job.result ?? null }
      const error = job?.lastError === undefined ? undefined : withoutTrace(job.lastError)
      return { status: "dead", error: error ?? job?.deadReason ?? "its job was deleted" }
    })
  )

/** The result of `all`: every value, or the failures. */
const judged = (name: string, ends: ReadonlyArray<ChildEnd<unknown>>): Stored => {
  const failures = ends.flatMap((end, position) => (end.status === "dead" ? [{ position, error: end.error }] : []))
  if (failures.length === 0) return StepExit.ofValue(ends.map((end) => (end.status === "done" ? end.value : null)))
  const [first] = failures
  const message = `${failures.length} of ${ends.length} children of "${name}" failed; number ${first?.position}: ${first?.error}`
  return StepExit.ofError(new Error(message), failures.slice(0, 100))
}

export const make = (run: WorkflowRun): Step => {
  /** Gives the value, and registers the undo of a step that is done. */
  const read =
    <A>(options: StepOptions<A>) =>
    (stored: Stored, name: string, sequence: number): A => {
      const value = StepExit.valueOf(stored) as A
      const { undo, ...others } = options
      if (undo !== undefined) {
        run.onUndo({ step: name, sequence, options: others, run: (context) => undo(value, context) })
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
        const begin = async (stepName: string): Promise<undefined> => {
          const jobs = items.map((item, index) =>
            childOf(call(item as never, index), `${run.execution.id}/${stepName}/${index}`, run.now())
          )
          await run.journal.startChildren(stepName, await Promise.all(jobs), detached)
        }
        const collect = () =>
          run.busy(async () => run.conclude(step, judge(numbered, await endsOf(run, numbered)), settle, startedAt))
        const wait = () => run.block({ kind: "children", name: numbered }, { onDue: undefined, onCompleted: collect })
        run.busy(async () => {
          await run.journal.known()
          const before = run.journal.deferred("children", numbered)
          if (before === undefined && items.length > 0) {
            const fault = await begin(numbered).catch((error: unknown) => ({ error }))
            if (fault !== undefined && isRefused(fault.error)) {
              return run.conclude(step, StepExit.ofError(fault.error), settle, startedAt)
            }
            if (fault !== undefined) throw fault.error
          }
          if (detached) run.conclude(step, StepExit.ofValue(undefined), settle, startedAt)
          else if (before?.completedAt !== undefined || items.length === 0) collect()
          else wait()
        })
      },
      (stored) => StepExit.valueOf(stored) as A
    )

  const signal = <A>(name: string, options: WaitOptions<A>): Promise<A | undefined> =>
    run.call(
      "signal",
      name,
      (numbered, settle) => {
        const startedAt = run.journal.begunAt("signal", numbered, run.now())
        const step = { name: numbered, kind: "signal" } as const
        const take = ({ exit }: Deferred) =>
          run.busy(async () => {
            const checked: StandardSchema.Checked<unknown> =
              options.schema === undefined ? { value: exit } : await StandardSchema.check(options.schema, exit)
            const stored =
              checked.issues === undefined
                ? StepExit.ofValue(checked.value)
                : StepExit.ofError(
                    new Error(
                      `The value of the signal "${numbered}" is invalid: ${issuesText("value", checked.issues)}. A retry of the execution waits for this signal again.`
                    )
                  )
            run.conclude(step, stored, settle, startedAt)
          })
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
          const timeout = options.timeout === undefined ? undefined : run.now() + millisOf(name, options.timeout)
          const dueAt = before?.dueAt ?? timeout
          if (before?.completedAt !== undefined) take(before)
          else if (dueAt !== undefined && dueAt <= run.now()) timeOut()
          else
            run.block(
              { kind: "signal", name: numbered, dueAt },
              { onDue: dueAt === undefined ? undefined : onDue, onCompleted: take }
            )
        })
      },
      (stored) => StepExit.valueOf(stored) as A | undefined
    )

  return {
    version: run.execution.version,
    execution: run.execution.id,

    run: <A>(name: string, code: (context: StepContext) => A, options: StepOptions<Awaited<A>> = {}) =>
      run.call(
        "run",
        name,
        (numbered, settle) =>
          run.attempt({
            name: numbered,
            kind: "run",
            options,
            perform: async (context, record) =>
              record(StepExit.ofValue(await StepScope.inside(run, numbered, () => code(context)))),
            settle
          }),
        read(options)
      ),

    transaction: <A>(
      name: string,
      code: (sql: StepSql, context: StepContext) => A,
      options: StepOptions<Awaited<A>> = {}
    ) =>
      run.call(
        "transaction",
        name,
        (numbered, settle) =>
          run.attempt({
            name: numbered,
            kind: "transaction",
            options,
            perform: (context, _, recordInside) =>
              inTransaction(run, (sql) => StepScope.inside(run, numbered, () => code(sql, context)), recordInside),
            settle
          }),
        read(options)
      ),

    sleep: (name, duration) =>
      run.call(
        "sleep",
        name,
        (numbered, settle) => {
          const startedAt = run.journal.begunAt("sleep", numbered, run.now())
          const dueAt = run.journal.deferred("sleep", numbered)?.dueAt ?? startedAt + millisOf(name, duration)
          const wake = () =>
            run.conclude({ name: numbered, kind: "sleep" }, StepExit.ofValue(undefined), settle, startedAt)
          if (dueAt <= run.now()) wake()
          else run.block({ kind: "sleep", name: numbered, dueAt }, { onDue: wake, onCompleted: undefined })
        },
        () => undefined
      ),

    waitFor: ((name: string, options: WaitOptions<unknown> = {}) => signal(name, options)) as Step["waitFor"],

    all: (name, items, call) => children(name, items, call as never, judged),
    allSettled: (name, items, call) => children(name, items, call as never, (_, ends) => StepExit.ofValue(ends)),
    start: (name, call) => children(name, [undefined], () => call, judged, true),

    patched: (name) =>
      run.call(
        "patch",
        name,
        (numbered, settle) => run.conclude({ name: numbered, kind: "patch" }, StepExit.ofValue(true), settle),
        () => true,
        false
      )
  }
}
