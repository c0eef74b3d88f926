import { Cause, Effect, Exit, type Scope } from "effect"

// Natural batching. While one flush is under way, everything that arrives waits, and leaves together in the next. There is
// no timer: an idle system adds no delay, a busy one batches by itself. One fiber flushes; what arrives is held in a plain
// array, because the thousands that pass here each second must not cost a fiber each.

export interface BatcherOptions<Item, Answer, E, R> {
  /** How much one item adds to a batch. */
  readonly weight?: (item: Item) => number
  /** The most one flush takes. A heavier item goes alone. */
  readonly maxWeight: number
  /** The most that may wait; beyond it those who submit wait for room. */
  readonly capacity: number
  /** Handles a batch and answers each item, in order. */
  readonly flush: (items: ReadonlyArray<Item>) => Effect.Effect<ReadonlyArray<Exit.Exit<Answer, E>>, E, R>
  /** Whether a failed flush of several is tried again one by one, so that a bad item does not fail its neighbours. */
  readonly isolate: (error: E) => boolean
}

export interface Batcher<Item, Answer, E> {
  /** Waits for the item's flush and its answer. Interrupted before its flush began, the item is withdrawn. */
  readonly submit: (item: Item) => Effect.Effect<Answer, E>
  /** Hands an item over without waiting for its answer. False when there is no room: then `submit` it. */
  readonly offer: (item: Item) => boolean
  /** Completes when everything handed over so far has been flushed. */
  readonly drained: Effect.Effect<void>
  readonly size: () => number
}

interface Entry<Item, Answer, E> {
  readonly item: Item
  readonly weight: number
  readonly answer: (exit: Exit.Exit<Answer, E>) => void
}

/** Starts a batcher; closing the Scope flushes what waits. */
export const make = <Item, Answer, E, R>(
  options: BatcherOptions<Item, Answer, E, R>
): Effect.Effect<Batcher<Item, Answer, E>, never, R | Scope.Scope> =>
  Effect.gen(function* () {
    let waiting: Array<Entry<Item, Answer, E>> = []
    let waitingWeight = 0
    let flushing = false
    let wake: (() => void) | undefined
    const forRoom: Array<() => void> = []
    const forEmpty: Array<() => void> = []
    const weightOf = options.weight ?? (() => 1)

    const push = (entry: Entry<Item, Answer, E>) => {
      waiting.push(entry)
      waitingWeight += entry.weight
      wake?.()
    }

    const take = (): Array<Entry<Item, Answer, E>> => {
      let weight = 0
      let count = 0
      while (count < waiting.length) {
        weight += waiting[count]?.weight ?? 0
        if (count > 0 && weight > options.maxWeight) break
        count += 1
      }
      const batch = waiting.slice(0, count)
      waiting = waiting.slice(count)
      waitingWeight = waiting.reduce((sum, entry) => sum + entry.weight, 0)
      for (const tell of forRoom.splice(0)) tell()
      return batch
    }

    const answerAll = (batch: ReadonlyArray<Entry<Item, Answer, E>>, exits: ReadonlyArray<Exit.Exit<Answer, E>>) =>
      batch.forEach((entry, index) => {
        entry.answer(exits[index] ?? Exit.die(new Error("a flush did not answer every item")))
      })

    const flushAlone = (entry: Entry<Item, Answer, E>) =>
      Effect.map(Effect.exit(options.flush([entry.item])), (exit) =>
        answerAll([entry], Exit.isSuccess(exit) ? exit.value : [Exit.failCause(exit.cause)])
      )

    const flush = (batch: ReadonlyArray<Entry<Item, Answer, E>>): Effect.Effect<void, never, R> =>
      Effect.flatMap(Effect.exit(options.flush(batch.map(({ item }) => item))), (exit) => {
        if (Exit.isSuccess(exit)) return Effect.sync(() => answerAll(batch, exit.value))
        const failure = Cause.failureOption(exit.cause)
        if (batch.length > 1 && failure._tag === "Some" && options.isolate(failure.value)) {
          return Effect.forEach(batch, flushAlone, { discard: true })
        }
        return Effect.sync(() =>
          answerAll(
            batch,
            batch.map(() => Exit.failCause(exit.cause))
          )
        )
      })

    const somethingWaits = Effect.async<void>((resume) => {
      wake = () => {
        wake = undefined
        resume(Effect.void)
      }
      if (waiting.length > 0) wake()
    })

    const flushWaiting = Effect.suspend(() => {
      const batch = take()
      flushing = true
      return flush(batch)
    }).pipe(
      Effect.ensuring(
        Effect.sync(() => {
          flushing = false
          if (waiting.length === 0) for (const tell of forEmpty.splice(0)) tell()
        })
      )
    )

    yield* Effect.addFinalizer(() =>
      Effect.whileLoop({ while: () => waiting.length > 0, body: () => flushWaiting, step: () => {} })
    )
    // A flush under way is not cut off by the closing Scope: what it holds may be half-way to the database.
    yield* Effect.whileLoop({
      while: () => true,
      body: () => Effect.zipRight(somethingWaits, Effect.uninterruptible(flushWaiting)),
      step: () => {}
    }).pipe(Effect.forkScoped)

    const room = Effect.async<void>((resume) => {
      if (waitingWeight < options.capacity) resume(Effect.void)
      else forRoom.push(() => resume(Effect.void))
    })

    const submitNow = (item: Item) =>
      Effect.async<Answer, E>((resume) => {
        const entry = { item, weight: weightOf(item), answer: resume }
        push(entry)
        return Effect.sync(() => {
          waiting = waiting.filter((other) => other !== entry)
        })
      })

    return {
      submit: (item) =>
        Effect.suspend(() => {
          if (waitingWeight < options.capacity) return submitNow(item)
          return Effect.flatMap(Effect.repeat(room, { until: () => waitingWeight < options.capacity }), () =>
            submitNow(item)
          )
        }),
      offer: (item) => {
        if (waitingWeight >= options.capacity) return false
        push({ item, weight: weightOf(item), answer: () => {} })
        return true
      },
      drained: Effect.async<void>((resume) => {
        if (waiting.length === 0 && !flushing) resume(Effect.void)
        else forEmpty.push(() => resume(Effect.void))
      }),
      size: () => waiting.length
    }
  })
