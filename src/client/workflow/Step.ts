import type pg from "pg"
import type { DurationInput } from "../../core/DurationText.js"
import type { Enqueueable } from "../Enqueue.js"
import type { BackoffInput } from "../JobDefinition.js"
import type { StandardSchema } from "../StandardSchema.js"

/** What the code of a step gets. */
export interface StepContext {
  /**
   * The same in every attempt of this step. Pass it to services that accept one, so that a repeated call has no effect. A
   * step that was undone and runs again after a retry gets a new one, because it must have its effect again.
   */
  readonly idempotencyKey: string
  /** The number of this attempt, from 1. */
  readonly attempt: number
  /** Aborted when the run must stop: shutdown, cancel, timeout or a lost lease. Nothing is recorded then. */
  readonly signal: AbortSignal
}

export interface StepOptions<A> {
  /** How often a failed step is tried again. [3] */
  readonly retries?: number
  /** The wait after each failed attempt. It survives restarts and takes no slot. [1s, 10s, 1m, then 10m] */
  readonly backoff?: BackoffInput
  /**
   * Undoes the step if the execution fails or is cancelled later, after all steps that came after it were undone. It is
   * recorded and retried like a step, and may wait with `step.sleep` and `step.waitFor`.
   */
  readonly undo?: (result: A, context: StepContext) => unknown
}

/** Runs a statement in the transaction of the step, and returns its rows: `await sql\`select ${id}::int as id\``. */
export interface StepSql {
  <Row = Record<string, unknown>>(
    strings: TemplateStringsArray,
    ...values: ReadonlyArray<unknown>
  ): Promise<ReadonlyArray<Row>>
  /** A `pg` client after BEGIN, for query builders. Do not end the transaction. */
  readonly client: pg.Client
}

/** A child to start: `otherWorkflow(payload)`, or `child(job, payload)`. */
export interface ChildCall<out Result> {
  readonly job: Enqueueable<never, Result>
  readonly payload: unknown
  /** The child's execution id; undefined for a plain job or a workflow without a key. */
  readonly execution: string | undefined
  readonly isWorkflow: boolean
}

/** How one child ended. */
export type ChildEnd<A> =
  | { readonly status: "done"; readonly value: A }
  | { readonly status: "dead"; readonly error: string }

export interface WaitOptions<A> {
  /** Without a signal for this long, the result is undefined. [waits without limit] */
  readonly timeout?: DurationInput
  /** Validates the value of the signal. */
  readonly schema?: StandardSchema<unknown, A>
}

/** The steps of a workflow. A name that is used again is numbered: `charge`, `charge#2`, and so on. */
export interface Step {
  /** The version of the workflow that started this execution. */
  readonly version: number
  /** The execution's id. */
  readonly execution: string

  /** Runs the code once and records its result. After a crash before the record, it runs again. */
  run<A>(name: string, run: (context: StepContext) => A, options?: StepOptions<Awaited<A>>): Promise<Awaited<A>>

  /** Runs the code in a database transaction that also records the result: exactly once. */
  transaction<A>(
    name: string,
    run: (sql: StepSql, context: StepContext) => A,
    options?: StepOptions<Awaited<A>>
  ): Promise<Awaited<A>>

  /** Waits, without a slot. */
  sleep(name: string, duration: DurationInput): Promise<void>

  /** Waits for a signal with this name, which may have come already. */
  waitFor<A = unknown>(
    name: string,
    options: WaitOptions<A> & { readonly timeout: DurationInput }
  ): Promise<A | undefined>
  waitFor<A = unknown>(name: string, options?: WaitOptions<A>): Promise<A>

  /** Runs a child for each item, in parallel, and wakes once when all have ended. Rejects if one of them failed. */
  all<Item, Result>(
    name: string,
    items: ReadonlyArray<Item>,
    call: (item: Item, index: number) => ChildCall<Result>
  ): Promise<ReadonlyArray<Result>>

  /** Like `all`, but tells how each child ended. */
  allSettled<Item, Result>(
    name: string,
    items: ReadonlyArray<Item>,
    call: (item: Item, index: number) => ChildCall<Result>
  ): Promise<ReadonlyArray<ChildEnd<Result>>>

  /** Starts a child that is neither waited for nor cancelled with this execution. */
  start<Result>(name: string, call: ChildCall<Result>): Promise<void>

  /**
   * Marks a change of the code: true for executions that reach it first, false for those that passed this place before
   * the change. The old code stays in the other branch until those have ended.
   */
  patched(name: string): Promise<boolean>
}
