import { Cause, Effect, Exit, Option, Runtime, Schedule } from "effect"
import type { WaitKind } from "../../core/Suspension.js"
import type { ClaimedExecution } from "../../queue/Queue.js"
import type { Transactions } from "../../queue/Transactions.js"
import type { Deferred, NewStep, Step } from "../../queue/workflow/Execution.js"
import type { NewChild, Recorded, Workflows } from "../../queue/workflow/Workflows.js"
import type { Recording, Stored } from "./Replay.js"
import * as StepExit from "./StepExit.js"

export interface RunServices {
  readonly workflows: typeof Workflows.Service
  readonly transactions: typeof Transactions.Service
}

/** The run lost its lease or must stop: nothing more is written. */
export class Stopped extends Error {}

const patience = Schedule.exponential("100 millis").pipe(Schedule.union(Schedule.spaced("2 seconds")))

const isTagged = (error: unknown, tag: string) => (error as { readonly _tag?: string })._tag === tag

/** The journal of an execution as one run reads and writes it. */
export class RunJournal {
  /** Attempts of steps that have no result: failed ones that are retried, and reopened ones. */
  private readonly attempts = new Map<string, ReadonlyArray<Step>>()
  /** The places of reopened steps, where their new results are recorded. */
  private readonly places = new Map<string, number>()
  /** Undos, and the steps inside them, that have ended. */
  readonly undone = new Map<string, Step>()
  /** Wake-up count as of the last read. A suspension compares it. */
  woken: number
  waits: ReadonlyArray<Deferred> = []
  /** The waits by kind and name: an execution may take thousands of signals, one after another. */
  private readonly named = new Map<string, Deferred>()
  /** Whether the waits were read. The first run reads them when it waits for a signal that may already have arrived. */
  private isRead = false
  private sequence = 0
  private readonly inFlight: Array<number> = []
  private readonly ready = new Map<number, () => void>()

  constructor(
    readonly execution: ClaimedExecution,
    readonly services: RunServices,
    private readonly runtime: Runtime.Runtime<never>,
    /** Whether the code receives no more results. */
    private readonly isOver: () => boolean,
    /** Whether results are recorded: until the run has ended. */
    private readonly mayRecord: () => boolean
  ) {
    this.woken = execution.woken
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
    const patient = Effect.retry(effect, {
      while: (error) => error._tag === "DatabaseUnavailable" && this.mayRecord(),
      schedule: patience
    })
    try {
      return await this.perform(patient)
    } catch (error) {
      throw isTagged(error, "LeaseLost") ? new Stopped() : error
    }
  }

  private async read() {
    const claimed = this.isRead ? undefined : this.execution.journal
    const journal = claimed ?? (await this.withRetries(this.services.workflows.load(this.execution.run)))
    this.woken = journal.woken
    this.waits = journal.waits
    this.named.clear()
    for (const wait of journal.waits) this.named.set(`${wait.kind} ${wait.name}`, wait)
    this.isRead = true
    return journal
  }

  /** Reads the journal and returns the recording for a replay. */
  async load(): Promise<Recording> {
    const results: Array<Step> = []
    const reopened = new Map<string, Step>()
    for (const step of (await this.read()).steps) {
      this.sequence = Math.max(this.sequence, step.sequence)
      const isOpen = step.reopenedAt !== undefined
      if (isOpen || step.outcome === "retrying") {
        this.attempts.set(step.name, [...this.attemptsOf(step.name), step])
      } else if (step.kind === "undo") this.undone.set(step.name, step)
      else results.push(step)
      if (!isOpen) continue
      reopened.set(step.name, step)
      this.places.set(step.name, step.sequence)
    }
    // Waits of an undo are not those of the code.
    const isOwn = ({ kind, name, waiting }: Deferred) => waiting && kind !== "changed" && !name.startsWith("undo:")
    const waits = this.waits.filter(isOwn).map(({ name }) => name)
    return { results, reopened: [...reopened.values()], waits }
  }

  /** Returns the steps that were cut off before the execution was cancelled, or records that these are them. */
  async cutOff(names: ReadonlyArray<string>, now: number): Promise<ReadonlyArray<string>> {
    const name = "undo:/cut off"
    const step = { name, kind: "undo", attempt: 1, startedAt: now } as const
    const before = this.undone.get(name)
    if (before === undefined) this.sequence += 1
    const recorded = before ?? (await this.record({ ...step, sequence: this.sequence, ...StepExit.ofValue(names) }))
    return StepExit.valueOf(recorded) as ReadonlyArray<string>
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

  /** The idempotency key of a step. A step that runs again after its undo has a new one, and so has its next undo. */
  idempotencyKey(name: string, undoing: string | undefined): string {
    const undone = this.attemptsOf(undoing ?? name).filter(({ outcome }) => outcome === "done").length
    const key = `${this.execution.id}/${name}`
    return undone === 0 ? key : `${key}/after-undo-${undone}`
  }

  /** Reads the waits again. */
  async refresh(): Promise<void> {
    await this.read()
  }

  /** Makes sure that signals from before this run are known. */
  async known(): Promise<void> {
    if (!this.isRead) await this.read()
  }

  deferred(kind: WaitKind, name: string): Deferred | undefined {
    return this.named.get(`${kind} ${name}`)
  }

  /** When a wait began: now, or before the execution was suspended on it. */
  begunAt(kind: WaitKind, name: string, now: number): number {
    const wait = this.deferred(kind, name)
    return wait?.waiting === true ? wait.createdAt : now
  }

  /** The place of a step's result in the journal, which is also its place in the delivery order. */
  sequenceOf(name: string): number {
    const place = this.places.get(name)
    if (place !== undefined) return place
    this.sequence += 1
    this.inFlight.push(this.sequence)
    return this.sequence
  }

  /** Delivers results to the code in the order of their sequence, which is the order of a replay. */
  deliver(sequence: number, give: () => void): void {
    // A step that ran again: the replay delivers it.
    if (!this.inFlight.includes(sequence)) {
      if (!this.isOver()) give()
      return
    }
    this.ready.set(sequence, give)
    for (let next = this.inFlight[0]; next !== undefined; next = this.inFlight[0]) {
      const turn = this.ready.get(next)
      if (turn === undefined) return
      this.inFlight.shift()
      this.ready.delete(next)
      if (!this.isOver()) turn()
    }
  }

  /** Records a step without a fiber if possible and if the database is available. */
  private recorded(step: NewStep): Promise<Recorded> {
    const { record, recordSoon } = this.services.workflows
    const { run } = this.execution
    if (recordSoon === undefined) return this.withRetries(record(run, step))
    return new Promise((resolve, reject) =>
      recordSoon(run, step, (exit) => {
        if (Exit.isSuccess(exit)) return resolve(exit.value)
        const error = Option.getOrUndefined(Cause.failureOption(exit.cause))
        if (error?._tag === "DatabaseUnavailable") resolve(this.withRetries(record(run, step)))
        else reject(error === undefined || error._tag === "LeaseLost" ? new Stopped() : error)
      })
    )
  }

  /** Records a result. A result that cannot be stored fails the step without a retry, which would fail again. */
  async record(step: NewStep): Promise<Recorded> {
    if (!this.mayRecord()) throw new Stopped()
    const { run } = this.execution
    const recorded = await this.recorded(step).catch((error: unknown) => {
      if (!isTagged(error, "InvalidStep")) throw error
      return this.withRetries(this.services.workflows.record(run, { ...step, ...StepExit.ofError(error) }))
    })
    this.execution.state.recorded = true
    return recorded
  }

  startChildren(name: string, children: ReadonlyArray<NewChild>, detached: boolean): Promise<void> {
    return this.withRetries(this.services.workflows.startChildren(this.execution.run, name, children, { detached }))
  }
}
