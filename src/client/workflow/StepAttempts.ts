import { Duration, Effect } from "effect"
import * as Backoff from "../../core/Backoff.js"
import { type DurationInput, decode } from "../../core/DurationText.js"
import * as Outcome from "../../core/Outcome.js"
import { faultOfWait } from "../../core/Storable.js"
import type * as Suspension from "../../core/Suspension.js"
import * as Thrown from "../../core/Thrown.js"
import type { HandlerLog } from "../../handlers/Handler.js"
import type { ClaimedExecution } from "../../queue/Queue.js"
import type { NewStep, StepKind } from "../../queue/workflow/Execution.js"
import { LeaseLost } from "../../queue/workflow/WorkflowErrors.js"
import type { Recorded, Workflows } from "../../queue/workflow/Workflows.js"
import { AttemptWatch } from "../../workflow/AttemptWatch.js"
import { ChunkRefused } from "../../workflow/StreamWriter.js"
import { NestedStepError } from "../ExecutionErrors.js"
import { backoffOf } from "../JobDefinition.js"
import type { OnWait } from "./OpenWaits.js"
import type { Stored } from "./Replay.js"
import { type RunJournal, Stopped } from "./RunJournal.js"
import type { StepContext, StepOptions } from "./Step.js"
import type { StepAborts } from "./StepAborts.js"
import * as StepExit from "./StepExit.js"
import type { StepLimits } from "./StepLimits.js"

const usualBackoff = Backoff.stepwise("1 second", "10 seconds", "1 minute", "10 minutes")
const usualAttempts = 4

/** A step to run: its code, and callbacks for its result. */
export interface Attempts {
  readonly name: string
  readonly kind: StepKind
  readonly options: StepOptions<never>
  /** False for an undo, which may wait itself and therefore must not prevent the suspension of the execution. */
  readonly counts?: boolean
  /** The name in the code, which counts for the concurrency of the step. */
  readonly base: string
  /** Runs the code and records its success: with the promise, or with the effect in a transaction. */
  readonly perform: (
    context: StepContext,
    record: (stored: Stored) => Promise<Recorded>,
    recordInside: (stored: Stored) => Effect.Effect<Recorded, RecordError>
  ) => Promise<Recorded>
  readonly settle: (stored: Stored, sequence: number) => void
}

type RecordError = Effect.Effect.Error<ReturnType<typeof Workflows.Service.record>>

/** The run that the attempts belong to. */
export interface AttemptHost {
  readonly execution: ClaimedExecution
  readonly journal: RunJournal
  readonly aborts: StepAborts
  readonly limits: StepLimits
  /** Steps with an undo that have begun in this run and have no recorded result. */
  readonly begun: Set<string>
  /** The step that is being undone. */
  readonly undoing: string | undefined
  /** Whether the run starts no more steps. */
  readonly isOver: boolean
  now(): number
  kindOf(kind: StepKind): StepKind
  busy(act: () => Promise<void>, counts?: boolean): void
  block(wait: Suspension.Wait, on: OnWait): void
}

const makeSignal = Symbol("makeSignal")

/** One getter for all contexts: with its own getter, V8 would keep each context as a slow hash table. */
const readingSignal: PropertyDescriptor & ThisType<AttemptContext> = {
  get() {
    return this[makeSignal]()
  },
  enumerable: true
}

class AttemptContext implements StepContext {
  /** An own property, so that a copy of the context has it too. Made when it is read. */
  declare readonly signal: AbortSignal
  readonly [makeSignal]: () => AbortSignal

  constructor(
    readonly idempotencyKey: string,
    readonly attempt: number,
    readonly log: HandlerLog,
    readonly lastHeartbeat: unknown,
    readonly heartbeat: StepContext["heartbeat"],
    signal: () => AbortSignal
  ) {
    this[makeSignal] = signal
    Object.defineProperty(this, "signal", readingSignal)
  }
}

const millisOf = (duration: DurationInput | undefined): number | undefined =>
  duration === undefined ? undefined : Duration.toMillis(decode(duration))

/** Runs steps whose code may fail. */
export class StepAttempts {
  private readonly now = () => this.host.now()

  constructor(private readonly host: AttemptHost) {}

  /** Starts a step, with its retries. The delays between attempts are waits like others. */
  start(given: Attempts): void {
    const before = this.host.journal.attemptsOf(given.name)
    const last = before.at(-1)
    const next = (last?.attempt ?? 0) + 1
    // A reopened step has all its retries again.
    const from = before.findLast(({ reopenedAt }) => reopenedAt !== undefined)?.attempt ?? 0
    if (given.options.undo !== undefined && this.mayHaveBegun) this.host.begun.add(given.name)
    if (last?.retryAt === undefined || last.retryAt <= this.host.now()) this.tryOnce(given, next, from)
    else this.retryLater(given, next, from, last.retryAt)
  }

  /** Whether a step may have begun in a run that was cut off: this run has not got further than that one. */
  private get mayHaveBegun(): boolean {
    const { cut, state } = this.host.execution
    return cut && !state.recorded
  }

  /** `from`: attempts up to this one do not count as retries. */
  private retryLater(given: Attempts, attempt: number, from: number, dueAt: number): void {
    this.host.block({ kind: "retry", name: given.name, dueAt }, { onDue: () => this.tryOnce(given, attempt, from) })
  }

  /** Starts the attempt, or waits until the limits of the step allow it. */
  private tryOnce(given: Attempts, attempt: number, from: number): void {
    const { concurrency, limit } = given.options
    if (limit === undefined && concurrency === undefined) {
      this.begin(given, attempt, from)
      return
    }
    this.host.busy(async () => {
      const answer = await this.host.limits.enter(given)
      // The run may have been stopped or cancelled meanwhile.
      if (this.host.isOver) return this.host.limits.leave(given)
      const again = () => this.tryOnce(given, attempt, from)
      if (answer === undefined) this.begin(given, attempt, from)
      else if (answer instanceof Error) this.begin({ ...given, perform: () => Promise.reject(answer) }, attempt, from)
      else {
        const { askEvery, ...wait } = answer
        this.host.block({ ...wait, kind: "limit", name: given.name }, { onDue: again, askEvery })
      }
    })
  }

  private begin(given: Attempts, attempt: number, from: number): void {
    const startedAt = this.host.now()
    const { journal } = this.host
    const kind = this.host.kindOf(given.kind)
    const { aborts, undoing } = this.host
    const canUndo = given.options.undo !== undefined || undoing !== undefined
    if (given.options.undo !== undefined) this.host.begun.add(given.name)
    const watch = new AttemptWatch(journal, this.now, {
      name: given.name,
      attempt,
      startedAt,
      timeout: millisOf(given.options.timeout),
      heartbeatTimeout: millisOf(given.options.heartbeatTimeout)
    })
    const context = new AttemptContext(
      journal.idempotencyKey(given.name, undoing),
      attempt,
      journal.log(given.name),
      watch.last,
      watch.heartbeat,
      () => watch.signal(() => aborts.of(canUndo))
    )
    this.host.busy(async () => {
      let sequence: number | undefined
      const place = () => (sequence ??= journal.sequenceOf(given.name))
      // Spreading objects would cost as much as all else that is done here.
      const stepOf = ({ exit, outcome }: Stored, retryAt?: number): NewStep => ({
        name: given.name,
        kind,
        attempt,
        sequence: place(),
        outcome,
        exit,
        startedAt,
        retryAt
      })
      const { run } = this.host.execution
      // Nothing is recorded for code that goes on after its attempt has timed out.
      const record = (stored: Stored) => (watch.isOver ? Promise.reject(new Stopped()) : journal.write(stepOf(stored)))
      const recordInside = (stored: Stored) =>
        Effect.suspend(() =>
          watch.isOver ? new LeaseLost({ id: run.id }) : journal.workflows.record(run, stepOf(stored))
        )
      let stored: Recorded
      let retryAt: number | undefined
      try {
        stored = await watch.within(given.perform(context, record, recordInside))
        this.host.execution.state.recorded = true
        watch.close()
      } catch (thrown) {
        const error = Thrown.plain(thrown)
        await watch.closeFailed()
        if (error instanceof Stopped) throw error
        // An interrupted step has not failed.
        if (aborts.isAborted(canUndo)) return
        retryAt = this.retryOf(given.options, error, attempt - from)
        const failed = StepExit.ofError(error)
        const outcome = retryAt === undefined ? failed.outcome : "retrying"
        stored = await journal.write(stepOf({ ...failed, outcome }, retryAt))
      } finally {
        this.host.limits.leave(given)
      }
      const turn = place()
      // The record of a success may have been on its way when the attempt timed out.
      if (retryAt === undefined || stored.outcome !== "retrying") {
        this.host.begun.delete(given.name)
        journal.deliver(turn, () => given.settle(stored, turn))
      } else {
        journal.deliver(turn, () => {})
        this.retryLater(given, attempt + 1, from, retryAt)
      }
    }, given.counts)
  }

  /** When a failed attempt is repeated; undefined if it was the last. */
  private retryOf(options: StepOptions<never>, error: unknown, attempt: number): number | undefined {
    const { attempts = usualAttempts, backoff } = options
    if (attempt >= attempts || error instanceof NestedStepError) return undefined
    if (error instanceof StepExit.Unstorable || error instanceof ChunkRefused) return undefined
    if (Outcome.isOutcome(error) && error._tag === "Dead") return undefined
    const asked = Outcome.isOutcome(error) && error._tag === "Retry" ? error.after : undefined
    const wait =
      asked !== undefined ? decode(asked) : (backoff === undefined ? usualBackoff : backoffOf(backoff))(attempt, 0.5)
    return this.host.now() + Duration.toMillis(faultOfWait(wait) === undefined ? wait : decode("10 minutes"))
  }
}
