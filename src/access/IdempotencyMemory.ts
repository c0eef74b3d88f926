import { Clock, Duration, Effect, Layer } from "effect"
import { digest, Idempotency, IdempotencyKeyReused } from "./Idempotency.js"

interface Known {
  readonly content: string
  readonly at: number
  /** JSON text. */
  readonly answer: string
}

const make = Effect.gen(function* () {
  const known = new Map<string, Known>()
  // Serializes requests, so that a concurrent duplicate finds the first result.
  const turn = yield* Effect.makeSemaphore(1)
  const text = (value: string) => digest(value).toString("hex")

  return Idempotency.of({
    once: (request, act) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const [key, content] = [text(request.key), text(request.content)]
        const before = known.get(key)
        if (before !== undefined && before.at > now - Duration.toMillis(request.remembered)) {
          return before.content === content ? JSON.parse(before.answer) : yield* new IdempotencyKeyReused()
        }
        const answer = yield* act(now)
        known.set(key, { content, at: now, answer: JSON.stringify(answer) })
        return answer
      }).pipe(turn.withPermits(1)),
    purge: (olderThan) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const old = [...known].filter(([, { at }]) => at < now - Duration.toMillis(olderThan))
        for (const [key] of old) known.delete(key)
        return old.length
      })
  })
})

export const layer: Layer.Layer<Idempotency> = Layer.effect(Idempotency, make)
