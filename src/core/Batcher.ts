import { Cause, Effect, Exit, FiberId, type Scope } from "effect"

// Natural batching. While one flush is under way, everything that arrives waits, and leaves together in the next. There is
// no timer: an idle system adds no delay, a busy one batches by itself. A fiber per lane flushes; what arrives is held in a
// plain array, because the thousands that pass here each second must not cost a fiber each. A second lane sets out beside
// the first only when as much waits as is under way: batches stay large, and nobody idles while the other end works.

export interface BatcherOptions<Item, Answer, E, R> {
  /** How much one item adds to a batch. */
  readonly weight?: (item: Item) => number
  /** The most one flush takes. A heavier item goes alone. */
  readonly maxWeight: number
  /** How many flushes may be under way at a time; one if nothing is said, and then they are in order. */
  readonly lanes?: number
  /** The most that may wait; beyond it those who submit wait for room. */
  readonly capacity: number
  /** Handles a batch and answers each item, in order. */
  readonly flush: (items: ReadonlyArray<Item>) => Effect.Effect<ReadonlyArray<Exit.Exit<Answer, E>>, E, R>
  /** Whether a failed flush is tried again one by one, so that a bad item does not fail its neighbours. */
  readonly isolate: (error: E) => boolean
  /** How one item is tried again, beside the flushes that go on meanwhile. Absent: by a flush of its own. */
  readonly alone?: (item: Item) => Effect.Effect<Answer, E, R>
}

export interface Batcher<Item, Answer, E> {
  /** Waits for the item's flush and its answer. Interrupted before its flush began, the item is withdrawn. */
  readonly submit: (item: Item) => Effect.Effect<Answer, E>
  /** Hands an item over, to be called back with its answer; returns how to withdraw it while its flush has not begun. */
  readonly hand: (item: Item, answer: (exit: Exit.Exit<Answer, E>) => void) => () => void
  /** Hands an item over without waiting for its answer. False when there is no room: then `submit` it. */
  readonly offer: (item: Item) => boolean
  /** Completes when everything handed over so far has been flushed. */
  readonly drained: Effect.Effect<void>
  readonly size: () => number
}

interface Entry<Item, Answer, E> {
  readonly item: Item
  readonly weight: number
  /** Rises from entry to entry, and they leave in this order. */
  readonly number: number
  readonly answer: (exit: Exit.Exit<Answer, E>) => void
}

/** A flush under way: its first entry, and how much it holds. */
interface Flight {
  readonly number: number
  readonly weight: number
}

/** Those who wait: inside as far as there is room, and outside for it, in the order in which they came. */
const makeLine = <Item, Answer, E>(options: { readonly maxWeight: number; readonly capacity: number }) => {
  let inside: Array<Entry<Item, Answer, E>> = []
  let outside: Array<Entry<Item, Answer, E>> = []
  let weight = 0

  const hasRoom = () => weight < options.capacity

  const enter = (entry: Entry<Item, Answer, E>) => {
    inside.push(entry)
    weight += entry.weight
  }

  const letIn = () => {
    let count = 0
    for (const entry of outside) {
      if (!hasRoom()) break
      enter(entry)
      count += 1
    }
    if (count > 0) outside = outside.slice(count)
  }

  return {
    hasRoom,
    weight: () => weight,
    size: () => inside.length,
    first: () => inside[0],
    join: (entry: Entry<Item, Answer, E>) => {
      if (hasRoom()) enter(entry)
      else outside.push(entry)
    },
    leave: (entry: Entry<Item, Answer, E>) => {
      if (inside.includes(entry)) weight -= entry.weight
      inside = inside.filter((other) => other !== entry)
      outside = outside.filter((other) => other !== entry)
      letIn()
    },
    /** What one flush takes. */
    take: (): ReadonlyArray<Entry<Item, Answer, E>> => {
      let taken = 0
      let count = 0
      for (const entry of inside) {
        if (count > 0 && taken + entry.weight > options.maxWeight) break
        taken += entry.weight
        count += 1
      }
      const batch = inside.slice(0, count)
      inside = inside.slice(count)
      weight -= taken
      letIn()
      return batch
    }
  }
}

/** Starts a batcher; closing the Scope flushes what waits. What is submitted after that is interrupted. */
export const make = <Item, Answer, E, R>(
  options: BatcherOptions<Item, Answer, E, R>
): Effect.Effect<Batcher<Item, Answer, E>, never, R | Scope.Scope> =>
  Effect.gen(function* () {
    const line = makeLine<Item, Answer, E>(options)
    const scope = yield* Effect.scope
    const apart = new Set<number>()
    let numbered = 0
    const flights = new Set<Flight>()
    let closed = false
    const idle: Array<() => void> = []
    let forDrained: Array<{ readonly number: number; readonly tell: () => void }> = []
    const weightOf = options.weight ?? (() => 1)

    const handOver = (item: Item, answer: (exit: Exit.Exit<Answer, E>) => void) => {
      numbered += 1
      const entry = { item, weight: weightOf(item), number: numbered, answer }
      line.join(entry)
      wake()
      return entry
    }

    /** Whether another flush is worth its while: something waits, and not less than is under way. */
    const isReady = () => {
      if (line.size() === 0) return false
      let underWay = 0
      for (const { weight } of flights) underWay += weight
      return line.weight() >= underWay
    }

    const wake = () => {
      if (idle.length > 0 && isReady()) idle.shift()?.()
    }

    /** Tells those who wait for a drain whether the oldest that is left came after them. */
    const complete = () => {
      const flying = [...flights].map(({ number }) => number)
      const oldest = Math.min(line.first()?.number ?? Number.POSITIVE_INFINITY, ...flying, ...apart)
      const ready = forDrained.filter(({ number }) => number < oldest)
      if (ready.length === 0) return
      forDrained = forDrained.filter(({ number }) => number >= oldest)
      for (const { tell } of ready) tell()
    }

    const answerAll = (batch: ReadonlyArray<Entry<Item, Answer, E>>, exits: ReadonlyArray<Exit.Exit<Answer, E>>) =>
      batch.forEach((entry, index) => {
        entry.answer(exits[index] ?? Exit.die(new Error("a flush did not answer every item")))
      })

    const flushAlone = (item: Item): Effect.Effect<Answer, E, R> =>
      Effect.flatMap(options.flush([item]), ([exit]) => exit ?? Effect.dieMessage("a flush did not answer every item"))
    const alone = options.alone ?? flushAlone

    /** An item on its own way: it may take long, and nobody else waits for it. */
    const setApart = (entry: Entry<Item, Answer, E>) => {
      apart.add(entry.number)
      const way = Effect.flatMap(Effect.exit(alone(entry.item)), (exit) =>
        Effect.sync(() => {
          apart.delete(entry.number)
          entry.answer(exit)
          complete()
        })
      )
      return Effect.forkIn(Effect.uninterruptible(way), scope)
    }

    const flush = (batch: ReadonlyArray<Entry<Item, Answer, E>>): Effect.Effect<void, never, R> =>
      Effect.flatMap(Effect.exit(options.flush(batch.map(({ item }) => item))), (exit) => {
        if (Exit.isSuccess(exit)) return Effect.sync(() => answerAll(batch, exit.value))
        const failure = Cause.failureOption(exit.cause)
        const another = batch.length > 1 || options.alone !== undefined
        if (another && failure._tag === "Some" && options.isolate(failure.value)) {
          return Effect.forEach(batch, setApart, { discard: true })
        }
        return Effect.sync(() =>
          answerAll(
            batch,
            batch.map(() => Exit.failCause(exit.cause))
          )
        )
      })

    const somethingWaits = Effect.async<void>((resume) => {
      if (isReady()) resume(Effect.void)
      else idle.push(() => resume(Effect.void))
    })

    const flushWaiting = Effect.suspend(() => {
      const batch = line.take()
      const [first] = batch
      // Everything that woke us may have been withdrawn since.
      if (first === undefined) return Effect.void
      const flight = { number: first.number, weight: batch.reduce((sum, { weight }) => sum + weight, 0) }
      flights.add(flight)
      return Effect.ensuring(
        flush(batch),
        Effect.sync(() => {
          flights.delete(flight)
          complete()
        })
      )
    })

    // Empty and closed at one moment: nobody slips in between and waits for ever.
    const closeWhenEmpty = () => {
      closed = line.size() === 0
      return !closed
    }
    yield* Effect.addFinalizer(() =>
      Effect.whileLoop({ while: closeWhenEmpty, body: () => flushWaiting, step: () => {} })
    )
    // A flush under way is not cut off by the closing Scope: what it holds may be half-way to the database.
    const lane = Effect.whileLoop({
      while: () => true,
      body: () => Effect.zipRight(somethingWaits, Effect.uninterruptible(flushWaiting)),
      step: () => {}
    })
    yield* Effect.replicateEffect(Effect.forkScoped(lane), options.lanes ?? 1)

    const hand: Batcher<Item, Answer, E>["hand"] = (item, answer) => {
      if (closed) {
        answer(Exit.interrupt(FiberId.none))
        return () => {}
      }
      const entry = handOver(item, answer)
      return () => {
        line.leave(entry)
        complete()
      }
    }

    return {
      hand,
      submit: (item) =>
        Effect.async<Answer, E>((resume) => {
          const withdraw = hand(item, resume)
          return Effect.sync(withdraw)
        }),
      offer: (item) => {
        if (closed || !line.hasRoom()) return false
        handOver(item, () => {})
        return true
      },
      drained: Effect.async<void>((resume) => {
        forDrained.push({ number: numbered, tell: () => resume(Effect.void) })
        complete()
      }),
      size: line.size
    }
  })
