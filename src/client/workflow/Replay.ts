import type { Step } from "../../queue/workflow/Execution.js"

// Replay: the code of an execution runs again from its start, and gets the recorded results in the order in which it got
// them before. A result whose turn it is is delivered at once. One that is requested too early waits until the code does
// nothing more, which is seen by a turn of the event loop. A step that is not recorded is held back until all recorded
// results are delivered; if the code stops before it has requested all of them, it has changed.

/** A result as it is stored. */
export type Stored = Pick<Step, "outcome" | "exit">

interface Held {
  readonly name: string
  /** Runs the step. */
  readonly start: () => void
  /** For `patched`: the code has passed this place before. */
  readonly passed?: () => void
}

/** Turns of the event loop without progress after which the code counts as stopped. */
const quietTurns = 3

/** What the code has not followed. */
export interface Difference {
  /** The recorded step that the code did not request. */
  readonly recorded: string
  /** What it requested instead, if anything. */
  readonly requested: string | undefined
}

export class Replay {
  private unseen: Array<Step>
  private readonly requested = new Map<Step, () => void>()
  private held: Array<Held> = []
  private readonly names = new Map<string, number>()
  private readonly byName: ReadonlyMap<string, Step>
  private quiet = 0

  /** `steps` are final results, in their order. With `frozen`, no new step starts. */
  constructor(
    steps: ReadonlyArray<Step>,
    private readonly frozen: boolean
  ) {
    this.unseen = [...steps]
    this.byName = new Map(steps.map((step) => [step.name, step]))
  }

  /** Numbers names that are used again. */
  numbered(base: string): string {
    const count = (this.names.get(base) ?? 0) + 1
    this.names.set(base, count)
    return count === 1 ? base : `${base}#${count}`
  }

  recorded(name: string): Step | undefined {
    return this.byName.get(name)
  }

  /** Delivers a recorded result now or when its turn comes. Returns whether `turn` must be called. */
  request(step: Step, deliver: () => void): boolean {
    this.quiet = 0
    if (step === this.unseen[0]) {
      this.unseen.shift()
      deliver()
      return false
    }
    this.requested.set(step, deliver)
    return true
  }

  /** Starts a step that is not recorded, now or when the replay is over. Returns whether `turn` must be called. */
  begin(held: Held): boolean {
    this.quiet = 0
    if (!this.frozen && this.held.length === 0 && this.requested.size === 0 && !this.isBehind()) {
      held.start()
      return false
    }
    this.held.push(held)
    return true
  }

  /** Recorded results that the code has not requested. Marks of patches may be removed from the code. */
  private missing(): ReadonlyArray<Step> {
    return this.unseen.filter((step) => step.kind !== "patch" && !this.requested.has(step))
  }

  private isBehind(): boolean {
    return this.unseen.some(({ kind }) => kind !== "patch")
  }

  /** A turn of the event loop has passed. `wait`: call again. `still`: the code waits for open steps only. */
  turn(): "wait" | "still" | Difference {
    const [first] = [...this.requested.keys()].sort((a, b) => a.sequence - b.sequence)
    if (first !== undefined) {
      this.unseen = this.unseen.filter((step) => step !== first)
      const deliver = this.requested.get(first)
      this.requested.delete(first)
      this.quiet = 0
      deliver?.()
      return "wait"
    }
    const missing = this.missing()
    if (this.held.length > 0 && missing.length === 0 && !this.frozen) {
      const ready = this.held
      this.held = []
      this.quiet = 0
      for (const { start } of ready) start()
      return "wait"
    }
    const patch = missing.length === 0 ? undefined : this.held.find(({ passed }) => passed !== undefined)
    if (patch !== undefined) {
      this.held = this.held.filter((other) => other !== patch)
      this.quiet = 0
      patch.passed?.()
      return "wait"
    }
    this.quiet += 1
    if (this.quiet < quietTurns) return "wait"
    return this.held.length > 0 ? (this.difference() ?? "still") : "still"
  }

  /** What the code did not request although it has come to an end. */
  difference(): Difference | undefined {
    const [first] = this.missing()
    return first === undefined ? undefined : { recorded: first.name, requested: this.held[0]?.name }
  }
}
