import { Clock, Duration, Effect, Layer } from "effect"
import * as Bucket from "./Bucket.js"
import { faultOf, faultOfDeclared, faultOfPause, UnknownScope } from "./Limit.js"
import { RateLimits } from "./RateLimits.js"
import * as TokenBlocks from "./TokenBlocks.js"

/** Buckets in memory, shared by the pods of one test. */
export type Table = Map<string, Bucket.Bucket>

/** Runs synchronously, so no other fiber runs between its reads and its writes. */
const step = <A>(act: (now: number) => A) => Effect.map(Clock.currentTimeMillis, act)

export const make = (table: Table, pod: string): typeof RateLimits.Service => {
  const find = (scope: string) =>
    Effect.suspend(() => {
      const bucket = table.get(scope)
      return bucket === undefined ? new UnknownScope({ scope }) : Effect.succeed(bucket)
    })
  const put = (bucket: Bucket.Bucket) => void table.set(bucket.scope, bucket)

  const blocks = TokenBlocks.make(
    (scope, taking, now) =>
      Effect.map(find(scope), (bucket) => {
        const [taken, next] = Bucket.take(bucket, taking, now)
        put(next)
        return taken
      }),
    pod
  )

  return {
    acquire: blocks.acquire,
    register: (limits) =>
      Effect.suspend(() => {
        const fault = faultOfDeclared(limits)
        if (fault !== undefined) return fault
        return step((now) => {
          for (const { capacity, rate, scope } of limits) {
            const existing = table.get(scope)
            const declared = { capacity, rate }
            put(existing === undefined ? Bucket.fresh(scope, declared, now) : Bucket.redeclare(existing, declared, now))
          }
        })
      }),
    drain: (scope, duration = Duration.zero) =>
      Effect.gen(function* () {
        const fault = faultOfPause(scope, duration)
        if (fault !== undefined) return yield* fault
        const bucket = yield* find(scope)
        yield* blocks.forget(scope)
        return yield* step((now) => {
          const next = Bucket.drain(bucket, Duration.toMillis(duration), now)
          put(next)
          return Bucket.stateOf(next, now)
        })
      }),
    tune: (scope, patch) =>
      Effect.gen(function* () {
        const bucket = yield* find(scope)
        const now = yield* Clock.currentTimeMillis
        const next = Bucket.tune(bucket, patch, now)
        const after = Bucket.stateOf(next, now)
        const fault = faultOf(after)
        if (fault !== undefined) return yield* fault
        put(next)
        return { before: Bucket.stateOf(bucket, now), after }
      }),
    get: (scope) => Effect.zipWith(find(scope), Clock.currentTimeMillis, Bucket.stateOf),
    all: step((now) =>
      [...table.values()].sort((a, b) => (a.scope < b.scope ? -1 : 1)).map((bucket) => Bucket.stateOf(bucket, now))
    )
  }
}

export const layer: Layer.Layer<RateLimits> = Layer.sync(RateLimits, () => make(new Map(), "pod"))
