import type { Clock, Runtime } from "effect"
import * as StepName from "../../core/StepName.js"
import * as Suspension from "../../core/Suspension.js"
import * as Thrown from "../../core/Thrown.js"
import type { ClaimedExecution } from "../../queue/Queue.js"
import * as ChangedCode from "../../queue/workflow/ChangedCode.js"
import type { NewStep, StepKind } from "../../queue/workflow/Execution.js"
import * as Undos from "../../queue/workflow/Undo.js"
import { afterThreads, holdFor } from "../../workflow/Journal.js"
import { NestedStepError } from "../ExecutionErrors.js"
import { type AskHandler, AskHandlers, type AskHost } from "./AskHandlers.js"
import type { AskSchema } from "./Asks.js"
import { CodeEnd, type EndHost } from "./CodeEnd.js"
import { type OnWait, OpenWaits } from "./OpenWaits.js"
import { type CallOptions, Replay, type Stored } from "./Replay.js"
import { RunJournal, type RunServices, Stopped } from "./RunJournal.js"
import { StepAborts } from "./StepAborts.js"
import { type AttemptHost, type Attempts, StepAttempts } from "./StepAttempts.js"
import { StepBodies } from "./StepBodies.js"
import * as StepExit from "./StepExit.js"
import { type LimitHost, StepLimits } from "./StepLimits.js"
import * as StepScope from "./StepScope.js"
import { type Undo, type UndoHost, UndoPhase } from "./UndoPhase.js"

// One run of an execution. It ends with the result of the code, with its failure after all undos, or with a suspension as
// soon as nothing runs and the code awaits only waits, whose promises never settle then: no `catch` of the code runs early.

export class WorkflowRun implements AskHost, AttemptHost, EndHost, UndoHost, LimitHost {
  readonly journal: RunJournal
  readonly aborts = new StepAborts()
  readonly limits: StepLimits
  replay: Replay | undefined
  private readonly waits: OpenWaits
  private readonly attempts = new StepAttempts(this)
  private readonly bodies = new StepBodies(
    () => this.bodyEnded(),
    (error) => this.fail(error)
  )
  private readonly undoPhase = new UndoPhase(this)
  readonly asks: AskHandlers
  /** Whether the run only compares the code with its journal. */
  isComparing = false
  /** `cancelled` and `stopping`: the code gets no results and starts no steps, but steps that run are recorded. */
  private phase: "running" | "cancelled" | "stopping" | "over" = "running"
  readonly begun = new Set<string>()
  /** Names that the code has set. */
  readonly names = new Set<string>()
  /** Called when the undo calls a step in a run that is stopping, which does not run the step. */
  private onUndoBlocked: () => void = () => {}
  private isChecking = false
  private readonly codeEnd = new CodeEnd(this)
  private end: (result: unknown) => void = () => {}
  private fault: (error: unknown) => void = () => {}

  constructor(
    workflow: string,
    readonly execution: ClaimedExecution,
    services: RunServices,
    runtime: Runtime.Runtime<never>,
    private readonly clock: Clock.Clock,
    private readonly isFirst: boolean,
    /** Whether the execution is run only by the release that runs it first. */
    private readonly isPinned: boolean
  ) {
    this.journal = new RunJournal(
      execution,
      services,
      runtime,
      () => this.isOver,
      () => this.phase !== "over"
    )
    this.waits = new OpenWaits(runtime, () => this.now())
    this.limits = new StepLimits(this, workflow)
    this.asks = new AskHandlers(this, runtime)
  }

  get isOver(): boolean {
    return this.phase !== "running"
  }

  get undoing(): string | undefined {
    return this.undoPhase.step
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
        if (this.isOver) return
        this.replay = replay
        body().then(
          (value) => this.returned(value),
          (error: unknown) => this.threw(Thrown.plain(error))
        )
        if (!this.isFirst || this.execution.cancelled) this.check()
      }
      const first = { results: [], reopened: [], waits: [] }
      const recording = this.isFirst ? Promise.resolve(first) : this.journal.load()
      const pinned = this.isPinned ? recording.then((recorded) => this.journal.pinned(recorded)) : recording
      pinned.then(
        (recorded) => start(new Replay(recorded, this.execution.cancelled, this.execution.cut)),
        (error: unknown) => this.fail(error)
      )
    })
  }

  /**
   * Runs the code against the journal of a finished execution, and returns how it differs. Starts no step. Tests use this to
   * notice code that is not deterministic.
   */
  async compare(body: () => Promise<unknown>): Promise<string | undefined> {
    const replay = new Replay(await this.journal.load(), true)
    this.replay = replay
    this.isComparing = true
    const ended = await new Promise<unknown>((resolve, reject) => {
      this.end = resolve
      this.fault = reject
      const over = () => this.returned(undefined)
      body().then(over, over)
      this.check()
    })
    return Suspension.isSuspension(ended) ? ended.changed : undefined
  }

  /**
   * Stops without a result: the process ends, the run timed out, or the lease is lost. Resolves when no step's code runs. Steps
   * that still succeed are recorded.
   */
  async stop(): Promise<void> {
    if (this.phase !== "over") this.phase = "stopping"
    const blocked = new Promise<void>((resolve) => {
      this.onUndoBlocked = resolve
    })
    this.waits.clear()
    this.aborts.abort(true, false)
    const undo = this.undoPhase.hasSteps ? undefined : Promise.race([this.bodies.undo, blocked])
    await Promise.allSettled([this.bodies.settled(), undo])
    this.phase = "over"
  }

  /**
   * The execution was cancelled. Ends the run when its steps have ended; the next run undoes them. Steps that cannot be undone
   * are aborted. A run that undoes already does what the cancel requests.
   */
  cancel(): void {
    if (this.isOver || this.undoPhase.isActive || this.execution.cancelled) return
    this.phase = "cancelled"
    this.waits.clear()
    this.aborts.abort(false)
    this.endCancelled()
  }

  private endCancelled(): void {
    if (this.phase !== "cancelled" || this.bodies.areRunning) return
    const caughtUp = this.execution.state.recorded && this.begun.size === 0
    this.finish(Suspension.make({ woken: -1, waits: [], caughtUp }))
  }

  private close(): void {
    this.phase = "over"
    this.waits.clear()
    this.asks.disarm()
    this.aborts.abort(true, false)
    this.limits.leaveAll()
  }

  /** Ends the run. Steps that lost a race and still run are aborted, and awaited. */
  finish(result: unknown): void {
    if (this.phase === "over") return
    this.close()
    void this.bodies.settled().then(() => this.end(result))
  }

  private fail(error: unknown): void {
    if (this.phase === "over") return
    this.close()
    if (error instanceof Stopped) this.end(Suspension.make({ woken: 0, waits: [] }))
    else this.fault(error)
  }

  /** Reads the waits again, and ends those that are complete. */
  async refresh(): Promise<void> {
    await this.journal.refresh()
    this.waits.complete()
  }

  /**
   * A call of the code: returns its recorded result, or runs `live`. Steps inside an undo are recorded as part of it.
   */
  call<A>(
    kind: StepKind,
    base: string,
    live: (name: string, settle: (stored: Stored, sequence: number) => void) => void,
    read: (stored: Stored, name: string, sequence: number) => A,
    { canUndo = false, onFailed, passed }: CallOptions<A> = {}
  ): Promise<A> {
    const outer = StepScope.stepOf(this)
    if (outer !== undefined) return Promise.reject(new NestedStepError(outer, base))
    const { replay } = this
    const inUndo = this.undoing !== undefined
    if (this.isOver || replay === undefined) {
      this.onUndoBlocked()
      return new Promise(() => {})
    }
    this.undoPhase.hasSteps ||= inUndo
    const name = replay.numbered(Undos.within(this.undoing, StepName.nameOf(kind, base)))
    const known = this.undoPhase.calls.get(name)
    if (known !== undefined) return known as Promise<A>
    const promise = new Promise<A>((resolve, reject) => {
      const settle = (stored: Stored, sequence: number) => {
        try {
          if (stored.outcome !== "failed") return resolve(read(stored, name, sequence))
          onFailed?.(stored, name, sequence)
          reject(StepExit.errorOf(name, stored))
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
      } else if (before !== undefined) {
        if (place !== undefined) replay.keep({ name, kind, canUndo, start: () => live(name, settle) })
        replay.request(before, () => settle(before, before.sequence))
        replay.deliverSoon(this)
      } else if (place !== undefined) {
        const conclude = (stored: Stored, sequence: number) => {
          replay.concluded(place, () => settle(stored, sequence))
          replay.deliverSoon(this)
        }
        if (replay.rerun(place, { name, kind, canUndo, start: () => live(name, conclude) })) this.check()
      } else {
        const held = { name, kind, canUndo, start: () => live(name, settle) }
        if (replay.begin(passed === undefined ? held : { ...held, passed: () => resolve(passed.value) })) this.check()
      }
    })
    // Without this, a failed step that the code does not await would end the process.
    promise.catch(() => {})
    if (inUndo) this.undoPhase.calls.set(name, promise)
    return promise
  }

  /** Attaches the handler of an ask. */
  answer(name: string, schema: AskSchema["payload"], handler: AskHandler): void {
    const outer = StepScope.stepOf(this)
    if (outer !== undefined) throw new NestedStepError(outer, name)
    if (this.isOver || this.replay === undefined || this.undoPhase.isActive) return
    this.asks.attach(name, schema, handler, this.replay)
  }

  /** Records a result, then returns it to the code. */
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
      const result = await this.journal.write({ ...step, kind, attempt, sequence, startedAt, ...stored })
      const give = () => settle(result, sequence)
      if (step.kind === "ask") await this.journal.deliverApart(sequence, give)
      else this.journal.deliver(sequence, give)
    })
  }

  /** Steps inside an undo belong to the undo. */
  kindOf(kind: StepKind): StepKind {
    return this.undoing === undefined ? kind : "undo"
  }

  /** Runs something that prevents the suspension of the execution until it ends. An undo, which may wait, does not count. */
  busy(act: () => Promise<void>, counts = true): void {
    if (counts) this.bodies.run(act)
    else this.bodies.runUndo(act)
  }

  private bodyEnded(): void {
    const mayStop = !this.waits.isEmpty || this.asks.isAttached
    if (this.isOver) this.endCancelled()
    else if (mayStop || this.undoPhase.isActive || this.execution.cancelled) this.check()
  }

  /** Registers a wait. Once steps are undone, the code waits for nothing more. */
  block(wait: Suspension.Wait, on: OnWait): void {
    if (this.isOver || !this.undoPhase.mayWait(wait.name)) return
    this.waits.add(wait, on)
    this.check()
  }

  endLimits(): void {
    this.waits.endLimits()
  }

  /** Runs a step with its retries. */
  attempt(given: Attempts): void {
    this.attempts.start(given)
  }

  /** Registers the undo of a step that is done. */
  onUndo(undo: Undo): void {
    this.undoPhase.add(undo, this.replay?.place(undo.step) !== undefined)
  }

  /** Ends the run, and the journal with it. */
  continueAs(continues: Suspension.Continuation): void {
    this.returned(Suspension.make({ woken: -1, waits: [], caughtUp: true, continues }))
  }

  private returned(value: unknown): void {
    if (this.undoPhase.isActive) return
    this.codeEnd.begin(() => (this.execution.cancelled ? this.undoAll() : this.finish(value)), this.execution.cancelled)
  }

  private threw(error: unknown): void {
    if (this.undoPhase.isActive) return
    this.codeEnd.begin(() => {
      this.undoPhase.failure = { error }
      this.undoAll()
    }, true)
  }

  /** Stops the code, lets running steps end, and undoes the steps that are done, the last one first. */
  private undoAll(): void {
    this.undoPhase.isActive = true
    this.replay?.end()
    this.waits.clear()
    this.check()
  }

  private changed(difference: ChangedCode.Difference): void {
    this.finish(ChangedCode.suspension(difference, this.journal, this.now(), "use step.patched, or fork the execution"))
  }

  /** Checks in the next turn of the event loop whether the code can continue. */
  check(after: (callback: () => void) => void = setImmediate): void {
    if (this.isChecking || this.isOver) return
    this.isChecking = true
    after(() => {
      this.isChecking = false
      this.advance()
    })
  }

  private advance(): void {
    if (this.isOver || this.replay === undefined || this.codeEnd.isAnswering) return
    const state = this.undoPhase.isActive ? this.replay.rest() : this.replay.turn()
    if (state === "wait" || state === "doubt") this.check(state === "doubt" ? afterThreads : setImmediate)
    else if (state !== "still") this.changed(state)
    else if (this.codeEnd.conclude()) return
    else if (this.isComparing) this.compared(this.replay.beyond)
    else if (this.mayReceive && this.asks.receive()) return
    else if (this.bodies.areRunning) {
      this.waits.arm()
      this.asks.arm()
    } else if (this.execution.cancelled && !this.undoPhase.isActive) {
      // Otherwise the code awaits something of its own, and has not requested all steps that are done.
      if (this.replay.difference() === undefined) this.undoAll()
    }
    // While nothing is undone, only a step that runs again may wait: for its next attempt.
    else if (this.undoPhase.isActive && this.undoing === undefined && this.waits.isEmpty) this.undoPhase.next()
    else this.waitForAll()
  }

  /** The code waits: for a step that it did not request before, or for something of its own. */
  private compared(beyond: string | undefined): void {
    if (beyond === undefined) return
    const changed = `it is at its end, but its code does "${beyond}" in a second run`
    this.finish(Suspension.make({ woken: 0, waits: [], changed }))
  }

  private get mayReceive(): boolean {
    return !this.execution.cancelled && !this.undoPhase.isActive
  }

  /** Nothing runs: suspends the execution, unless a wait ends within `holdFor`. */
  private waitForAll(): void {
    const waits = this.waits.isEmpty && this.mayReceive ? this.asks.waits : this.waits.all
    // Without a wait, the code awaits a promise that is not a step.
    if (waits.length === 0) return
    const isSoon = waits.some(({ dueAt }) => dueAt !== undefined && dueAt <= this.now() + holdFor)
    if (isSoon) this.waits.arm()
    else {
      const caughtUp = !this.execution.cancelled && this.begun.size === 0
      this.finish(Suspension.make({ woken: this.journal.woken, waits, caughtUp }))
    }
  }
}
