import { Duration, Effect, Layer, Option } from "effect"
import { steadyMillis } from "../core/ChangeWatch.js"
import { Term } from "../core/Term.js"
import { type Leader, Leadership, TermOver } from "./Leadership.js"
import * as LeadershipWatch from "./LeadershipWatch.js"

const seenAs = ({ term, until }: Leader): LeadershipWatch.LeaseSeen => ({ term, until: `${until}` })

export const layer: Layer.Layer<Leadership> = Layer.sync(Leadership, () => {
  const watchOf = LeadershipWatch.make()
  let held: Leader | undefined
  let lastTerm = 0

  return {
    campaign: (pod, lease) =>
      Effect.clockWith((clock) =>
        Effect.sync(() => {
          const watch = watchOf(clock)
          const now = steadyMillis(clock)
          const gone = watch.expired(lease, now)
          const isGone = held !== undefined && gone?.term === held.term && gone.until === `${held.until}`
          if (held !== undefined && held.pod !== pod && !isGone) {
            watch.saw(seenAs(held), now)
            watch.lost(pod)
            return Option.none()
          }
          if (held?.pod !== pod || watch.termOf(pod, now) !== held.term) lastTerm += 1
          held = {
            pod,
            term: Term.make(lastTerm),
            until: clock.unsafeCurrentTimeMillis() + Duration.toMillis(lease)
          }
          watch.saw(seenAs(held), now)
          watch.took(pod, held.term, lease, now)
          return Option.some(held.term)
        })
      ),
    resign: (pod, term) =>
      Effect.sync(() => {
        if (held?.pod === pod && (term === undefined || held.term === term)) held = undefined
      }),
    assertTerm: (term) => Effect.suspend(() => (held?.term === term ? Effect.void : new TermOver({ term }))),
    leader: Effect.sync(() => Option.fromNullable(held))
  }
})
