import * as Undos from "../../queue/workflow/Undo.js"
import type { Held, Replay } from "./Replay.js"
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
  readonly replay: Replay | undefined
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
  /** What undos of this run have called, by name. */
  readonly calls = new Map<string, Promise<unknown>>()
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

  /** Steps with an undo that this run has not started. A run that was cut off may have. */
  private get undoable(): ReadonlyArray<Held> {
    return this.host.replay?.undoable ?? []
  }

  /** Whether the run may wait for this: an undo, or a step that runs again. The code has stopped for good. */
  mayWait(name: string): boolean {
    return !this.isActive || Undos.isUndo(name) || this.again.has(name)
  }

  /** Starts the next undo, or ends the run. */
  next(): void {
    const isPrepared = this.isPrepared || (!this.host.execution.cancelled && this.undoable.length === 0)
    if (isPrepared) this.undoLast()
    else this.host.busy(() => this.prepare())
  }

  /**
   * Before the first undo. A step that may have begun in a run that was cut off runs again, with the same idempotency key, so
   * that it can be undone. The steps of an execution that has died are not run again: they may be the reason for its death.
   * Children that were cancelled with the execution undo their steps first; those of one that failed are left to run.
   */
  private async prepare(): Promise<void> {
    const { undoable } = this
    const { execution, journal } = this.host
    const { cancelled, cut, dying } = execution
    // Children that have started are known. Those that are done are undone when all have ended.
    const isBegun = ({ name }: Held) => journal.deferred("children", name) !== undefined
    const begun = cancelled ? undoable.filter(isBegun) : []
    const others = undoable.filter(({ kind }) => kind !== "children")
    const names = others.map(({ name }) => name)
    this.isPrepared = true
    if (dying) {
      this.unknown = cut ? names : []
      return this.startAgain(begun)
    }
    // Recorded by the first run that undoes: if that run crashes, it is cut off too, and the code may get further in
    // the next run.
    const begins = cut ? names : this.undos.length > 0 ? [] : undefined
    const cutOff = names.length === 0 ? [] : await journal.cutOff(begins, this.host.now())
    if (cancelled) {
      const waiting = await journal.withRetries(journal.untilChildrenAreUndone(this.host.now()))
      if (waiting !== undefined) return this.host.finish(waiting)
    }
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
    // Not the steps inside undos: an undo may have handled their failure.
    const ended = this.undos.flatMap(({ step }) => undone.get(Undos.nameOf(step)) ?? [])
    const open = this.undos.filter(({ step }) => !undone.has(Undos.nameOf(step)))
    const next = open.sort((a, b) => b.sequence - a.sequence)[0]
    if (next === undefined) this.host.finish(StepExit.outcomeOf(this.failure, ended, this.unknown))
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
        // The calls of a further attempt get the names and the results of those before.
        host.replay?.renumber(Undos.within(next.step, ""))
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
