import { Effect } from "effect"
import type { Step } from "../queue/workflow/Execution.js"
import * as ExitJson from "./ExitJson.js"
import { afterTurn, quietTurns, verdictTurns } from "./Journal.js"

// A replay gives recorded results to the code in the order in which the code got them, so that a race has the same winner. A
// fiber may request its step later than others, because it awaits something of its own before. The others wait for it: they
// could end the code, and the fiber's step would not be undone. Some steps are not requested again, such as those inside an
// activity. They are waited for once, for a limited time.

const turn = Effect.async<void>((resume) => afterTurn(() => resume(Effect.void)))

/** When a recorded step ran, and its place. */
export type Recorded = Pick<Step, "name" | "kind" | "sequence" | "startedAt" | "endedAt">

export const overlaps = (a: Recorded, b: Recorded) => a.startedAt < b.endedAt && b.startedAt < a.endedAt

/** Whether a wait or an activity may have been inside this activity, whose code does not run again. */
export const isInside = (step: Recorded, activity: Recorded) =>
  activity.kind === "run" &&
  step.sequence < activity.sequence &&
  step.endedAt >= activity.startedAt &&
  step.endedAt <= activity.endedAt

/** A step whose result the code got in an earlier run. */
interface Place {
  readonly step: Step
  isRequested: boolean
  /** Whether the result has been given, or is no longer waited for. */
  isOver: boolean
  /** Open when all steps before it are over. */
  readonly isNext: Effect.Latch
}

const keyOf = ({ attempt, name }: Pick<Step, "attempt" | "name">) => `${attempt} ${name}`

export class ReplayOrder {
  /** By sequence. */
  private places: ReadonlyArray<Place> = []
  private named: ReadonlyMap<string, Place> = new Map()
  /** All places before these are over, and requested or over. */
  private first = 0
  private firstUnrequested = 0
  private recording: Effect.Latch | undefined
  /** Number of results that the code has got in this run. */
  given = 0
  /** Whether the code has got a result in this turn of the event loop. */
  private hasJustGiven = false
  /** When the step of that result ended. */
  private lastEnd = Number.NEGATIVE_INFINITY

  /** `quiet`: gives fibers that are about to request something some turns of the event loop, while the condition holds. */
  constructor(private readonly quiet: (turns: number, isNeeded: () => boolean) => Effect.Effect<void>) {}

  load(steps: ReadonlyArray<Step>): void {
    this.places = steps
      .filter(({ exit, kind, name, reopenedAt }) => {
        const isLost = kind === "run" && ExitJson.isAbandoned(exit)
        const isResult = kind !== "undo" && name !== ExitJson.failureStep && !isLost
        return isResult && reopenedAt === undefined
      })
      .sort((a, b) => a.sequence - b.sequence)
      .map((step) => ({ step, isRequested: false, isOver: false, isNext: Effect.unsafeMakeLatch() }))
    this.named = new Map(this.places.map((place) => [keyOf(place.step), place]))
    this.advance()
  }

  private advance(): void {
    while (this.places[this.first]?.isOver) this.first += 1
    this.places[this.first]?.isNext.unsafeOpen()
  }

  /** Whether the code has not requested all steps before a place. */
  private lags(sequence: number): boolean {
    const at = () => this.places[this.firstUnrequested]
    for (let place = at(); place?.isOver || place?.isRequested; place = at()) this.firstUnrequested += 1
    return (at()?.step.sequence ?? sequence) < sequence
  }

  private unrequested(sequence: number): ReadonlyArray<Place> {
    return this.places.filter((place) => !(place.isOver || place.isRequested) && place.step.sequence < sequence)
  }

  /** Waits for fibers that are about to request steps before a place. */
  caughtUp(sequence = Number.POSITIVE_INFINITY, turns = verdictTurns): Effect.Effect<void> {
    return Effect.suspend(() => {
      if (!this.lags(sequence)) return Effect.void
      return Effect.map(
        this.quiet(turns, () => this.lags(sequence)),
        () => {
          for (const place of this.unrequested(sequence)) place.isOver = true
          this.advance()
        }
      )
    })
  }

  /**
   * The code may interrupt a fiber with the result that it got before, which may be on its way through other fibers: results of
   * steps that ran at the same time never arrive in the same turn of the event loop.
   */
  private afterLast(startedAt: number, endedAt: number): Effect.Effect<void> {
    return Effect.suspend(() => {
      if (this.hasJustGiven && startedAt <= this.lastEnd)
        return Effect.zipRight(turn, this.afterLast(startedAt, endedAt))
      this.lastEnd = endedAt
      this.given += 1
      this.hasJustGiven = true
      setImmediate(() => {
        this.hasJustGiven = false
      })
      return Effect.void
    })
  }

  /** Waits until the code may get the result of a step. `isFrozen`: the run starts nothing, and collects compensations. */
  inTurn(asked: Pick<Step, "attempt" | "name">, isFrozen: boolean): Effect.Effect<void> {
    const place = this.named.get(keyOf(asked))
    if (place === undefined || place.isOver) return Effect.void
    const { step } = place
    // A race replaces its members, and an activity the steps inside it.
    const isPart = ({ step: other }: Place) =>
      step.name.startsWith("raceAll/") ||
      ((other.kind !== "run" || other.startedAt >= step.startedAt) && isInside(other, step))
    return Effect.gen(this, function* () {
      place.isRequested = true
      if (this.lags(step.sequence)) {
        const isReplaced = !isFrozen && this.unrequested(step.sequence).every(isPart)
        yield* this.caughtUp(step.sequence, isReplaced ? quietTurns : verdictTurns)
      }
      yield* place.isNext.await
      yield* this.afterLast(step.startedAt, step.endedAt)
    }).pipe(
      Effect.ensuring(
        Effect.sync(() => {
          place.isOver = true
          this.advance()
        })
      )
    )
  }

  /** Records a step that ends now. The code gets its result after those of steps that ended before, as in a replay. */
  recorded<A, E, R>(startedAt: number, record: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> {
    return Effect.suspend(() => {
      const before = this.recording
      const own = Effect.unsafeMakeLatch()
      this.recording = own
      return record.pipe(
        Effect.zipLeft(before?.await ?? Effect.void),
        Effect.zipLeft(Effect.clockWith((clock) => this.afterLast(startedAt, clock.unsafeCurrentTimeMillis()))),
        Effect.ensuring(own.open)
      )
    })
  }
}
