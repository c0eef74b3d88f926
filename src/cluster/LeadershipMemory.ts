import { Duration, Effect, Layer, Option } from "effect"
import { Term } from "../core/Term.js"
import { type Leader, Leadership, TermOver } from "./Leadership.js"

const step = <A>(act: (now: number) => A): Effect.Effect<A> =>
  Effect.clockWith((clock) => Effect.sync(() => act(clock.unsafeCurrentTimeMillis())))

export const layer: Layer.Layer<Leadership> = Layer.sync(Leadership, () => {
  let held: Leader | undefined
  let lastTerm = 0
  const leaderAt = (now: number) => (held !== undefined && held.until > now ? held : undefined)

  return {
    campaign: (pod, lease) =>
      step((now) => {
        const leader = leaderAt(now)
        if (leader !== undefined && leader.pod !== pod) return Option.none()
        if (leader === undefined) lastTerm += 1
        held = { pod, term: Term.make(lastTerm), until: now + Duration.toMillis(lease) }
        return Option.some(held.term)
      }),
    resign: (pod, term) =>
      step(() => {
        if (held?.pod === pod && held.term === term) held = undefined
      }),
    assertTerm: (term) =>
      Effect.flatten(step((now) => (leaderAt(now)?.term === term ? Effect.void : new TermOver({ term })))),
    leader: step((now) => Option.fromNullable(leaderAt(now)))
  }
})
