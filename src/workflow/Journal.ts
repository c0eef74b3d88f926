import { Effect, Schedule } from "effect"
import * as Outcome from "../core/Outcome.js"
import * as Suspension from "../core/Suspension.js"
import type { ClaimedExecution } from "../queue/Queue.js"
import type { Deferred, DeferredKind, NewStep, Step, StoredBeat } from "../queue/workflow/Execution.js"
import { longJournal } from "../queue/workflow/LifetimeSql.js"
import { requestedWaits, takenValue, valueRow } from "../queue/workflow/SignalValues.js"
import { childrenFirst, isUndo } from "../queue/workflow/Undo.js"
import { type InvalidStep, LeaseLost } from "../queue/workflow/WorkflowErrors.js"
import type { Workflows } from "../queue/workflow/Workflows.js"

const retrySchedule = Schedule.exponential("100 millis").pipe(Schedule.union(Schedule.spaced("2 seconds")))

/** Waits that end sooner than this, in milliseconds, keep their slot. */
export const holdFor = 100

/** A journal that reaches this many steps, or a multiple of it, is reported: every run replays all of them. */
export const longEvery = longJournal

/** Turns of the event loop without progress after which the code counts as stopped. */
export const quietTurns = 3

/**
 * Turns after which code that has not requested a recorded step counts as changed. Far more, because the code may await
 * something of its own before the step, such as a hash, and a busy machine is slow to compute it.
 */
export const verdictTurns = 50

const nothing = new Uint8Array()

/** Calls back when no promise is ready. Far cheaper than a turn of the event loop, and enough for code that awaits only steps. */
export const afterPromises = (callback: () => void): void => queueMicrotask(() => process.nextTick(callback))

let turns = 0

const counted = (wait: (callback: () => void) => void, callback: () => void): void => {
  turns += 1
  wait(() => {
    turns -= 1
    callback()
  })
}

/** Calls back after a turn of the event loop. */
export const afterTurn = (callback: () => void): void => counted(setImmediate, callback)

/** Calls back after a turn of the event loop and of its threads, in which @effect/workflow computes the id of a child. */
export const afterThreads = (callback: () => void): void =>
  counted((next) => void crypto.subtle.digest("SHA-256", nothing).then(() => setImmediate(next)), callback)

/** Whether code of this process is given such a turn. */
export const areTurnsAwaited = (): boolean => turns > 0

/** Whether this is the first run of the execution, which has no journal to read. */
export const isFirstRun = ({ crashed, woken }: ClaimedExecution, attempt: number): boolean =>
  woken === 0 && attempt === 1 && !crashed

/** The end of a job of a workflow that is not an execution. `call` is the method that starts an execution. */
export const storedWithEnqueue = (workflow: string, call: string): Outcome.Outcome =>
  Outcome.dead(`"${workflow}" is a workflow, but this job was stored with enqueue. Start it with ${call}.`)

/** Numbers of the values of a signal that steps have taken. */
interface Taken {
  readonly numbers: Set<number>
  /** All numbers before this one are taken. */
  first: number
}

/** The journal of an execution as one run reads and writes it: for workflows with promises and those of @effect/workflow. */
export class Journal {
  /** Wake-up count as of the last read. A suspension compares it. */
  woken: number
  waits: ReadonlyArray<Deferred> = []
  /** The waits by kind and name: an execution may take thousands of signals, one after another. */
  private readonly named = new Map<string, Deferred>()
  /** Whether the journal was read. The first run reads it when it waits for a signal that may already have arrived. */
  isRead = false
  private sequence = 0
  /** The last heartbeats of steps in this run, and the attempts whose effect was undone. */
  private readonly beats = new Map<string, StoredBeat>()
  private readonly undoneAttempts = new Map<string, number>()
  /** Values of signals that steps have taken, by signal. */
  private readonly taken = new Map<string, Taken>()
  /** The last attempt of each reopened step. Its new result takes the same place. */
  private readonly reopened = new Map<string, Step>()

  constructor(
    readonly execution: ClaimedExecution,
    readonly workflows: typeof Workflows.Service,
    /** Whether the run may still write: until it has ended. */
    protected readonly mayWrite: () => boolean
  ) {
    this.woken = execution.woken
  }

  /** Retries a statement while the database is unavailable. */
  patiently<A, E extends { readonly _tag: string }>(statement: Effect.Effect<A, E>): Effect.Effect<A, E> {
    return Effect.retry(statement, {
      while: ({ _tag }) => _tag === "DatabaseUnavailable" && this.mayWrite(),
      schedule: retrySchedule
    })
  }

  /** Reads steps and waits. The first time they may have come with the claim. */
  read() {
    const claimed = this.isRead ? undefined : this.execution.journal
    const found =
      claimed === undefined ? this.patiently(this.workflows.load(this.execution.run)) : Effect.succeed(claimed)
    return Effect.map(found, (journal) => {
      this.woken = journal.woken
      this.waits = journal.waits
      this.named.clear()
      for (const wait of journal.waits) this.named.set(`${wait.kind} ${wait.name}`, wait)
      for (const step of journal.steps) {
        this.sequence = Math.max(this.sequence, step.sequence)
        if (step.reopenedAt !== undefined && step.outcome === "done") this.undoneAttempts.set(step.name, step.attempt)
        const value = takenValue(step)
        if (value !== undefined) this.takenOf(value.signal).numbers.add(value.number)
        if (step.reopenedAt !== undefined && step.attempt > this.attemptsBefore(step.name)) {
          this.reopened.set(step.name, step)
        }
      }
      this.isRead = true
      return journal
    })
  }

  /** Reopened steps: the last attempt of each. */
  get again(): ReadonlyArray<Step> {
    return [...this.reopened.values()]
  }

  /** The number of attempts of a step before it was reopened, which no longer count. */
  attemptsBefore(name: string): number {
    return this.reopened.get(name)?.attempt ?? 0
  }

  /** The place of a reopened step, which its new result takes. */
  oldPlaceOf(name: string): number | undefined {
    return this.reopened.get(name)?.sequence
  }

  /** The next free place. */
  newPlace(): number {
    this.sequence += 1
    return this.sequence
  }

  /** The waits that the code was suspended on, without the waits of undos. */
  get openWaits(): ReadonlyArray<Deferred> {
    const open = this.waits.filter(({ kind, waiting }) => waiting && kind !== "changed")
    return requestedWaits(open).filter(({ name }) => !isUndo(name))
  }

  deferred(kind: DeferredKind, name: string): Deferred | undefined {
    return this.named.get(`${kind} ${name}`)
  }

  /** The details of the last heartbeat of a step. Undefined if its effect was undone since: it starts from the beginning. */
  lastHeartbeat(name: string): unknown {
    const beat = this.beats.get(name) ?? (this.deferred("heartbeat", name)?.exit as StoredBeat | undefined)
    return beat === undefined || beat.attempt <= (this.undoneAttempts.get(name) ?? 0) ? undefined : beat.details
  }

  /** Keeps a heartbeat for the next attempt in this run. */
  keepHeartbeat(name: string, beat: StoredBeat): void {
    this.beats.set(name, beat)
  }

  private takenOf(signal: string): Taken {
    const known = this.taken.get(signal) ?? { numbers: new Set(), first: 1 }
    this.taken.set(signal, known)
    return known
  }

  /** The row of the first value of a signal that no step has taken. */
  private untaken(signal: string) {
    const taken = this.takenOf(signal)
    while (taken.numbers.has(taken.first)) taken.first += 1
    return { number: taken.first, row: valueRow(signal, taken.first) }
  }

  /** Takes the next value of a signal, if it has arrived. A step that is recorded must say that it took it. */
  takeValue(signal: string): { readonly number: number; readonly exit: unknown } | undefined {
    const { number, row } = this.untaken(signal)
    const found = this.deferred(row.kind, row.name)
    if (found?.completedAt === undefined) return undefined
    this.takenOf(signal).numbers.add(number)
    return { number, exit: found.exit }
  }

  /** What to wait for if the next value of a signal has not arrived. */
  nextValue(signal: string): Suspension.Wait {
    return this.untaken(signal).row
  }

  /** When a wait began: now, or before the execution was suspended on it. */
  begunAt(kind: Suspension.WaitKind, name: string, now: number): number {
    const wait = this.deferred(kind, name)
    return wait?.waiting === true ? wait.createdAt : now
  }

  /**
   * Pins an execution that has done nothing yet to the release of this process. Fails with LeaseLost if it is pinned to
   * another release.
   */
  pin(isBlank: boolean) {
    const { pinned, run, state } = this.execution
    if (!isBlank || pinned !== undefined || state.release === undefined) return Effect.void
    const { release } = state
    return Effect.flatMap(this.patiently(this.workflows.pin(run, release)), (found) =>
      found === release ? Effect.void : new LeaseLost({ id: run.id })
    )
  }

  /** Logs that the journal has become long, once for each multiple of `longEvery`. */
  protected noteLength({ sequence }: Pick<NewStep, "sequence">): Effect.Effect<void> {
    if (sequence % longEvery !== 0) return Effect.void
    return Effect.logWarning(
      `execution ${this.execution.id} has recorded ${sequence} steps, which every run replays: continue with a new journal (step.continueAs), or move parts to children`
    )
  }

  /** The suspension of a cancelled execution whose children undo their steps first. Undefined if none has steps left. */
  untilChildrenAreUndone(now: number) {
    return Effect.map(this.workflows.children(this.execution.id), (children) => {
      const isOver = (name: string) => this.deferred("children", name)?.completedAt !== undefined
      const waits = childrenFirst(children, now, isOver)
      return waits.length === 0 ? undefined : Suspension.make({ woken: this.woken, waits })
    })
  }

  /** Records a step. `refused`: what to record instead of a result that cannot be stored. */
  record(step: NewStep, refused: (error: InvalidStep) => Pick<NewStep, "outcome" | "exit">) {
    const { run } = this.execution
    return this.patiently(this.workflows.record(run, step)).pipe(
      Effect.catchTag("InvalidStep", (error) =>
        this.patiently(this.workflows.record(run, { ...step, ...refused(error) }))
      ),
      Effect.tap(() => {
        this.execution.state.recorded = true
        return this.noteLength(step)
      })
    )
  }
}
