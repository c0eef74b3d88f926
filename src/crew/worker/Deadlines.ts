import { Context, Effect, Layer } from "effect"
import { steadyNow } from "../../core/ChangeWatch.js"
import type { Slot } from "./Slot.js"

/** Enforces the timeouts of all slots of the pod with one fiber instead of a timer per job. */
export class Deadlines extends Context.Tag("nightshift/crew/Deadlines")<
  Deadlines,
  {
    /** Watches a slot until `forget`. Runs `onLate` when the slot's run passes its deadline. */
    readonly watch: (slot: Slot, onLate: Effect.Effect<void>) => void
    readonly forget: (slot: Slot) => void
    /** Reports that a slot has started a run. */
    readonly began: (slot: Slot) => void
  }
>() {
  static readonly layer: Layer.Layer<Deadlines> = Layer.scoped(
    Deadlines,
    Effect.gen(function* () {
      const watched = new Map<Slot, Effect.Effect<void>>()
      let nextLook = Number.POSITIVE_INFINITY
      let latch: (() => void) | undefined

      const woken = Effect.async<void>((resume) => {
        latch = () => {
          latch = undefined
          resume(Effect.void)
        }
      })

      const look = Effect.gen(function* () {
        const now = yield* steadyNow
        nextLook = Number.POSITIVE_INFINITY
        for (const [slot, onLate] of watched) {
          if (slot.run === undefined || slot.stop !== undefined) continue
          if (slot.run.deadline <= now) yield* onLate
          else nextLook = Math.min(nextLook, slot.run.deadline)
        }
        // Most runs end before their deadline is checked, so a new run wakes this fiber only if its deadline is the
        // earliest.
        yield* nextLook === Number.POSITIVE_INFINITY ? woken : Effect.raceFirst(woken, Effect.sleep(nextLook - now))
      })

      yield* Effect.forkScoped(Effect.forever(look))

      return {
        watch: (slot, onLate) => void watched.set(slot, onLate),
        forget: (slot) => void watched.delete(slot),
        began: (slot) => {
          if (slot.run !== undefined && slot.run.deadline < nextLook) latch?.()
        }
      }
    })
  )
}
