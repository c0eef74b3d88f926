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

/** Shares the result of an expensive query between all callers and refreshes it at most once per `least`. */
export const refreshed = <A, E, R>(
  look: Effect.Effect<A, E, R>,
  least: Duration.DurationInput,
  most: Duration.DurationInput = longestKept
): Effect.Effect<Effect.Effect<Taken<A>, E, R>> =>
  Effect.map(Effect.makeSemaphore(1), (turn) => {
    let taken: Taken<A> | undefined
    let again = 0
    const found = (now: number) => (taken !== undefined && now < again ? taken : undefined)

    const take = Effect.gen(function* () {
      const at = yield* Clock.currentTimeMillis
      const known = found(at)
      if (known !== undefined) return known
      const value = yield* look
      const cost = (yield* Clock.currentTimeMillis) - at
      taken = { value, at }
      again = at + Math.min(Duration.toMillis(most), Math.max(Duration.toMillis(least), cost * timesCost))
      return taken
    })

    /** Concurrent callers wait for the running query and share its result. */
    const read = Effect.flatMap(Clock.currentTimeMillis, (now) => {
      const known = found(now)
      return known === undefined ? turn.withPermits(1)(take) : Effect.succeed(known)
    })

    return Effect.catchAll(read, (error) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) =>
        taken !== undefined && now - taken.at < staleLimit ? Effect.succeed(taken) : Effect.fail(error)
      )
    )
  })

// Coalesces equal queries from many browser tabs. Callers that arrive while a query runs share the result of the next
// query, which starts after they asked, so every result includes what was committed before the call. Results of
// expensive queries are cached for a while, so queries take at most a twentieth of the time. For a single value that
// may always be a little stale, see `RefreshedValue`.

/** Queries faster than this are not cached: repeating them is cheap, and the result is never stale. */
const cheap = Duration.toMillis("50 millis")

export interface CoalescingCache<A> {
  /** Runs the query, or returns a shared or cached result for the same key. */
  readonly to: <E, R>(question: string, look: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** Drops all cached results after a change. Later callers run a new query. */
  readonly forget: Effect.Effect<void>
}

interface Question<A> {
  readonly turn: Effect.Semaphore
  asking: number
  /** Number of queries started for this key. */
  begun: number
  /** Result of the last query, and until when it is valid. */
  last: { readonly look: number; readonly answer: A; readonly until: number } | undefined
}

const begin = <A>(): Question<A> => ({
  turn: Effect.unsafeMakeSemaphore(1),
  asking: 0,
  begun: 0,
  last: undefined
})

/** Maximum number and age of cached results. */
export interface Kept {
  readonly most: number
  readonly longest: Duration.DurationInput
}

/** Coalesces only and caches nothing. */
export const nothing: Kept = { most: 0, longest: 0 }

export const make = <A>({ longest, most }: Kept): CoalescingCache<A> => {
  const longestMillis = Duration.toMillis(longest)
  let questions = new Map<string, Question<A>>()

  /** Evicts expired entries and, above the maximum, the oldest ones. */
  const tidy = (now: number) => {
    const idle = [...questions].filter(([, { asking }]) => asking === 0)
    const surplus = questions.size - most
    idle.forEach(([text, { last }], index) => {
      if (index < surplus || last === undefined || last.until <= now) questions.delete(text)
    })
  }

  const find = <E, R>(question: Question<A>, look: Effect.Effect<A, E, R>) =>
    Effect.gen(function* () {
      question.begun += 1
      const number = question.begun
      const begun = yield* Clock.currentTimeMillis
      const answer = yield* look
      const ended = yield* Clock.currentTimeMillis
      const cost = ended - begun
      const until = cost < cheap ? ended : ended + Math.min(longestMillis, cost * timesCost)
      question.last = { look: number, answer, until }
      return answer
    })

  const ask = <E, R>(question: Question<A>, look: Effect.Effect<A, E, R>) =>
    Effect.suspend(() => {
      const before = question.begun
      question.asking += 1
      const inTurn = Effect.flatMap(Clock.currentTimeMillis, (now) => {
        const { last } = question
        const isGood = last !== undefined && (last.look > before || now < last.until)
        return isGood ? Effect.succeed(last.answer) : find(question, look)
      })
      return Effect.ensuring(
        question.turn.withPermits(1)(inTurn),
        Effect.sync(() => {
          question.asking -= 1
        })
      )
    })

  return {
    to: (text, look) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => {
        const { last } = questions.get(text) ?? {}
        if (last !== undefined && now < last.until) return Effect.succeed(last.answer)
        tidy(now)
        const question = questions.get(text) ?? begin<A>()
        questions.set(text, question)
        return ask(question, look)
      }),
    // Callers that already wait still share their result; new callers do not see it.
    forget: Effect.sync(() => {
      questions = new Map()
    })
  }
}
