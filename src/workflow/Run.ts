import { Clock, Effect, Either, Exit } from "effect"
import * as StepName from "../core/StepName.js"
import { jsonText } from "../core/Storable.js"
import { limits } from "../core/StoredJob.js"
import type { Continuation, Wait } from "../core/Suspension.js"
import type { ClaimedExecution } from "../queue/Queue.js"
import * as ChangedCode from "../queue/workflow/ChangedCode.js"
import type { NewStep, Step, StepKind } from "../queue/workflow/Execution.js"
import * as Undos from "../queue/workflow/Undo.js"
import type { InvalidStep, LeaseLost } from "../queue/workflow/WorkflowErrors.js"
import type { Workflows } from "../queue/workflow/Workflows.js"
import * as Compensation from "./Compensation.js"
import * as ExitJson from "./ExitJson.js"
import { Follower } from "./Follower.js"
import { holdFor, Journal } from "./Journal.js"
import * as SetValue from "./SetValue.js"

/** Poll interval for signals while an activity of the run is still running. */
const pollInterval = "1 second"

type NewRecord = Pick<NewStep, "name" | "kind"> & Partial<Pick<NewStep, "attempt" | "startedAt">>

/** The exit of a step whose own exit cannot be stored. */
const defectOf = ({ message }: InvalidStep) => ({
  outcome: "failed" as const,
  exit: ExitJson.encode(Exit.die(new Error(message)))
})

/** One run of an execution: its journal and its waits. */
export class Run extends Journal {
  /** The open waits of the code. */
  readonly open = new Map<string, Wait>()
  /** The instants at which durable clocks end, by name. */
  readonly clocks = new Map<string, number>()
  readonly undos: Array<Compensation.Undo> = []
  /** The process is stopping, the lease is lost or the code was removed: nothing more is started or written. */
  isStopping = false
  /** A failure outside the workflow's code. */
  fault: { readonly error: unknown } | undefined
  /** The step that is being undone. */
  undoing: string | undefined
  readonly follower = new Follower()

  private readonly steps = new Map<string, Step | NewStep>()
  /** The activities that run. */
  readonly running: Array<string> = []
  /** Open while no activity runs. */
  readonly idle = Effect.unsafeMakeLatch(true)
  /** Opened when the execution is cancelled during this run. */
  readonly cancelled = Effect.unsafeMakeLatch(false)
  private isCancelled = false
  private readonly failures = new Map<string, number>()
  /** Names that the code has set, and how often each call with a number was made. */
  private readonly names = new Set<string>()
  private readonly calls = new Map<string, number>()

  /** The start of a new journal, with which the code has ended this one. */
  next: Continuation | undefined

  constructor(
    execution: ClaimedExecution,
    workflows: typeof Workflows.Service,
    /** Version of the payloads of the code. */
    private readonly version: number
  ) {
    super(execution, workflows, () => !this.isStopping)
  }

  /** Whether the execution has done nothing yet. */
  get isBlank(): boolean {
    return this.steps.size === 0 && this.openWaits.length === 0
  }

  /** Ends the journal: the next run starts with this payload. */
  continueAs(payload: unknown): Effect.Effect<void, Error> {
    return Either.match(jsonText(payload, limits.payloadBytes), {
      onLeft: (reason) => Effect.fail(new Error(`The payload of continueAs ${reason}.`)),
      onRight: (text) =>
        Effect.sync(() => {
          this.next = { payload: text, version: this.version }
        })
    })
  }

  /** The recorded failure of the workflow, whose compensations have begun. */
  get failure(): unknown {
    return this.recordedStep(ExitJson.failureStep, 1)?.exit
  }

  /** Whether the code may start a step. The code of a cancelled or failed execution is only replayed. */
  private get mayStart(): boolean {
    if (this.isStopping || this.fault !== undefined || this.follower.difference !== undefined) return false
    return this.undoing !== undefined || !(this.isFrozen || this.isCancelled)
  }

  /** Whether this run only replays the code, to collect the compensations. */
  private get isFrozen(): boolean {
    return this.execution.cancelled || this.failure !== undefined
  }

  /** The suspension of an execution whose code does not follow its journal. */
  readonly changed = Effect.map(Clock.currentTimeMillis, (now) => {
    const difference = this.follower.difference ?? { recorded: "", requested: undefined }
    return ChangedCode.suspension(difference, this, now, "or fork the execution")
  })

  /** Fails with the fault, if there is one. */
  readonly healthy = Effect.suspend(() => (this.fault === undefined ? Effect.void : Effect.fail(this.fault.error)))

  /** Runs a statement, and retries it while the database is unavailable. Undefined: the run must stop. */
  attempt<A, E extends { readonly _tag: string }>(
    statement: Effect.Effect<A, E | LeaseLost>
  ): Effect.Effect<A | undefined> {
    return this.orStop(this.patiently(statement))
  }

  private orStop<A, E extends { readonly _tag: string }>(effect: Effect.Effect<A, E>): Effect.Effect<A | undefined> {
    return Effect.catchAll(effect, (error) => {
      if (error._tag === "LeaseLost") this.isStopping = true
      else this.fault ??= { error }
      return Effect.succeed(undefined)
    })
  }

  /** Reads the journal. */
  readonly load = Effect.suspend(() => {
    const wasRead = this.isRead
    return Effect.map(this.orStop(this.read()), (journal) => {
      if (journal === undefined) return
      if (!wasRead && this.steps.size === 0) this.follower.load(journal.steps, journal.cancelled ? [] : this.openWaits)
      for (const step of journal.steps) if (step.reopenedAt === undefined) this.keep(step)
    })
  })

  private keep(step: Step | NewStep): void {
    this.steps.set(keyOf(step.name, step.attempt), step)
  }

  /** The recorded attempt of a step, numbered as the code does. */
  private recordedStep(name: string, attempt: number): Step | NewStep | undefined {
    return this.steps.get(keyOf(name, this.attemptsBefore(name) + attempt))
  }

  /** Steps inside a compensation belong to the compensation. */
  nameOf(name: string): string {
    return Undos.within(this.undoing, name)
  }

  /**
   * The attempt number of a call of an activity. A call after a failure is the next attempt even if the caller does not
   * count attempts, so `Effect.retry` works.
   */
  attemptOf(name: string, attempt: number): number {
    return Math.max(attempt, (this.failures.get(name) ?? 0) + 1)
  }

  /** The recorded exit of a step. */
  recorded(name: string, attempt = 1): Effect.Effect<Exit.Exit<unknown, unknown> | undefined> {
    const step = this.recordedStep(name, attempt)
    return step === undefined ? Effect.succeed(undefined) : this.give(step)
  }

  private inTurn(name: string, attempt = 1): Effect.Effect<void> {
    return this.follower.order.inTurn({ name, attempt: this.attemptsBefore(name) + attempt }, this.isFrozen)
  }

  /** Requests a step: returns its recorded exit, `start` to run it, or undefined to suspend the execution. */
  request(name: string, kind: StepKind, attempt = 1): Effect.Effect<Exit.Exit<unknown, unknown> | "start" | undefined> {
    return Effect.gen(this, function* () {
      const isUndo = this.undoing !== undefined
      if (!isUndo) yield* this.follower.request(name, kind)
      const before = yield* this.recorded(name, attempt)
      if (before !== undefined) {
        yield* this.inTurn(name, attempt)
        return this.follower.difference === undefined ? before : undefined
      }
      // Even if nothing may start: a fiber that is about to register a compensation must not be interrupted first.
      const follows = this.isStopping || isUndo || (yield* this.follower.follows(name, this.isFrozen))
      return follows && this.mayStart ? "start" : undefined
    })
  }

  /** How long the code waited for this attempt of an activity before the code interrupted it, in milliseconds. */
  abandonedAfter(name: string, attempt: number): number | undefined {
    const step = this.undoing === undefined ? this.recordedStep(name, attempt) : undefined
    if (step === undefined || !isStored(step) || !ExitJson.isAbandoned(step.exit)) return undefined
    return step.endedAt - step.startedAt
  }

  /**
   * Records that the code interrupted an activity. A replay must not give the activity a result: the code would take
   * another path. An interruption by a suspension or the end of the process is not recorded, and the activity runs
   * again.
   */
  abandon(given: Omit<NewRecord, "kind">, isSuspended: boolean): Effect.Effect<unknown> {
    if (this.isStopping || isSuspended || this.undoing !== undefined || this.follower.difference !== undefined)
      return Effect.void
    return this.conclude({ ...given, kind: "run" }, ExitJson.abandoned)
  }

  private give(step: Pick<Step, "name" | "attempt" | "exit" | "outcome">) {
    if (step.outcome === "failed") {
      const attempt = step.attempt - this.attemptsBefore(step.name)
      this.failures.set(step.name, Math.max(attempt, this.failures.get(step.name) ?? 0))
    }
    return Effect.as(Compensation.follow(step.name), ExitJson.decode(step.exit))
  }

  /**
   * Records the exit of a wait or an activity, and returns the stored one. An exit that cannot be stored is replaced by a
   * defect with the reason. Undefined: the run must stop.
   */
  conclude(given: NewRecord, json: unknown): Effect.Effect<Exit.Exit<unknown, unknown> | undefined> {
    return Effect.gen(this, function* () {
      if (this.fault !== undefined) return undefined
      const { name, startedAt = yield* Clock.currentTimeMillis } = given
      const step: NewStep = {
        name,
        kind: this.undoing === undefined ? given.kind : "undo",
        attempt: this.attemptsBefore(name) + (given.attempt ?? 1),
        sequence: this.oldPlaceOf(name) ?? this.newPlace(),
        outcome: (json as { readonly _tag?: string } | undefined)?._tag === "Failure" ? "failed" : "done",
        exit: json,
        startedAt
      }
      const stored = yield* this.follower.order.recorded(startedAt, this.orStop(this.record(step, defectOf)))
      if (stored === undefined) return undefined
      const kept = { ...step, outcome: stored.outcome, exit: stored.exit }
      this.keep(kept)
      return yield* this.give(kept)
    })
  }

  /** Counts an activity whose code runs. */
  busy<A, E, R>(name: string, code: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    const begin = Effect.sync(() => {
      this.running.push(name)
      this.idle.unsafeClose()
    })
    const end = Effect.sync(() => {
      this.running.splice(this.running.indexOf(name), 1)
      if (this.running.length === 0) this.idle.unsafeOpen()
    })
    return Effect.acquireUseRelease(
      begin,
      () => code,
      () => end
    )
  }

  /** The execution is cancelled: the code starts nothing more. */
  cancel(): void {
    this.isCancelled = true
    this.cancelled.unsafeOpen()
  }

  /** Registers a wait, and the activity around it, which runs again when the wait has ended. */
  wait(key: string, wait: Wait, inside: string | undefined): void {
    this.open.set(key, wait)
    if (inside !== undefined) this.open.set(`retry ${inside}`, { kind: "retry", name: inside })
  }

  /** Lets other fibers start their activities first. */
  private readonly isBusy = Effect.map(Effect.repeatN(Effect.yieldNow(), 2), () => this.running.length > 0)

  /** The exit of a durable clock, or undefined to suspend. While an activity runs, the clock runs in this process. */
  clock(clock: string, millis: number, inside?: string): Effect.Effect<Exit.Exit<unknown, unknown> | undefined> {
    return Effect.gen(this, function* () {
      const name = this.nameOf(clock)
      const before = yield* this.request(name, "sleep")
      if (before !== "start") return before
      const startedAt = this.begunAt("sleep", name, yield* Clock.currentTimeMillis)
      const dueAt = this.deferred("sleep", name)?.dueAt ?? this.clocks.get(name) ?? startedAt + millis
      this.clocks.set(name, dueAt)
      while (true) {
        const left = dueAt - (yield* Clock.currentTimeMillis)
        if (left <= 0) break
        if (left > holdFor && (inside !== undefined || !(yield* this.isBusy))) {
          this.wait(name, { kind: "sleep", name, dueAt }, inside)
          return undefined
        }
        yield* Effect.race(Effect.sleep(left), left > holdFor ? this.idle.await : Effect.never)
      }
      return yield* this.conclude({ name, kind: "sleep", startedAt }, { _tag: "Success" })
    })
  }

  /**
   * The exit of a wait for a value, or undefined to suspend. Polls while an activity runs. `take`: the value as the journal
   * stores it, if it has arrived. `rows`: what a suspended execution waits for.
   */
  private receive(
    name: string,
    kind: "signal" | "message",
    inside: string | undefined,
    take: () => { readonly json: unknown } | undefined,
    rows: () => ReadonlyArray<Wait>
  ): Effect.Effect<Exit.Exit<unknown, unknown> | undefined> {
    return Effect.gen(this, function* () {
      const before = yield* this.request(name, kind)
      if (before !== "start") return before
      if (!this.isRead) yield* this.load
      while (this.mayStart) {
        const waits = rows()
        const taken = take()
        if (taken !== undefined) {
          for (const row of waits) this.open.delete(`${row.kind} ${row.name}`)
          const startedAt = this.begunAt(kind, waits[0]?.name ?? name, yield* Clock.currentTimeMillis)
          return yield* this.conclude({ name, kind, startedAt }, taken.json)
        }
        for (const row of waits) this.wait(`${row.kind} ${row.name}`, row, inside)
        if (inside !== undefined || !(yield* this.isBusy)) return undefined
        yield* Effect.race(Effect.sleep(pollInterval), this.idle.await)
        const own = yield* this.recorded(name)
        if (own !== undefined) return own
        yield* this.load
      }
      return undefined
    })
  }

  /** The exit of the next value of a signal, or undefined to suspend. */
  awaitMessage(signal: string, inside: string | undefined): Effect.Effect<Exit.Exit<unknown, unknown> | undefined> {
    const name = this.numbered("message", signal)
    const take = () => {
      const taken = this.takeValue(signal)
      if (taken === undefined) return undefined
      const { exit: value, number } = taken
      return { json: { _tag: "Success", value, taken: { signal, number } } }
    }
    return this.receive(name, "message", inside, take, () => [{ kind: "message", name }, this.nextValue(signal)])
  }

  /** Records a value that readers of the execution see. Undefined to suspend. */
  set(name: string, value: unknown): Effect.Effect<Exit.Exit<unknown, unknown> | undefined, Error> {
    return Effect.gen(this, function* () {
      const fault = SetValue.faultOf(name, value, this.names)
      if (fault !== undefined) return yield* Effect.fail(new Error(fault.message))
      this.names.add(name)
      const step = this.numbered("set", name)
      const before = yield* this.request(step, "set")
      if (before !== "start") return before
      return yield* this.conclude({ name: step, kind: "set" }, { _tag: "Success", value: value ?? null, set: name })
    })
  }

  /** The name of a call in this run: those of the same kind and name are numbered in the order in which the code makes them. */
  private numbered(kind: StepKind, base: string): string {
    const name = this.nameOf(StepName.nameOf(kind, base))
    const count = (this.calls.get(name) ?? 0) + 1
    this.calls.set(name, count)
    return count === 1 ? name : `${name}#${count}`
  }

  /** The exit of a deferred, or undefined to suspend. */
  awaitSignal(signal: string, inside: string | undefined): Effect.Effect<Exit.Exit<unknown, unknown> | undefined> {
    return Effect.gen(this, function* () {
      const name = this.nameOf(signal)
      // The result of a race is recorded by the run itself, after its members.
      if (signal.startsWith("raceAll/")) {
        const result = yield* this.recorded(name)
        if (result === undefined || this.undoing !== undefined) return result
        yield* this.follower.request(name, "signal")
        yield* this.inTurn(name)
        return result
      }
      const take = () => {
        const given = this.deferred("signal", signal)
        return given?.completedAt === undefined ? undefined : { json: ExitJson.asExit(given.exit) }
      }
      return yield* this.receive(name, "signal", inside, take, () => [{ kind: "signal", name: signal }])
    })
  }

  /** Completes a deferred of this execution from inside. An interruption is not a result. */
  complete(signal: string, exit: Exit.Exit<unknown, unknown>): Effect.Effect<void> {
    if (Exit.isInterrupted(exit) || this.isStopping) return Effect.void
    const name = this.nameOf(signal)
    return Effect.gen(this, function* () {
      // Code that completes the deferred again follows its journal, even if it does not await it.
      if (this.undoing === undefined) yield* this.follower.request(name, "signal")
      yield* this.conclude({ name, kind: "signal" }, ExitJson.encode(exit))
      if (this.open.delete(`signal ${signal}`)) yield* this.attempt(this.workflows.wake(this.execution.id))
    })
  }

  /** The place of the last attempt of a step in the journal. */
  lastSequence(name: string | undefined): number {
    const places = [...this.steps.values()].filter((each) => each.name === name).map(({ sequence }) => sequence)
    return Math.max(0, ...places)
  }
}

/** Whether the step was recorded by an earlier run. */
const isStored = (step: Step | NewStep): step is Step => "endedAt" in step

const keyOf = (name: string, attempt: number) => `${attempt} ${name}`
