import type { Difference } from "../../queue/workflow/ChangedCode.js"
import type { Step, StepKind } from "../../queue/workflow/Execution.js"
import { afterPromises, quietTurns, verdictTurns } from "../../workflow/Journal.js"

// Replay: the code of an execution runs again from its start and gets the recorded results in their original order, each when
// the code has done what the one before lets it do, so that races have the same winner. The next result in that order is
// delivered when no promise of the code is ready. A result requested too early waits until the code makes no more progress,
// which a turn of the event loop detects. A step that is not recorded is held back until all recorded results are
// delivered; if the code stops before it has requested all of them, the code has changed.
//
// The waits that the execution was suspended on are part of the recording. When the execution was suspended, the code had
// received exactly the recorded results, and had requested exactly these waits beside them. So code that has received all
// results again and stops must have requested all waits, in whichever branch; only then does anything new start. For the
// same reason, when the code stops, it must have requested the first result in the order that it has not received.
//
// A step that a retry reopened has a place in this order but no result: it runs again as soon as the code requests it, and
// later results wait for its new one. The new result may change the path of the code, so later recorded results are
// delivered if the code requests them, and do not prove changed code if it does not.

/** A result as it is stored. */
export type Stored = Pick<Step, "outcome" | "exit">

/** How a run treats a call of the code. */
export interface CallOptions<A> {
  readonly canUndo?: boolean
  /** Called with the result of a step that failed. */
  readonly onFailed?: (stored: Stored, name: string, sequence: number) => void
  /** For `patched` and `set`: the result if the code passed this place before. */
  readonly passed?: { readonly value: A }
}

export interface Held {
  readonly name: string
  /** Runs the step. */
  readonly start: () => void
  readonly kind: StepKind
  /** For `patched` and `set`: the code passed this place before. */
  readonly passed?: () => void
  readonly canUndo?: boolean
}

/** The part of the journal that a replay needs. Steps are ordered by sequence. */
export interface Recording {
  /** Results that the code has received. */
  readonly results: ReadonlyArray<Step>
  /** Reopened steps: the last attempt of each. */
  readonly reopened: ReadonlyArray<Step>
  /** Names of the steps that the execution was suspended on. */
  readonly waits: ReadonlyArray<string>
}

/** The run whose code gets the results. */
export interface ReplayHost {
  readonly isOver: boolean
  /** Calls `turn` in the next turn of the event loop. */
  check(): void
}

const bySequence = (a: Step, b: Step) => a.sequence - b.sequence

/** Steps whose result the code does not need. They can be added to the code of running executions, and removed. */
const isMark = ({ kind }: Step) => kind === "patch" || kind === "set"

export class Replay {
  /** Results that the code has not received again, and places of steps that run again, by sequence. */
  private unseen: Array<Step>
  private readonly requested = new Map<Step, () => void>()
  /** Reopened steps that the code has requested and that have no new result. */
  private readonly running = new Set<Step>()
  private held: Array<Held> = []
  /** Steps with an undo that a retry reopened, in a run that starts nothing. */
  private readonly reopened: Array<Held> = []
  /** How often each name was requested, and the numbered names. */
  private readonly counts = new Map<string, number>()
  private readonly names = new Set<string>()
  private readonly results: ReadonlyMap<string, Step>
  private readonly open: ReadonlyMap<string, Step>
  private readonly waits: ReadonlySet<string>
  /** Waits that the code has not requested again. */
  private readonly awaited: Set<string>
  /** The place of the first step that ran again. */
  private firstAgain: number
  private quiet = 0
  private isDelivering = false
  private hasEnded = false
  /** The first step that the code requested after it had got all recorded results, in a run that starts nothing. */
  beyond: string | undefined

  /** With `frozen`, no step starts. `isCut`: a run that was cut off may have begun steps that have no result. */
  constructor(
    { reopened, results, waits }: Recording,
    private readonly frozen: boolean,
    private readonly isCut = false
  ) {
    this.results = new Map(results.map((step) => [step.name, step]))
    this.open = new Map(reopened.filter(({ name }) => !this.results.has(name)).map((step) => [step.name, step]))
    this.unseen = [...results, ...this.open.values()].sort(bySequence)
    // A frozen run starts nothing, so it does not matter what it would start before a wait.
    this.waits = new Set(frozen ? [] : waits.filter((name) => !this.results.has(name) && !this.open.has(name)))
    this.awaited = new Set(this.waits)
    const again = reopened.filter(({ name }) => this.results.has(name)).map(({ sequence }) => sequence)
    this.firstAgain = Math.min(Number.POSITIVE_INFINITY, ...again)
  }

  /** Numbers names that are used again. Skips numbers that a step of the code has in its own name, like `draft#2`. */
  numbered(base: string): string {
    let count = this.counts.get(base) ?? 0
    let name: string
    do {
      count += 1
      name = count === 1 ? base : `${base}#${count}`
    } while (this.names.has(name))
    this.counts.set(base, count)
    this.names.add(name)
    return name
  }

  /** Numbers the names that begin like this from one again. */
  renumber(prefix: string): void {
    for (const name of [...this.names]) if (name.startsWith(prefix)) this.names.delete(name)
    for (const base of [...this.counts.keys()]) if (base.startsWith(prefix)) this.counts.delete(base)
  }

  /** The result of a step. A frozen run gets the old result of an undone step, to follow the same path. */
  recorded(name: string): Step | undefined {
    const open = this.open.get(name)
    return this.results.get(name) ?? (this.frozen && open?.outcome === "done" ? open : undefined)
  }

  /** The place of a step that runs again. */
  place(name: string): Step | undefined {
    return this.open.get(name)
  }

  /** Delivers a recorded result when its turn comes: `deliverSoon` or `turn` must be called. */
  request(step: Step, deliver: () => void): void {
    this.quiet = 0
    this.requested.set(step, deliver)
  }

  /** Delivers recorded results one by one, each when no promise of the code is ready. */
  deliverSoon(run: ReplayHost): void {
    if (this.isDelivering) return
    this.isDelivering = true
    afterPromises(() => {
      this.isDelivering = false
      if (run.isOver) return
      const [next] = this.unseen
      // The handler of an ask runs in a turn of its own.
      if (next !== undefined && next.kind !== "ask" && this.requested.has(next)) {
        this.deliver(next)
        this.deliverSoon(run)
      } else if (this.requested.size > 0 || this.held.length > 0) run.check()
    })
  }

  /** The recorded asks with this name, in order. */
  asks(name: string): ReadonlyArray<Step> {
    const isOfName = ({ exit, kind }: Step) => kind === "ask" && (exit as { readonly ask?: string }).ask === name
    return [...this.results.values()].filter(isOfName)
  }

  /** The code answers asks with this name, for which the execution may have waited. */
  attached(name: string): void {
    this.awaited.delete(name)
  }

  /**
   * Runs a reopened step again. Its result is given to `request`. A run that starts nothing keeps it. Returns whether `turn`
   * must be called.
   */
  rerun(place: Step, held: Held): boolean {
    this.quiet = 0
    this.firstAgain = Math.min(this.firstAgain, place.sequence)
    if (this.frozen || this.hasEnded) {
      this.keep(held)
      return true
    }
    this.running.add(place)
    held.start()
    return false
  }

  /** Delivers the new result of a step that ran again when its turn comes. */
  concluded(place: Step, deliver: () => void): void {
    this.running.delete(place)
    this.request(place, deliver)
  }

  /** Starts a step that is not recorded, now or when the replay is over. Returns whether `turn` must be called. */
  begin(held: Held): boolean {
    this.quiet = 0
    this.awaited.delete(held.name)
    if (!this.frozen && !this.hasEnded && this.held.length === 0 && this.requested.size === 0 && !this.isBehind()) {
      held.start()
      return false
    }
    if (this.frozen && !this.isBehind()) this.beyond ??= held.name
    this.held.push(held)
    return true
  }

  /** In a run that starts nothing: keeps a step whose result, if it has one, dates from before a retry reopened the step. */
  keep(held: Held): void {
    this.reopened.push(held)
  }

  /** The code has ended: no more steps start, and results that it requested before are delivered. */
  end(): void {
    this.hasEnded = true
    this.quiet = 0
  }

  /**
   * Steps with an undo that have no result and that this run has not started: an earlier run that was cut off may have
   * begun them.
   */
  get undoable(): ReadonlyArray<Held> {
    return [...this.held, ...this.reopened].filter(({ canUndo }) => canUndo === true)
  }

  /** Recorded results that the code has not requested. Marks may be removed from the code. */
  private unrequested(): ReadonlyArray<Step> {
    return this.unseen.filter((step) => !isMark(step) && !this.open.has(step.name) && !this.requested.has(step))
  }

  /** Recorded results that the code must request: those before the first step that ran again. */
  private missing(): ReadonlyArray<Step> {
    return this.unrequested().filter(({ sequence }) => sequence < this.firstAgain)
  }

  private isBehind(): boolean {
    return this.awaited.size > 0 || this.unseen.some((step) => !isMark(step))
  }

  /** Whether the code has been further than the place where it is now. */
  private wasFurther(): boolean {
    const isAhead = (step: Step) => !isMark(step) && !this.requested.has(step) && !this.running.has(step)
    return this.awaited.size > 0 || this.unseen.some(isAhead)
  }

  /** A mark that the code requests before a result that it has not requested: the call was added to the code. */
  private earlyMark(): Step | undefined {
    return this.missing().length === 0 ? undefined : [...this.requested.keys()].find(isMark)
  }

  private deliver(step: Step): "wait" {
    if (step === this.unseen[0]) this.unseen.shift()
    else this.unseen = this.unseen.filter((other) => other !== step)
    const deliver = this.requested.get(step)
    this.requested.delete(step)
    this.quiet = 0
    deliver?.()
    return "wait"
  }

  /** The next result to deliver, unless it comes after a step that runs again now or that the code has not requested. */
  private next(): Step | undefined {
    const [first] = [...this.requested.keys()].sort(bySequence)
    const [before] = [...this.running, ...this.missing()].sort(bySequence)
    return first === undefined || (before !== undefined && before.sequence < first.sequence) ? undefined : first
  }

  /** A turn of the event loop has passed while steps are undone: delivers the next result that the code has requested. */
  rest(): "wait" | "still" {
    const [first] = [...this.requested.keys()].sort(bySequence)
    return first === undefined ? "still" : this.deliver(first)
  }

  /**
   * A turn of the event loop has passed. `wait`: call again. `doubt`: call again after a turn of the threads, the code may
   * await something of its own. `still`: the code waits for open steps only.
   */
  turn(): "wait" | "doubt" | "still" | Difference {
    const first = this.next()
    if (first !== undefined) return this.deliver(first)
    const patch = this.wasFurther() ? this.held.find(({ passed }) => passed !== undefined) : undefined
    const isComplete = this.missing().length === 0 && this.awaited.size === 0
    if (patch === undefined && this.held.length > 0 && isComplete && !this.frozen && !this.hasEnded) {
      const ready = this.held
      this.held = []
      this.quiet = 0
      for (const { start } of ready) start()
      return "wait"
    }
    this.quiet += 1
    if (this.quiet < quietTurns) return "wait"
    if (patch !== undefined) {
      this.held = this.held.filter((other) => other !== patch)
      this.quiet = 0
      patch.passed?.()
      return "wait"
    }
    const mark = this.earlyMark()
    if (mark !== undefined) return this.deliver(mark)
    const isStuck = this.hasEnded || this.held.length > 0 || this.requested.size > 0
    const difference = isStuck ? this.difference() : undefined
    // The code may be about to request a step that is done, or has begun: only then can it be undone.
    const mayHaveBegun = this.isCut && (this.hasEnded || this.frozen)
    const mayBeDone = this.frozen && this.unrequested().length > 0
    if (difference === undefined && !mayHaveBegun && !mayBeDone) return "still"
    return this.quiet < verdictTurns ? "doubt" : (difference ?? "still")
  }

  /** A recorded result or a wait that the code did not request before it stopped. */
  difference(): Difference | undefined {
    const [first] = this.missing()
    const [wait] = this.awaited
    const requested = this.held.find(({ name }) => !this.waits.has(name))?.name ?? [...this.requested.keys()][0]?.name
    if (first !== undefined) return { recorded: first.name, requested }
    return wait === undefined ? undefined : { recorded: wait, requested, isOpen: true }
  }
}
