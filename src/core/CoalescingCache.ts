import { Clock, Duration, Effect } from "effect"

/** A value, and when its query started, in epoch milliseconds. */
export interface Taken<A> {
  readonly value: A
  readonly at: number
}

/** Default maximum age of a value. */
const longestKept = Duration.minutes(1)

/** A value is kept for this multiple of its query time, so queries take at most a twentieth of the time. */
const timesCost = 20

/** If the query fails, the previous value is returned up to this age, in milliseconds. */
const staleLimit = Duration.toMillis("5 minutes")

/** Shares the result of an expensive query between all callers and refreshes it at most once per `minAge`. */
export const refreshed = <A, E, R>(
  query: Effect.Effect<A, E, R>,
  minAge: Duration.DurationInput,
  maxAge: Duration.DurationInput = longestKept
): Effect.Effect<Effect.Effect<Taken<A>, E, R>> =>
  Effect.map(Effect.makeSemaphore(1), (turn) => {
    let latest: Taken<A> | undefined
    let validUntil = 0
    const ifValid = (now: number) => (latest !== undefined && now < validUntil ? latest : undefined)

    const take = Effect.gen(function* () {
      const at = yield* Clock.currentTimeMillis
      const cached = ifValid(at)
      if (cached !== undefined) return cached
      const value = yield* query
      const cost = (yield* Clock.currentTimeMillis) - at
      latest = { value, at }
      validUntil = at + Math.min(Duration.toMillis(maxAge), Math.max(Duration.toMillis(minAge), cost * timesCost))
      return latest
    })

    /** Concurrent callers wait for the running query and share its result. */
    const read = Effect.flatMap(Clock.currentTimeMillis, (now) => {
      const cached = ifValid(now)
      return cached === undefined ? turn.withPermits(1)(take) : Effect.succeed(cached)
    })

    return Effect.catchAll(read, (error) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) =>
        latest !== undefined && now - latest.at < staleLimit ? Effect.succeed(latest) : Effect.fail(error)
      )
    )
  })

// Coalesces equal queries from many browser tabs. Callers that arrive while a query runs share the result of the next
// query, which starts after their call, so every result includes all earlier commits. Results of expensive queries are
// cached for a while, so queries take at most a twentieth of the time. For a single value that may be stale, see
// `refreshed`.

/** Queries faster than this are not cached: repeating them is cheap, and the result is never stale. */
const cheap = Duration.toMillis("50 millis")

export interface CoalescingCache<A> {
  /** Runs the query, or returns a shared or cached result for the same key. */
  readonly get: <E, R>(key: string, query: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** Drops all cached results after a change. Later callers run a new query. */
  readonly forget: Effect.Effect<void>
}

interface Entry<A> {
  readonly turn: Effect.Semaphore
  /** Number of callers that wait for a result. */
  callers: number
  /** Number of queries started for this key. */
  started: number
  /** Result of the last query, and until when it is valid. */
  last: { readonly number: number; readonly result: A; readonly until: number } | undefined
}

const newEntry = <A>(): Entry<A> => ({
  turn: Effect.unsafeMakeSemaphore(1),
  callers: 0,
  started: 0,
  last: undefined
})

/** Maximum number and age of cached results. */
export interface CacheLimits {
  readonly maxEntries: number
  readonly longest: Duration.DurationInput
}

/** Coalesces only and caches nothing. */
export const noCaching: CacheLimits = { maxEntries: 0, longest: 0 }

export const make = <A>({ longest, maxEntries }: CacheLimits): CoalescingCache<A> => {
  const longestMillis = Duration.toMillis(longest)
  let entries = new Map<string, Entry<A>>()

  /** Evicts expired entries and, above the maximum, the oldest ones. */
  const evict = (now: number) => {
    const idle = [...entries].filter(([, { callers }]) => callers === 0)
    const surplus = entries.size - maxEntries
    idle.forEach(([key, { last }], index) => {
      if (index < surplus || last === undefined || last.until <= now) entries.delete(key)
    })
  }

  const run = <E, R>(entry: Entry<A>, query: Effect.Effect<A, E, R>) =>
    Effect.gen(function* () {
      entry.started += 1
      const number = entry.started
      const startedAt = yield* Clock.currentTimeMillis
      const result = yield* query
      const endedAt = yield* Clock.currentTimeMillis
      const cost = endedAt - startedAt
      const until = cost < cheap ? endedAt : endedAt + Math.min(longestMillis, cost * timesCost)
      entry.last = { number, result, until }
      return result
    })

  const share = <E, R>(entry: Entry<A>, query: Effect.Effect<A, E, R>) =>
    Effect.suspend(() => {
      const before = entry.started
      entry.callers += 1
      const inTurn = Effect.flatMap(Clock.currentTimeMillis, (now) => {
        const { last } = entry
        const isValid = last !== undefined && (last.number > before || now < last.until)
        return isValid ? Effect.succeed(last.result) : run(entry, query)
      })
      return Effect.ensuring(
        entry.turn.withPermits(1)(inTurn),
        Effect.sync(() => {
          entry.callers -= 1
        })
      )
    })

  return {
    get: (key, query) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => {
        const { last } = entries.get(key) ?? {}
        if (last !== undefined && now < last.until) return Effect.succeed(last.result)
        evict(now)
        const entry = entries.get(key) ?? newEntry<A>()
        entries.set(key, entry)
        return share(entry, query)
      }),
    // Callers that already wait still share their result; new callers do not see it.
    forget: Effect.sync(() => {
      entries = new Map()
    })
  }
}
