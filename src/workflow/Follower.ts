import { Effect } from "effect"
import type { Difference } from "../queue/workflow/ChangedCode.js"
import type { DeferredKind, Journal, Step, StepKind } from "../queue/workflow/Execution.js"
import * as ExitJson from "./ExitJson.js"
import { afterThreads, quietTurns, verdictTurns } from "./Journal.js"
import { isInside, overlaps, type Recorded, ReplayOrder } from "./ReplayOrder.js"

// Detects code that does not follow its journal. The requests of Effect's fibers have no fixed order, so the rule is by
// name: before the code starts a step that is not recorded, and before it ends, it must have requested every recorded
// step, and every wait that the execution was suspended on. Fibers that are about to request one get some turns of the
// event loop to do so.

const turn = Effect.async<void>((resume) => afterThreads(() => resume(Effect.void)))

/** Whether the code must request a wait of this kind again. It requests the others with their step. */
const isFollowed = (kind: DeferredKind): kind is "sleep" | "signal" | "message" | "children" =>
  kind === "sleep" || kind === "signal" || kind === "message" || kind === "children"

/** Compares what the code requests with what is recorded. */
export class Follower {
  /** The first difference between the code and the journal. */
  difference: Difference | undefined
  /** All attempts of a step are one. */
  private recorded: ReadonlyMap<string, Recorded> = new Map()
  private reopened: ReadonlyMap<string, number> = new Map()
  /** Activities that wait inside, and since when. They run again, and the steps recorded inside them are requested then. */
  private unfinished: ReadonlyMap<string, number> = new Map()
  /** Waits that the execution was suspended on. */
  private waits: ReadonlyArray<Recorded> = []
  private readonly requested = new Set<string>()
  private requests = 0
  /** The order of the results. */
  readonly order = new ReplayOrder((turns, isNeeded) => this.quiet(turns, isNeeded))

  /** Reads the journal as it was before this run. */
  load(steps: ReadonlyArray<Step>, open: Journal["waits"]): void {
    const recorded = new Map<string, Recorded>()
    const reopened = new Map<string, number>()
    for (const { endedAt, kind, name, reopenedAt, sequence, startedAt } of steps) {
      if (kind === "undo" || name === ExitJson.failureStep) continue
      if (reopenedAt !== undefined) reopened.set(name, sequence)
      else {
        const first = recorded.get(name) ?? { name, kind, sequence, startedAt, endedAt }
        recorded.set(name, { ...first, endedAt: Math.max(first.endedAt, endedAt) })
      }
    }
    this.order.load(steps)
    this.recorded = recorded
    this.reopened = reopened
    const last = Number.MAX_SAFE_INTEGER
    // The code requests a wait inside an activity only while the activity runs, a wait behind an activity that it interrupts
    // only after the time that it waited before, and a wait that lost a race perhaps not at all.
    this.unfinished = new Map(
      open.filter(({ kind }) => kind === "retry").map(({ createdAt, name }) => [name, createdAt])
    )
    const isUncertain =
      this.unfinished.size > 0 ||
      steps.some(
        ({ exit, name, reopenedAt }) =>
          name.startsWith("raceAll/") ||
          ExitJson.isAbandoned(exit) ||
          (name === ExitJson.failureStep && reopenedAt === undefined)
      )
    this.waits = open.flatMap(({ createdAt, kind, name }) =>
      isUncertain || !isFollowed(kind) || recorded.has(name) || reopened.has(name)
        ? []
        : [{ name, kind, sequence: last, startedAt: createdAt, endedAt: last }]
    )
  }

  /** The code requests a step. Lets other fibers request theirs before a result interrupts them. */
  request(name: string, kind: StepKind): Effect.Effect<void> {
    return Effect.suspend(() => {
      this.requests += 1
      this.requested.add(name)
      const before = this.recorded.get(name)
      if (before !== undefined && before.kind !== kind) {
        this.difference ??= { recorded: `${name} (${before.kind})`, requested: `${name} (${kind})` }
      }
      return this.missing().length === 0 ? Effect.void : Effect.repeatN(Effect.yieldNow(), 2)
    })
  }

  /** Gives fibers that are about to request something a few turns of the event loop, while the condition holds. */
  quiet(turns = quietTurns, isNeeded: () => boolean = () => true): Effect.Effect<void> {
    return Effect.gen(this, function* () {
      const progress = () => this.requests + this.order.given
      let seen = progress()
      for (let quiet = 0; quiet < turns && isNeeded(); quiet += 1) {
        yield* turn
        if (progress() !== seen) quiet = -1
        seen = progress()
      }
    })
  }

  /** Whether the code may start this step, which is not recorded: the code must have requested all recorded steps. */
  follows(name: string | undefined, isFrozen = false): Effect.Effect<boolean> {
    return Effect.gen(this, function* () {
      if (name !== undefined && !isFrozen && this.unfinished.has(name)) return this.difference === undefined
      yield* this.order.caughtUp()
      yield* this.quiet(verdictTurns, () => this.missing().length > 0)
      const [first] = this.missing()
      if (first !== undefined)
        this.difference ??= { recorded: first.name, requested: name, isOpen: this.waits.includes(first) }
      return this.difference === undefined
    })
  }

  /** Recorded steps that the code should have requested, in their order. */
  private missing(): ReadonlyArray<Recorded> {
    const unseen = [...this.recorded.values(), ...this.waits].filter(({ name }) => !this.requested.has(name))
    if (unseen.length === 0) return unseen
    const passed = [...this.recorded.values()].filter(({ name }) => this.requested.has(name))
    // A reopened step may change the path of the code when it runs again.
    const again = [...this.reopened].filter(([name]) => this.requested.has(name)).map(([, sequence]) => sequence)
    const begun = [...this.unfinished.values()]
    const isExcused = (step: Recorded) =>
      begun.some((since) => step.endedAt >= since) ||
      again.some((sequence) => sequence < step.sequence) ||
      // The result of a race replaces the steps of its members.
      passed.some((other) => other.name.startsWith("raceAll/") && step.sequence < other.sequence) ||
      // A fiber that lost a race may be interrupted before it requests its step again.
      passed.some((other) => overlaps(step, other) || isInside(step, other))
    return unseen.filter((step) => !isExcused(step)).sort((a, b) => a.sequence - b.sequence)
  }
}
