import { Context, Effect, type Scope } from "effect"
import { steadyNow } from "../../core/ChangeWatch.js"
import { idleUntil, repeated } from "../../core/Loop.js"
import { makeLatch, onEvent } from "../../core/LoopSchedule.js"
import type { Slot } from "./Slot.js"

/** Enforces the timeouts of all slots of the pod with one fiber instead of a timer per job. */
export class Deadlines extends Context.Tag("nightshift/worker/Deadlines")<
  Deadlines,
  {
    /** Watches a slot until `forget`. Runs `onLate` when the slot's run passes its deadline. */
    readonly watch: (slot: Slot, onLate: Effect.Effect<void>) => void
    readonly forget: (slot: Slot) => void
    /** Reports that a slot has started a run. */
    readonly began: (slot: Slot) => void
  }
>() {
  /** Enforces deadlines until the Scope closes. */
  static readonly make: Effect.Effect<typeof Deadlines.Service, never, Scope.Scope> = Effect.suspend(() => make)
}

/** On the monotonic clock; infinite without a run that could be late. */
const deadlineOf = ({ run, stop }: Slot) =>
  run === undefined || stop !== undefined ? Number.POSITIVE_INFINITY : run.deadline

const make: Effect.Effect<typeof Deadlines.Service, never, Scope.Scope> = Effect.gen(function* () {
  const watched = new Map<Slot, Effect.Effect<void>>()
  let nextLook = Number.POSITIVE_INFINITY
  const latch = makeLatch()

  const check = Effect.gen(function* () {
    const now = yield* steadyNow
    let first = Number.POSITIVE_INFINITY
    for (const [slot, onLate] of watched) {
      const deadline = deadlineOf(slot)
      if (deadline <= now) yield* onLate
      else first = Math.min(first, deadline)
    }
    // The deadline of a run that has ended stays: later runs have later ones, and need not wake the loop.
    if (first < Number.POSITIVE_INFINITY || nextLook <= now) nextLook = first
    yield* idleUntil(() => {
      let first = Number.POSITIVE_INFINITY
      for (const slot of watched.keys()) first = Math.min(first, deadlineOf(slot))
      return first
    }, "exactly")
  })

  // Nearly every run ends before its deadline is checked; the loop wakes only for a deadline earlier than all others.
  const nextDeadline = Effect.flatMap(steadyNow, (now) =>
    nextLook === Number.POSITIVE_INFINITY ? latch.opened : latch.openedWithin(nextLook - now)
  )
  yield* Effect.forkScoped(
    repeated({ name: "deadlines", schedule: onEvent(nextDeadline), runAtStart: true, run: check })
  )

  return {
    watch: (slot, onLate) => void watched.set(slot, onLate),
    forget: (slot) => void watched.delete(slot),
    began: (slot) => {
      if (slot.run === undefined || slot.run.deadline >= nextLook) return
      nextLook = slot.run.deadline
      latch.open()
    }
  }
})
