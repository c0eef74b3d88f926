import { Clock, Duration, Effect, Layer } from "effect"
import { DeadLetters, type LetterState } from "../../src/gateway/dead/DeadLetters.js"

/** Dead-letter records in memory, for tests without a database. */
export const layer: Layer.Layer<DeadLetters> = Layer.sync(DeadLetters, () => {
  const letters = new Map<string, { readonly state: LetterState; readonly intendedAt: number }>()
  return {
    intend: ({ job }) =>
      Effect.map(Clock.currentTimeMillis, (intendedAt) => {
        const known = letters.get(job)
        if (known !== undefined && known.state !== "withdrawn") return known.state
        letters.set(job, { state: "intended", intendedAt })
        return undefined
      }),
    record: (job, state) =>
      Effect.sync(() => {
        const known = letters.get(job)
        if (known?.state === "intended") letters.set(job, { ...known, state })
      }),
    purge: (olderThan) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const before = now - Duration.toMillis(olderThan)
        const old = [...letters].filter(([, { intendedAt }]) => intendedAt < before)
        for (const [job] of old) letters.delete(job)
        return old.length
      })
  }
})
