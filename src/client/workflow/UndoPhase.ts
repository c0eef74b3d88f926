import * as Undos from "../../queue/workflow/Undo.js"
import type { Held } from "./Replay.js"
import type { StepContext, StepOptions } from "./Step.js"
import type { AttemptHost, Attempts } from "./StepAttempts.js"
import * as StepExit from "./StepExit.js"
import * as StepScope from "./StepScope.js"

export interface Undo {
  readonly step: string
  /** The name of the step in the code. */
  readonly base: string
  readonly sequence: number
  readonly code: (context: StepContext) => unknown
  readonly options: StepOptions<unknown>
}

/** The run that undoes. */
export interface UndoHost extends AttemptHost {
  /** Steps with an undo that may have begun in a run that was cut off. */
  readonly undoable: ReadonlyArray<Held>
  attempt(given: Attempts): void
  /** Continues in the next turn of the event loop. */
  check(): void
  finish(result: unknown): void
}

/** The end of a run that failed or was cancelled: undoes the steps that are done, the last one first. */
export class UndoPhase {
  /** Whether the code has stopped for good. */
  isActive = false
  /** The step that is being undone. */
  step: string | undefined
  /** Whether the undo that runs has called steps: it may wait, and then never settles. */
  hasSteps = false
  /** Absent if the execution was cancelled. */
  failure: { readonly error: unknown } | undefined
  private readonly undos: Array<Undo> = []
  private isPrepared = false
  /** Steps of a run that was cut off, which this run runs again to undo them. */
  private readonly again = new Set<string>()
  /** Steps that may have taken effect and cannot be undone. */
  private unknown: ReadonlyArray<string> = []

  constructor(private readonly host: UndoHost) {}

  /** A cancelled run skips steps that a retry reopened, because they were undone, and that did not run again. */
  add(undo: Undo, isReopened: boolean): void {
    const isUndone = isReopened && !this.again.has(undo.step)
    if (!isUndone || !this.host.execution.cancelled) this.undos.push(undo)
  }

  /** Starts the next undo, or ends the run. */
  next(): void {
    if (this.host.execution.cancelled && !this.isPrepared) this.host.busy(() => this.prepare())
    else this.undoLast()
  }

  /**
   * Before the first undo of a cancelled execution. Children that were cancelled with it undo their steps first. A step
   * that may have begun in a run that was cut off runs again, with the same idempotency key, so that it can be undone.
   * The steps of an execution that has died are not run again: they may be the reason for its death.
   */
  private async prepare(): Promise<void> {
    const { execution, journal, undoable } = this.host
    const { cut, dying } = execution
    // Children that have started are known. Those that are done are undone when all have ended.
    const isBegun = ({ name }: Held) => journal.deferred("children", name) !== undefined
    const begun = undoable.filter(isBegun)
    const others = undoable.filter((held) => !isBegun(held))
    const names = others.map(({ name }) => name)
    this.isPrepared = true
    if (dying) {
      this.unknown = cut ? names : []
      return this.startAgain(begun)
    }
    // Recorded by the first run that undoes: if that run crashes, it is cut off too, and the code may get further in
    // the next run.
    const isOpen = names.length > 0 && (cut || this.undos.length > 0)
    const cutOff = isOpen ? await journal.cutOff(cut ? names : [], this.host.now()) : []
    const waiting = await journal.withRetries(journal.untilChildrenAreUndone(this.host.now()))
    if (waiting !== undefined) return this.host.finish(waiting)
    this.startAgain([...begun, ...others.filter(({ name }) => cutOff.includes(name))])
  }

  private startAgain(steps: ReadonlyArray<Held>): void {
    for (const { name, start } of steps) {
      this.again.add(name)
      start()
    }
  }

  private undoLast(): void {
    const { undone } = this.host.journal
    const open = this.undos.filter(({ step }) => !undone.has(Undos.nameOf(step)))
    const next = open.sort((a, b) => b.sequence - a.sequence)[0]
    if (next === undefined) this.host.finish(StepExit.outcomeOf(this.failure, [...undone.values()], this.unknown))
    else this.start(next)
  }

  private start(next: Undo): void {
    const { host } = this
    this.step = next.step
    this.hasSteps = false
    const name = Undos.nameOf(next.step)
    host.attempt({
      name,
      kind: "undo",
      base: Undos.nameOf(next.base),
      counts: false,
      options: next.options as StepOptions<never>,
      perform: async (context, record) => {
        await StepScope.inside(host, undefined, () => next.code(context))
        return record(StepExit.ofValue(undefined))
      },
      settle: (stored, sequence) => {
        host.journal.keepUndone(name, stored, sequence, host.now())
        this.step = undefined
        host.check()
      }
    })
  }
}
