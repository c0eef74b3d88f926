import { Cause, Effect, Exit, type Fiber, FiberId, FiberRef, RuntimeFlags, type Scope } from "effect"

// Natural batching: items that arrive during a flush wait and form the next batch. There is no timer, so an idle system
// adds no delay and a busy one batches automatically. Each lane is one fiber that flushes; waiting items are held in a
// plain array because thousands per second pass through and a fiber for each would be too expensive. A second lane
// starts a flush only when the waiting weight is at least the weight in flight: this keeps batches large and still
// overlaps round trips. With `gather`, a flush also waits while each turn of the event loop brings more items: a process
// that is busy receiving stores more of them at once, and an idle one waits for the end of the current turn only. Large
// batches alternate between two lanes, so that this process and the server work at the same time.

export interface BatcherOptions<Item, Result, E, R> {
  /** The weight one item adds to a batch. [1] */
  readonly weight?: (item: Item) => number
  /** Maximum total weight of one flush. A heavier item is flushed alone. */
  readonly maxWeight: number
  /** Maximum number of concurrent flushes. With one lane, flushes run in order. [1] */
  readonly lanes?: number
  /** Calls back after the current turn of the event loop. With it, a flush collects the items of several turns. */
  readonly gather?: (turnEnded: () => void) => void
  /** Maximum weight of waiting items. When it is reached, `submit` waits for room. */
  readonly capacity: number
  /** Called when a flush has removed items from the waiting ones. */
  readonly onRoom?: () => void
  /** Processes a batch and returns one exit per item, in the order of the items. */
  readonly flush: (items: ReadonlyArray<Item>) => Effect.Effect<ReadonlyArray<Exit.Exit<Result, E>>, E, R>
  /** Whether to retry the items of a failed flush one by one, so that one bad item does not fail the whole batch. */
  readonly isolate: (error: E) => boolean
  /** Retries a single item after the flush's error, concurrently with later flushes. Defaults to a flush of that item alone. */
  readonly alone?: (item: Item, error: E) => Effect.Effect<Result, E, R>
}

export interface Batcher<Item, Result, E> {
  /**
   * Waits until the item is flushed and returns its result. Interruption before the flush starts withdraws the item. Its
   * room is free when the next flush starts.
   */
  readonly submit: (item: Item) => Effect.Effect<Result, E>
  /** Adds an item and calls `onResult` with its result. */
  readonly submitWithCallback: (item: Item, onResult: (exit: Exit.Exit<Result, E>) => void) => void
  /** Adds an item and ignores its result. Returns false when the batcher is full; the caller must then use `submit`. */
  readonly offer: (item: Item) => boolean
  /** Completes when all items added before this call have been flushed. */
  readonly drained: Effect.Effect<void>
  /** Number of waiting items, without those of a flush in progress. */
  readonly size: () => number
}

/**
 * A class because V8 allocates object literals that often outlive a minor garbage collection in old space. Each dead
 * entry there would keep its item in memory until the next full collection.
 */
class Entry<Item, Result, E> {
  /** Sequence number, set when the entry is added; entries are flushed in this order. */
  number = 0

  constructor(
    /** Set to undefined once the result is reported. */
    public item: Item,
    readonly weight: number,
    public onResult: (exit: Exit.Exit<Result, E>) => void,
    /** The fiber that waits for the result, if an interruption can end its wait. */
    readonly submitter: Fiber.RuntimeFiber<unknown, unknown> | undefined
  ) {}
}

/**
 * Whether the submitter was interrupted while it waited. Checked when the item is due: a finalizer for each waiting fiber
 * took more than half of the time that a fiber spends on one item.
 */
const isWithdrawn = ({ submitter }: Pick<Entry<unknown, unknown, unknown>, "submitter">): boolean =>
  submitter !== undefined && !Cause.isEmpty(submitter.getFiberRef(FiberRef.interruptedCause))

const ignore = () => {}

/** Maximum number of turns for which a flush collects items. */
const maxTurns = 4

/** A batch of this many items is large: collecting more saves little, and half of it is still worth a flush. */
const large = 64

/** A flush in progress: the number of its first entry and its total weight. */
interface Flight {
  readonly number: number
  readonly weight: number
}

/** The waiting entries in FIFO order: `inside` up to the capacity, the rest `outside` until there is room. */
const makeLine = <Item, Result, E>(options: { readonly maxWeight: number; readonly capacity: number }) => {
  let inside: Array<Entry<Item, Result, E>> = []
  let outside: Array<Entry<Item, Result, E>> = []
  let weight = 0

  const hasRoom = () => weight < options.capacity

  const enter = (entry: Entry<Item, Result, E>) => {
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
    join: (entry: Entry<Item, Result, E>) => {
      if (hasRoom()) enter(entry)
      else outside.push(entry)
    },
    /** Removes and returns the entries of the next flush, without the withdrawn ones. */
    take: (): ReadonlyArray<Entry<Item, Result, E>> => {
      const batch: Array<Entry<Item, Result, E>> = []
      let taken = 0
      let removed = 0
      for (const entry of inside) {
        if (!isWithdrawn(entry)) {
          if (batch.length > 0 && taken + entry.weight > options.maxWeight) break
          taken += entry.weight
          batch.push(entry)
        }
        weight -= entry.weight
        removed += 1
      }
      inside = inside.slice(removed)
      letIn()
      return batch
    }
  }
}

/** Starts a batcher. Closing the Scope flushes the waiting items; items submitted after that are interrupted. */
export const make = <Item, Result, E, R>(
  options: BatcherOptions<Item, Result, E, R>
): Effect.Effect<Batcher<Item, Result, E>, never, R | Scope.Scope> =>
  Effect.gen(function* () {
    const line = makeLine<Item, Result, E>(options)
    const scope = yield* Effect.scope
    const apart = new Set<number>()
    let numbered = 0
    const flights = new Set<Flight>()
    let closed = false
    const idle: Array<() => void> = []
    let forDrained: Array<{ readonly number: number; readonly tell: () => void }> = []
    const weightOf = options.weight ?? (() => 1)
    let gathering: { readonly turns: number; readonly number: number } | undefined

    const entryOf = (
      item: Item,
      onResult: (exit: Exit.Exit<Result, E>) => void,
      submitter: Entry<Item, Result, E>["submitter"]
    ): Entry<Item, Result, E> => new Entry(item, weightOf(item), onResult, submitter)

    const add = (entry: Entry<Item, Result, E>) => {
      if (closed) return entry.onResult(Exit.interrupt(FiberId.none))
      numbered += 1
      entry.number = numbered
      line.join(entry)
      if (options.gather === undefined) wake()
      else if (gathering === undefined) {
        gathering = { turns: 1, number: numbered }
        options.gather(turnEnded)
      }
    }

    /** Continues gathering if the turn brought items and there are not many yet. */
    const turnEnded = () => {
      const { number, turns } = gathering ?? { number: numbered, turns: maxTurns }
      if (number < numbered && turns < maxTurns && line.size() < large) {
        gathering = { turns: turns + 1, number: numbered }
        options.gather?.(turnEnded)
      } else {
        gathering = undefined
        wake()
      }
    }

    /** Whether to start another flush: items are waiting, and their weight is at least the weight in flight. */
    const isReady = () => {
      if (line.size() === 0 || gathering !== undefined) return false
      let underWay = 0
      for (const { weight } of flights) underWay += weight
      return line.weight() >= underWay
    }

    const wake = () => {
      if (idle.length > 0 && isReady()) idle.shift()?.()
    }

    /** Resolves each `drained` call whose items have all been flushed. */
    const complete = () => {
      const flying = [...flights].map(({ number }) => number)
      const oldest = Math.min(line.first()?.number ?? Number.POSITIVE_INFINITY, ...flying, ...apart)
      const ready = forDrained.filter(({ number }) => number < oldest)
      if (ready.length === 0) return
      forDrained = forDrained.filter(({ number }) => number >= oldest)
      for (const { tell } of ready) tell()
    }

    const report = (entry: Entry<Item, Result, E>, exit: Exit.Exit<Result, E>) => {
      entry.item = undefined as Item
      entry.onResult(exit)
    }

    const reportAll = (batch: ReadonlyArray<Entry<Item, Result, E>>, exits: ReadonlyArray<Exit.Exit<Result, E>>) =>
      batch.forEach((entry, index) => {
        report(entry, exits[index] ?? Exit.die(new Error("the flush returned fewer results than items")))
      })

    // Effect keeps a function passed to `Effect.async`, `Effect.ensuring` and the like in memory until the next full
    // garbage collection, with everything in its closure. The functions below therefore have no item in their closures:
    // otherwise every young collection would copy the items.

    const waitFor = (entry: Entry<Item, Result, E>) =>
      Effect.async<Result, E>((resume) => {
        entry.onResult = resume
        add(entry)
      })

    const flushAlone = (item: Item): Effect.Effect<Result, E, R> =>
      Effect.flatMap(
        options.flush([item]),
        ([exit]) => exit ?? Effect.dieMessage("the flush returned fewer results than items")
      )
    const alone = options.alone ?? flushAlone

    /** Retries an item in its own fiber, so that a slow retry does not delay the lane. */
    const setApart = (error: E) => (entry: Entry<Item, Result, E>) => {
      apart.add(entry.number)
      const way = Effect.flatMap(Effect.exit(alone(entry.item, error)), (exit) =>
        Effect.sync(() => {
          apart.delete(entry.number)
          report(entry, exit)
          complete()
        })
      )
      return Effect.forkIn(Effect.uninterruptible(way), scope)
    }

    /** Calls back when the items submitted in this turn are gathered and their flush has begun. */
    const afterGathering = (call: () => void, turns = maxTurns) => {
      if (turns === 0) call()
      else options.gather?.(() => afterGathering(call, turns - 1))
    }

    /**
     * Reports a large batch in two halves if no other flush is in progress. Submitters often submit their next item when
     * they get a result. All of them at once would form a single batch again, and this process would be idle during its
     * flush. With two halves, it prepares one while the server stores the other.
     */
    const reportFlushed = (
      batch: ReadonlyArray<Entry<Item, Result, E>>,
      exits: ReadonlyArray<Exit.Exit<Result, E>>
    ) => {
      const isAlone = flights.size === 1 && line.size() === 0 && (options.lanes ?? 1) > 1
      if (options.gather === undefined || !isAlone || batch.length < large) return reportAll(batch, exits)
      const half = batch.length >> 1
      const later = batch.slice(half)
      for (const { number } of later) apart.add(number)
      reportAll(batch.slice(0, half), exits)
      afterGathering(() => {
        for (const { number } of later) apart.delete(number)
        reportAll(later, exits.slice(half))
        complete()
      })
    }

    const flush = (batch: ReadonlyArray<Entry<Item, Result, E>>): Effect.Effect<void, never, R> =>
      Effect.matchCauseEffect(options.flush(batch.map(({ item }) => item)), {
        onSuccess: (exits) => {
          reportFlushed(batch, exits)
          return Effect.void
        },
        onFailure: (cause) => {
          const failure = Cause.failureOption(cause)
          const another = batch.length > 1 || options.alone !== undefined
          if (another && failure._tag === "Some" && options.isolate(failure.value)) {
            return Effect.forEach(batch, setApart(failure.value), { discard: true })
          }
          return Effect.sync(() =>
            reportAll(
              batch,
              batch.map(() => Exit.failCause(cause))
            )
          )
        }
      })

    const somethingWaits = Effect.async<void>((resume) => {
      if (isReady()) resume(Effect.void)
      else idle.push(() => resume(Effect.void))
    })

    const flushWaiting = Effect.suspend(() => {
      const batch = line.take()
      const first = batch[0]
      // All items were withdrawn.
      if (first === undefined) return Effect.sync(complete)
      const flight = { number: first.number, weight: batch.reduce((sum, { weight }) => sum + weight, 0) }
      flights.add(flight)
      options.onRoom?.()
      wake()
      const landed = Effect.sync(() => {
        flights.delete(flight)
        complete()
      })
      return Effect.zipRight(flush(batch), landed)
    })

    // Checks for empty and closes in one synchronous step; an item added in between would wait forever.
    const closeWhenEmpty = () => {
      closed = line.size() === 0
      return !closed
    }
    yield* Effect.addFinalizer(() =>
      Effect.whileLoop({ while: closeWhenEmpty, body: () => flushWaiting, step: () => {} })
    )
    // Uninterruptible: when the Scope closes, the batch in flight may already have reached the database.
    const lane = Effect.whileLoop({
      while: () => true,
      body: () => Effect.zipRight(somethingWaits, Effect.uninterruptible(flushWaiting)),
      step: () => {}
    })
    yield* Effect.replicateEffect(Effect.forkScoped(lane), options.lanes ?? 1)

    return {
      submitWithCallback: (item, onResult) => add(entryOf(item, onResult, undefined)),
      submit: (item) =>
        Effect.withFiberRuntime((fiber, { runtimeFlags }) =>
          waitFor(entryOf(item, ignore, RuntimeFlags.interruptible(runtimeFlags) ? fiber : undefined))
        ),
      offer: (item) => {
        if (closed || !line.hasRoom()) return false
        add(entryOf(item, ignore, undefined))
        return true
      },
      drained: Effect.async<void>((resume) => {
        forDrained.push({ number: numbered, tell: () => resume(Effect.void) })
        complete()
      }),
      size: line.size
    }
  })
