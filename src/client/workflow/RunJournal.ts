import { Cause, Effect, Exit, type Fiber, Option, Runtime } from "effect"
import { watchdog } from "../../core/Watchdog.js"
import * as AttemptLog from "../../handlers/AttemptLog.js"
import type { HandlerLog } from "../../handlers/Handler.js"
import { RunLog } from "../../handlers/RunLog.js"
import type { Events } from "../../queue/events/Events.js"
import type { ClaimedExecution } from "../../queue/Queue.js"
import type { Transactions } from "../../queue/Transactions.js"
import type { Answer } from "../../queue/workflow/Asks.js"
import type { NewStep, Step } from "../../queue/workflow/Execution.js"
import type { StreamBatch } from "../../queue/workflow/Streams.js"
import * as Undos from "../../queue/workflow/Undo.js"
import type { ChildrenOptions, NewChild, NewHeartbeat, Recorded, Workflows } from "../../queue/workflow/Workflows.js"
import type { RateLimits } from "../../rate-limits/RateLimits.js"
import { stepAnnotation } from "../../telemetry/LogLine.js"
import type { WatchHost } from "../../workflow/AttemptWatch.js"
import { afterPromises, Journal, longEvery } from "../../workflow/Journal.js"
import { StreamWriter } from "../../workflow/StreamWriter.js"
import { InvalidOptionError } from "../ShiftErrors.js"
import type { Recording, Stored } from "./Replay.js"
import * as StepExit from "./StepExit.js"

export interface RunServices {
  readonly workflows: typeof Workflows.Service
  readonly transactions: typeof Transactions.Service
  readonly limits: typeof RateLimits.Service
  readonly events: typeof Events.Service
}

/** The run lost its lease or must stop: nothing more is written. */
export class Stopped extends Error {}

const isTagged = (error: unknown, tag: string) => (error as { readonly _tag?: string })._tag === tag

/** A result to deliver. `done`: it is delivered apart from others. */
interface Turn {
  readonly give: () => void
  readonly done?: () => void
}

/** The journal of a run with promises. Delivers results in the order in which a replay delivers them. */
export class RunJournal extends Journal implements WatchHost {
  /** Attempts of steps that have no result: failed ones that are retried, and reopened ones. */
  private readonly attempts = new Map<string, ReadonlyArray<Step>>()
  /** Undos, and the steps inside them, that have ended. */
  readonly undone = new Map<string, Step>()
  private readonly inFlight: Array<number> = []
  private readonly ready = new Map<number, Turn>()
  /** Whether a result is being delivered, and the code may not have reacted yet. */
  private isGiving = false

  private readonly attemptLog: AttemptLog.AttemptLog | undefined

  constructor(
    execution: ClaimedExecution,
    readonly services: RunServices,
    private readonly runtime: Runtime.Runtime<never>,
    /** Whether the code receives no more results. */
    private readonly isOver: () => boolean,
    mayWrite: () => boolean
  ) {
    super(execution, services.workflows, mayWrite)
    this.attemptLog = AttemptLog.currentIn(runtime)
  }

  /** The log of a step's code. */
  log(step: string): HandlerLog {
    return new RunLog(this.runtime, this.attemptLog, { [stepAnnotation]: step })
  }

  /** Starts an effect that limits a step, such as a timer. */
  watch<A, E>(effect: Effect.Effect<A, E>): Fiber.RuntimeFiber<A, E> {
    return Runtime.runFork(this.runtime)(watchdog(effect))
  }

  /** Runs an effect that takes no time. */
  sync<A>(effect: Effect.Effect<A>): A {
    return Runtime.runSync(this.runtime)(effect)
  }

  /** Runs an effect. Rejects with its failure. */
  async perform<A, E>(effect: Effect.Effect<A, E>): Promise<A> {
    const exit = await Runtime.runPromiseExit(this.runtime)(Effect.either(effect))
    if (Exit.isFailure(exit)) throw new Stopped()
    if (exit.value._tag === "Left") throw exit.value.left
    return exit.value.right
  }

  /** Runs an effect, and retries it while the database is unavailable. */
  async withRetries<A, E extends { readonly _tag: string }>(effect: Effect.Effect<A, E>): Promise<A> {
    return this.untilLost(this.patiently(effect))
  }

  /** Runs an effect. The run stops if it has lost its lease. */
  private async untilLost<A, E>(effect: Effect.Effect<A, E>): Promise<A> {
    try {
      return await this.perform(effect)
    } catch (error) {
      throw isTagged(error, "LeaseLost") ? new Stopped() : error
    }
  }

  /** Reads the journal and returns the recording for a replay. */
  async load(): Promise<Recording> {
    const results: Array<Step> = []
    for (const step of (await this.untilLost(this.read())).steps) {
      if (step.reopenedAt !== undefined || step.outcome === "retrying") {
        this.attempts.set(step.name, [...this.attemptsOf(step.name), step])
      } else if (step.kind === "undo") this.undone.set(step.name, step)
      else results.push(step)
    }
    return { results, reopened: this.again, waits: this.openWaits.map(({ name }) => name) }
  }

  /** Pins an execution that has done nothing yet, before it does something. */
  async pinned(recorded: Recording): Promise<Recording> {
    const { reopened, results, waits } = recorded
    const isBlank = results.length + reopened.length + waits.length === 0
    if (!this.execution.cancelled) await this.untilLost(this.pin(isBlank))
    return recorded
  }

  /**
   * Returns the recorded names of the steps that were cut off before the execution was cancelled or failed. Records `names`
   * if none are recorded yet.
   */
  async cutOff(names: ReadonlyArray<string> | undefined, now: number): Promise<ReadonlyArray<string>> {
    const name = Undos.nameOf("/cut off")
    const step = { name, kind: "undo", attempt: 1, startedAt: now } as const
    const before = this.undone.get(name)
    if (before === undefined && names === undefined) return []
    const recorded =
      before ?? (await this.write({ ...step, sequence: this.newPlace(), ...StepExit.ofValue(names ?? []) }))
    return StepExit.recordedValue(recorded) as ReadonlyArray<string>
  }

  /** Remembers an undo that has ended in this run. */
  keepUndone(name: string, stored: Stored, sequence: number, at: number): void {
    const times = { startedAt: at, endedAt: at, retryAt: undefined, reopenedAt: undefined }
    this.undone.set(name, { ...stored, ...times, name, kind: "undo", attempt: 1, sequence })
  }

  /** Earlier attempts of a step that has no result, the last one last. */
  attemptsOf(name: string): ReadonlyArray<Step> {
    return this.attempts.get(name) ?? []
  }

  /** The execution's id, which differs for each of its journals. */
  get generation(): string {
    const { continued, id } = this.execution
    return continued === 0 ? id : `${id}@${continued}`
  }

  /** The idempotency key of a step. A step that runs again after its undo has a new key, and so has its next undo. */
  idempotencyKey(name: string, undoing: string | undefined): string {
    const undone = this.attemptsOf(undoing ?? name).filter(({ outcome }) => outcome === "done").length
    const key = `${this.generation}/${name}`
    return undone === 0 ? key : `${key}/after-undo-${undone}`
  }

  /** Stores a heartbeat for an attempt in another run. */
  storeHeartbeat(beat: NewHeartbeat): Promise<void> {
    return this.perform(this.workflows.heartbeat(this.execution.run, beat))
  }

  refusal(message: string): Error {
    return new InvalidOptionError("details", message)
  }

  /** Reads the waits again. */
  async refresh(): Promise<void> {
    await this.untilLost(this.read())
  }

  /** Makes sure that signals from before this run are known. */
  async known(): Promise<void> {
    if (!this.isRead) await this.refresh()
  }

  /** The place of a step's result in the journal, which is also its place in the delivery order. */
  sequenceOf(name: string): number {
    const old = this.oldPlaceOf(name)
    if (old !== undefined) return old
    const place = this.newPlace()
    this.inFlight.push(place)
    return place
  }

  /** Delivers results to the code in the order of their sequence, which is the order of a replay. */
  deliver(sequence: number, give: () => void): void {
    // A step that ran again: the replay delivers it.
    if (!this.inFlight.includes(sequence)) {
      if (!this.isOver()) give()
      return
    }
    this.ready.set(sequence, { give })
    this.deliverReady()
  }

  /**
   * Like `deliver`, in a separate turn of the event loop, as a replay does: code that got the results before has stopped, and
   * later results wait until the code has reacted. Resolves after that.
   */
  deliverApart(sequence: number, give: () => void): Promise<void> {
    return new Promise((done) => {
      this.ready.set(sequence, { give, done })
      this.deliverReady()
    })
  }

  private deliverReady(): void {
    const [next] = this.inFlight
    const turn = this.isGiving || next === undefined ? undefined : this.ready.get(next)
    if (next === undefined || turn === undefined) return
    this.inFlight.shift()
    this.ready.delete(next)
    this.isGiving = true
    const { done, give } = turn
    if (done === undefined) this.give(give, afterPromises)
    else setImmediate(() => this.give(give, setImmediate, done))
  }

  /** Delivers a result. The next one follows when the code has stopped. */
  private give(give: () => void, whenStopped: (callback: () => void) => void, done?: () => void): void {
    if (!this.isOver()) give()
    whenStopped(() => {
      this.isGiving = false
      this.deliverReady()
      done?.()
    })
  }

  /** Records a result. A result that cannot be stored fails the step without a retry, which would fail again. */
  write(step: NewStep): Promise<Recorded> {
    if (!this.mayWrite()) return Promise.reject(new Stopped())
    const { recordSoon } = this.workflows
    if (recordSoon === undefined) return this.writePatiently(step)
    // Without a fiber, as long as nothing goes wrong.
    return new Promise((resolve, reject) =>
      recordSoon(this.execution.run, step, (exit) => {
        const error = Exit.isSuccess(exit) ? undefined : Option.getOrUndefined(Cause.failureOption(exit.cause))
        if (Exit.isSuccess(exit)) {
          this.execution.state.recorded = true
          if (step.sequence % longEvery === 0) Runtime.runFork(this.runtime)(this.noteLength(step))
          resolve(exit.value)
        } else if (error?._tag === "DatabaseUnavailable" || error?._tag === "InvalidStep") {
          resolve(this.writePatiently(step))
        } else reject(error === undefined || error._tag === "LeaseLost" ? new Stopped() : error)
      })
    )
  }

  private writePatiently(step: NewStep): Promise<Recorded> {
    return this.untilLost(this.record(step, StepExit.unstored))
  }

  /** Begins a generation of a stream. */
  async beginStream(name: string, attempt: number): Promise<StreamWriter> {
    const { streams } = this.workflows
    const { run } = this.execution
    const generation = await this.withRetries(streams.begin(run, name, attempt))
    const append = (batch: StreamBatch): Promise<void> =>
      this.mayWrite() ? this.withRetries(streams.append(run, batch)) : Promise.reject(new Stopped())
    return new StreamWriter(name, generation, streams, append, this.runtime)
  }

  /** Stores the answer to an ask. */
  answer(row: string, answer: Answer): Promise<void> {
    if (!this.mayWrite()) return Promise.reject(new Stopped())
    return this.withRetries(this.workflows.answer(this.execution.run, row, answer))
  }

  startChildren(name: string, children: ReadonlyArray<NewChild>, options: ChildrenOptions): Promise<void> {
    return this.withRetries(this.workflows.startChildren(this.execution.run, name, children, options))
  }
}
