import { type Clock, Duration, Effect, Fiber, Runtime } from "effect"
import * as Backoff from "../../core/Backoff.js"
import { decode } from "../../core/DurationText.js"
import * as Outcome from "../../core/Outcome.js"
import { faultOfText, faultOfWait } from "../../core/Storable.js"
import * as Suspension from "../../core/Suspension.js"
import type { ClaimedExecution } from "../../queue/Queue.js"
import type { Deferred, NewStep, StepKind } from "../../queue/workflow/Execution.js"
import type { Recorded, Workflows } from "../../queue/workflow/Workflows.js"
import { backoffOf } from "../JobDefinition.js"
import { InvalidOptionError } from "../ShiftErrors.js"
import { type Difference, Replay, type Stored } from "./Replay.js"
import { RunJournal, type RunServices, Stopped } from "./RunJournal.js"
import type { StepContext, StepOptions } from "./Step.js"
import * as StepExit from "./StepExit.js"

// One run of an execution. It ends with the result of the code, with its failure after all undos, or with a suspension as
// soon as nothing runs and everything the code awaits is a wait. A promise that waits never settles in this run: no
// `catch` and no `finally` of the code runs before its time.

/** Waits that end sooner than this, in milliseconds, are waited for in the slot. */
export const holdFor = 100

/** How long an execution waits before the changed code is tried again: other code may have been deployed. */
const changedPause = Duration.toMillis("10 minutes")

const usualBackoff = Backoff.stepwise("1 second", "10 seconds", "1 minute", "10 minutes")
const usualRetries = 3

interface OpenWait {
  readonly wait: Suspension.Wait
  readonly onDue: (() => void) | undefined
  readonly onCompleted: ((deferred: Deferred) => void) | undefined
  timer?: Fiber.RuntimeFiber<void>
}

interface Undo {
  readonly step: string
  readonly sequence: number
  readonly run: (context: StepContext) => unknown
  readonly options: StepOptions<unknown>
}

/** A step as it goes on: what runs it, and what to do with its result. */
export interface Attempts {
  readonly name: string
  readonly kind: StepKind
  readonly options: StepOptions<never>
  /** False for an undo: it may wait itself, so that it does not keep the execution from being suspended. */
  readonly counts?: boolean
  /** Runs the code and records its success: by the promise, or by the effect in a transaction. */
  readonly perform: (
    context: StepContext,
    record: (stored: Stored) => Promise<Recorded>,
    recordInside: (stored: Stored) => Effect.Effect<Recorded, RecordError>
  ) => Promise<Recorded>
  readonly settle: (stored: Stored, sequence: number) => void
}

interface Tries extends Attempts {
  /** Attempts up to this one do not count as retries. */
  readonly from: number
}

type RecordError = Effect.Effect.Error<ReturnType<typeof Workflows.Service.record>>

export class WorkflowRun {
  readonly journal: RunJournal
  private readonly controller = new AbortController()
  private replay: Replay | undefined
  private readonly open = new Map<string, OpenWait>()
  private readonly bodies = new Set<Promise<unknown>>()
  private readonly undos: Array<Undo> = []
  /** The step that is being undone. */
  private undoing: string | undefined
  private isUndoing = false
  private failure: { readonly error: unknown } | undefined
  private running = 0
  private isOver = false
  private isChecking = false
  private end: (result: unknown) => void = () => {}
  private fault: (error: unknown) => void = () => {}

  constructor(
    readonly execution: ClaimedExecution,
    services: RunServices,
    private readonly runtime: Runtime.Runtime<never>,
    private readonly clock: Clock.Clock,
    private readonly isFirst: boolean
  ) {
    this.journal = new RunJournal(execution, services, runtime, () => this.isOver)
  }

  now(): number {
    return this.clock.unsafeCurrentTimeMillis()
  }

  /** Runs the code until it ends or waits. */
  async run(body: () => Promise<unknown>): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.end = resolve
      this.fault = reject
      const start = (replay: Replay) => {
        this.replay = replay
        body().then(
          (value) => this.returned(value),
          (error: unknown) => this.threw(error)
        )
        if (!this.isFirst || this.execution.cancelled) this.check()
      }
      const recording = this.isFirst ? Promise.resolve({ results: [], reopened: [] }) : this.journal.load()
      recording.then(
        (recorded) => start(new Replay(recorded, this.execution.cancelled)),
        (error: unknown) => this.fail(error)
      )
    })
  }

  /** Stops without a result: the process ends, or the lease is lost. Completes when no code of a step runs. */
  async stop(): Promise<void> {
    this.close()
    await Promise.allSettled(this.bodies)
  }

  private close(): void {
    this.isOver = true
    for (const { timer } of this.open.values()) if (timer !== undefined) this.fork(Fiber.interrupt(timer))
    this.open.clear()
    this.controller.abort()
  }

  /** Ends the run. Steps that lost a race and still run are aborted, and awaited. */
  private finish(result: unknown): void {
    if (this.isOver) return
    this.close()
    void Promise.allSettled(this.bodies).then(() => this.end(result))
  }

  private fail(error: unknown): void {
    if (this.isOver) return
    this.close()
    if (error instanceof Stopped) this.end(Suspension.make({ woken: 0, waits: [] }))
    else this.fault(error)
  }

  private fork<A, E>(effect: Effect.Effect<A, E>): Fiber.RuntimeFiber<A, E> {
    return Runtime.runFork(this.runtime)(effect)
  }

  /** Reads the waits again, and ends those that are complete. */
  async refresh(): Promise<void> {
    await this.journal.refresh()
    for (const [key, open] of [...this.open]) {
      const deferred = this.journal.deferred(open.wait.kind, open.wait.name)
      if (deferred?.completedAt === undefined || open.onCompleted === undefined) continue
      this.unblock(key)
      open.onCompleted(deferred)
    }
  }

  /**
   * A call of the code: gives its recorded result, or runs `live`. Steps inside an undo are recorded as part of it.
   */
  call<A>(
    kind: StepKind,
    base: string,
    live: (name: string, settle: (stored: Stored, sequence: number) => void) => void,
    read: (stored: Stored, name: string, sequence: number) => A,
    passed?: A
  ): Promise<A> {
    const fault = faultOfText(base, 256) ?? (base.startsWith("undo:") ? 'must not start with "undo:"' : undefined)
    if (fault !== undefined) {
      return Promise.reject(new InvalidOptionError("name", `The name of a step ${fault}: "${base.slice(0, 100)}".`))
    }
    return new Promise((resolve, reject) => {
      const { replay } = this
      if (this.isOver || replay === undefined) return
      const inUndo = this.undoing !== undefined
      const name = replay.numbered(inUndo ? `undo:${this.undoing}/${base}` : base)
      const settle = (stored: Stored, sequence: number) => {
        try {
          if (stored.outcome === "failed") reject(StepExit.errorOf(name, stored))
          else resolve(read(stored, name, sequence))
        } catch (error) {
          reject(error)
        }
      }
      const before = inUndo ? this.journal.undone.get(name) : replay.recorded(name)
      const place = inUndo ? undefined : replay.place(name)
      if (before !== undefined && before.kind !== kind && !inUndo) {
        this.changed({ recorded: `${name} (${before.kind})`, requested: `${name} (${kind})` })
      } else if (inUndo) {
        if (before !== undefined) settle(before, before.sequence)
        else live(name, settle)
      } else if (this.isUndoing) {
        // Code that goes on beside a failure gets no further.
      } else if (before !== undefined) {
        if (replay.request(before, () => settle(before, before.sequence))) this.check()
      } else if (place !== undefined) {
        const conclude = (stored: Stored, sequence: number) => {
          if (replay.concluded(place, () => settle(stored, sequence))) this.check()
        }
        replay.rerun(place, () => live(name, conclude))
      } else {
        const start = () => live(name, settle)
        const held = passed === undefined ? { name, start } : { name, start, passed: () => resolve(passed) }
        if (replay.begin(held)) this.check()
      }
    })
  }

  /** Records a result, then gives it to the code. */
  conclude(
    step: Pick<NewStep, "name" | "kind">,
    stored: Stored,
    settle: Attempts["settle"],
    startedAt = this.now()
  ): void {
    const sequence = this.journal.sequenceOf(step.name)
    this.busy(async () => {
      const kind = this.kindOf(step.kind)
      const attempt = (this.journal.attemptsOf(step.name).at(-1)?.attempt ?? 0) + 1
      const result = await this.journal.record({ ...step, kind, attempt, sequence, startedAt, ...stored })
      this.journal.deliver(sequence, () => settle(result, sequence))
    })
  }

  /** Steps inside an undo belong to it. */
  private kindOf(kind: StepKind): StepKind {
    return this.undoing === undefined ? kind : "undo"
  }

  /** Counts something that keeps the execution from being suspended. */
  busy(act: () => Promise<void>, counts = true): void {
    const weight = counts ? 1 : 0
    this.running += weight
    const body = act().then(
      () => {
        this.running -= weight
        if (this.open.size > 0 || this.isUndoing || this.execution.cancelled) this.check()
      },
      (error: unknown) => this.fail(error)
    )
    // An undo that waits never settles.
    if (!counts) return
    this.bodies.add(body)
    void body.then(() => this.bodies.delete(body))
  }

  /** Waits. `onDue` is called at its instant, `onCompleted` if the wait turns out to be complete. */
  block(wait: Suspension.Wait, on: Pick<OpenWait, "onDue" | "onCompleted">): void {
    const key = `${wait.kind} ${wait.name}`
    this.open.set(key, { wait, ...on })
    this.check()
  }

  /** Times the waits in this process, because the execution is not suspended now. */
  private arm(): void {
    for (const [key, open] of this.open) {
      const { onDue, timer, wait } = open
      if (wait.dueAt === undefined || onDue === undefined || timer !== undefined) continue
      const due = Effect.sync(() => {
        if (this.isOver || this.open.get(key) !== open) return
        this.open.delete(key)
        onDue()
      })
      open.timer = this.fork(Effect.zipRight(Effect.sleep(Math.max(0, wait.dueAt - this.now())), due))
    }
  }

  private unblock(key: string): void {
    const open = this.open.get(key)
    this.open.delete(key)
    if (open?.timer !== undefined) this.fork(Fiber.interrupt(open.timer))
  }

  /** Runs a step with its retries. The delays between attempts are waits like others. */
  attempt(given: Attempts): void {
    const before = this.journal.attemptsOf(given.name)
    const last = before.at(-1)
    const next = (last?.attempt ?? 0) + 1
    // A reopened step has all its retries again.
    const from = before.findLast(({ reopenedAt }) => reopenedAt !== undefined)?.attempt ?? 0
    const tries = { ...given, from }
    if (last?.retryAt === undefined || last.retryAt <= this.now()) this.tryOnce(tries, next)
    else this.retryLater(tries, next, last.retryAt)
  }

  private retryLater(given: Tries, attempt: number, dueAt: number): void {
    this.block(
      { kind: "retry", name: given.name, dueAt },
      { onDue: () => this.tryOnce(given, attempt), onCompleted: undefined }
    )
  }

  private tryOnce(given: Tries, attempt: number): void {
    const startedAt = this.now()
    const { journal } = this
    const idempotencyKey = journal.idempotencyKey(given.name, this.undoing)
    const step = { name: given.name, kind: this.kindOf(given.kind), attempt, startedAt }
    const context = { idempotencyKey, attempt, signal: this.controller.signal }
    this.busy(async () => {
      let sequence: number | undefined
      const place = () => (sequence ??= journal.sequenceOf(given.name))
      const record = (stored: Stored & { readonly retryAt?: number | undefined }) =>
        journal.record({ ...step, sequence: place(), ...stored })
      const recordInside = (stored: Stored) =>
        Effect.suspend(() =>
          journal.services.workflows.record(this.execution.run, { ...step, sequence: place(), ...stored })
        )
      let stored: Recorded
      let retryAt: number | undefined
      try {
        stored = await given.perform(context, record, recordInside)
      } catch (error) {
        // An interrupted step has not failed.
        if (this.isOver || error instanceof Stopped) throw new Stopped()
        retryAt = this.retryOf(given.options, error, attempt - given.from)
        const failed = StepExit.ofError(error)
        stored = await record(retryAt === undefined ? failed : { ...failed, outcome: "retrying", retryAt })
      }
      const turn = place()
      if (retryAt === undefined) {
        journal.deliver(turn, () => given.settle(stored, turn))
      } else {
        journal.deliver(turn, () => {})
        this.retryLater(given, attempt + 1, retryAt)
      }
    }, given.counts)
  }

  /** When a failed attempt is repeated; undefined if it was the last. */
  private retryOf(options: StepOptions<never>, error: unknown, attempt: number): number | undefined {
    const { backoff, retries = usualRetries } = options
    if (attempt > retries || (Outcome.isOutcome(error) && error._tag === "Dead")) return undefined
    const asked = Outcome.isOutcome(error) && error._tag === "Retry" ? error.after : undefined
    const wait = asked ?? (backoff === undefined ? usualBackoff : backoffOf(backoff))(attempt, 0.5)
    return this.now() + Duration.toMillis(faultOfWait(wait) === undefined ? wait : decode("10 minutes"))
  }

  /** Registers the undo of a step that is done. */
  onUndo(undo: Undo): void {
    // A cancelled run passes steps that were undone before it and did not run again.
    if (this.replay?.place(undo.step) === undefined || !this.execution.cancelled) this.undos.push(undo)
  }

  private returned(value: unknown): void {
    if (this.isOver || this.isUndoing) return
    const difference = this.replay?.difference()
    if (difference !== undefined) this.changed(difference)
    else if (this.execution.cancelled) this.undoAll()
    else this.finish(value)
  }

  private threw(error: unknown): void {
    if (this.isOver || this.isUndoing) return
    const difference = this.replay?.difference()
    if (difference === undefined) {
      this.failure = { error }
      this.undoAll()
    } else this.changed(difference)
  }

  /** Stops the code, lets running steps end, and undoes the steps that are done, the last one first. */
  private undoAll(): void {
    this.isUndoing = true
    for (const key of [...this.open.keys()]) this.unblock(key)
    this.check()
  }

  private undoNext(): void {
    const open = this.undos.filter(({ step }) => !this.journal.undone.has(`undo:${step}`))
    const next = open.sort((a, b) => b.sequence - a.sequence)[0]
    if (next === undefined) this.finish(this.outcome())
    else this.undo(next)
  }

  private undo(next: Undo): void {
    this.undoing = next.step
    const name = `undo:${next.step}`
    this.attempt({
      name,
      kind: "undo",
      counts: false,
      options: next.options as StepOptions<never>,
      perform: async (context, record) => {
        await next.run(context)
        return record(StepExit.ofValue(undefined))
      },
      settle: (stored, sequence) => {
        const at = this.now()
        this.journal.undone.set(name, {
          ...stored,
          name,
          kind: "undo",
          attempt: 1,
          sequence,
          startedAt: at,
          endedAt: at,
          retryAt: undefined,
          reopenedAt: undefined
        })
        this.undoing = undefined
        this.check()
      }
    })
  }

  private outcome(): Outcome.Outcome {
    if (this.failure === undefined) return Outcome.cancelled
    const failed = [...this.journal.undone.values()].filter(({ outcome }) => outcome === "failed")
    const notUndone = failed.map(
      (step) => `${step.name.replace("undo:", "undo of ")} failed: ${StepExit.errorOf(step.name, step).message}`
    )
    return Outcome.dead([StepExit.textOf(this.failure.error), ...notUndone].join("; "))
  }

  private changed({ recorded, requested }: Difference): void {
    const instead = requested === undefined ? "its code ended without it" : `its code does "${requested}" instead`
    const error = `The code has changed: step "${recorded}" is recorded, but ${instead}. Deploy code that follows the journal, use step.patched, or fork the execution. Code that reads a clock or a random number between steps causes this, too: read it in a step.`
    this.suspend([{ kind: "changed", name: recorded, dueAt: this.now() + changedPause }], error)
  }

  private suspend(waits: ReadonlyArray<Suspension.Wait>, error?: string): void {
    this.finish(Suspension.make({ woken: this.journal.woken, waits, error }))
  }

  /** Looks in the next turn of the event loop whether the code can go on. */
  private check(): void {
    if (this.isChecking || this.isOver) return
    this.isChecking = true
    setImmediate(() => {
      this.isChecking = false
      this.look()
    })
  }

  private look(): void {
    if (this.isOver || this.replay === undefined) return
    const state = this.isUndoing ? "still" : this.replay.turn()
    if (state === "wait") this.check()
    else if (state !== "still") this.changed(state)
    else if (this.running > 0) this.arm()
    else if (this.execution.cancelled && !this.isUndoing) this.undoAll()
    else if (this.isUndoing && this.undoing === undefined) this.undoNext()
    else this.waitForAll()
  }

  /** Nothing runs: suspends the execution, unless it goes on in a moment. */
  private waitForAll(): void {
    const waits = [...this.open.values()].map(({ wait }) => wait)
    // Without a wait, the code awaits something of its own.
    if (waits.length === 0) return
    const isSoon = waits.some(({ dueAt }) => dueAt !== undefined && dueAt <= this.now() + holdFor)
    if (isSoon) this.arm()
    else this.suspend(waits)
  }
}
