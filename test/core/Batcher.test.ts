import { describe, expect, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, FiberStatus, Random, Scheduler, Scope } from "effect"
import * as Batcher from "../../src/core/Batcher.js"

interface Options {
  readonly maxWeight?: number
  readonly capacity?: number
  readonly weight?: (item: string) => number
  readonly lanes?: number
  readonly gather?: (turnEnded: () => void) => void
}

/** A batcher whose flushes start at once and end when the test says so; the item "bad" fails the whole flush. */
const held = (options: Options = {}) =>
  Effect.gen(function* () {
    const batches: Array<ReadonlyArray<string>> = []
    const gates: Array<Deferred.Deferred<void>> = []
    const batcher = yield* Batcher.make<string, string, string, never>({
      maxWeight: 100,
      capacity: 100,
      ...options,
      isolate: (error) => error === "bad",
      flush: (items) =>
        Effect.gen(function* () {
          const gate = yield* Deferred.make<void>()
          batches.push(items)
          gates.push(gate)
          yield* Deferred.await(gate)
          if (items.includes("bad")) return yield* Effect.fail("bad")
          if (items.includes("down")) return yield* Effect.fail("down")
          return items.map((item) => Exit.succeed(`${item}!`))
        })
    })
    const open = (flush: number) =>
      Effect.suspend(() => {
        const gate = gates[flush]
        return gate === undefined ? Effect.die(`no flush ${flush} has begun`) : Deferred.succeed(gate, undefined)
      })
    return { batcher, batches, open }
  })

/** Lets every runnable fiber run until it blocks. */
const quiet = Effect.yieldNow().pipe(Effect.repeatN(20))

/** Turns of the event loop that end when the test says so. */
const eventLoop = () => {
  const turns: Array<() => void> = []
  const endTurn = Effect.zipRight(
    Effect.sync(() => {
      for (const ended of turns.splice(0)) ended()
    }),
    quiet
  )
  return { turns, endTurn }
}

const submitted = (batcher: Batcher.Batcher<string, string, string>, ...items: ReadonlyArray<string>) =>
  Effect.zipLeft(
    Effect.forEach(items, (item) => Effect.fork(batcher.submit(item))),
    quiet
  )

describe("Batcher", () => {
  it.scoped("flushes a lone item immediately", () =>
    Effect.gen(function* () {
      const { batcher, batches, open } = yield* held()
      const fibers = yield* submitted(batcher, "a")
      expect(batches).toEqual([["a"]])
      yield* open(0)
      expect(yield* Fiber.joinAll(fibers)).toEqual(["a!"])
    })
  )

  it.scoped(
    "collects the items that arrive during a flush into the next one, and returns each item its own result",
    () =>
      Effect.gen(function* () {
        const { batcher, batches, open } = yield* held()
        const first = yield* submitted(batcher, "a")
        const rest = yield* submitted(batcher, "b", "c", "d")
        expect(batches).toEqual([["a"]])
        yield* open(0)
        yield* quiet
        expect(batches).toEqual([["a"], ["b", "c", "d"]])
        yield* open(1)
        expect(yield* Fiber.joinAll([...first, ...rest])).toEqual(["a!", "b!", "c!", "d!"])
      })
  )

  it.scoped("opens a second lane only when as many items wait as are being flushed", () =>
    Effect.gen(function* () {
      const { batcher, batches, open } = yield* held({ lanes: 2 })
      const fibers = yield* submitted(batcher, "a")
      fibers.push(...(yield* submitted(batcher, "b")))
      expect(batches).toEqual([["a"], ["b"]])
      fibers.push(...(yield* submitted(batcher, "c", "d")))
      expect(batches).toHaveLength(2)
      yield* Effect.zipLeft(open(1), quiet)
      expect(batches).toEqual([["a"], ["b"], ["c", "d"]])
      fibers.push(...(yield* submitted(batcher, "e", "f")))
      yield* Effect.zipLeft(open(0), quiet)
      expect(batches).toEqual([["a"], ["b"], ["c", "d"], ["e", "f"]])
      yield* Effect.all([open(2), open(3)])
      expect(yield* Fiber.joinAll(fibers)).toEqual(["a!", "b!", "c!", "d!", "e!", "f!"])
      yield* batcher.drained
    })
  )

  it.scoped("collects the items of several turns of the event loop while each brings more, four at most", () =>
    Effect.gen(function* () {
      const { endTurn, turns } = eventLoop()
      const { batcher, batches, open } = yield* held({ gather: (ended) => turns.push(ended) })
      const fibers = [...(yield* submitted(batcher, "a"))]
      expect(batches).toEqual([])
      yield* endTurn
      expect(batches).toEqual([["a"]])
      fibers.push(...(yield* submitted(batcher, "b", "c")))
      yield* endTurn
      // A lane that becomes free waits for the rest, too.
      yield* Effect.zipLeft(open(0), quiet)
      for (const item of ["d", "e", "f"]) {
        expect(batches).toHaveLength(1)
        fibers.push(...(yield* submitted(batcher, item)))
        yield* endTurn
      }
      expect(batches).toEqual([["a"], ["b", "c", "d", "e", "f"]])
      expect(turns).toEqual([])
      yield* open(1)
      expect(yield* Fiber.joinAll(fibers)).toHaveLength(6)
    })
  )

  it.scoped("reports a large batch in halves, so that the next items form two batches", () =>
    Effect.gen(function* () {
      const { endTurn, turns } = eventLoop()
      const { batcher, batches, open } = yield* held({ lanes: 2, gather: (ended) => turns.push(ended) })
      const many = Array.from({ length: 64 }, (_, index) => `${index}`)
      // Each submitter submits its next item as soon as it has its result.
      const twice = (item: string) => Effect.zipRight(batcher.submit(item), batcher.submit(`next ${item}`))
      const submitters = yield* Effect.forEach(many, (item) => Effect.fork(twice(item)))
      yield* quiet
      // Enough items for a flush, so no further turn is awaited.
      yield* endTurn
      expect(batches).toEqual([many])
      let drained = false
      const drainer = yield* Effect.fork(Effect.andThen(batcher.drained, () => (drained = true)))
      yield* Effect.zipLeft(open(0), quiet)
      yield* endTurn
      yield* endTurn
      expect(batches.slice(1)).toEqual([many.slice(0, 32).map((item) => `next ${item}`)])
      // The results of the second half are not reported yet.
      expect(drained).toBe(false)
      yield* endTurn
      yield* endTurn
      expect(drained).toBe(true)
      yield* endTurn
      yield* endTurn
      expect(batches.slice(2)).toEqual([many.slice(32).map((item) => `next ${item}`)])
      yield* Effect.zipLeft(open(1), quiet)
      yield* Effect.zipLeft(open(2), quiet)
      yield* Fiber.join(drainer)
      expect(yield* Fiber.joinAll(submitters)).toEqual(many.map((item) => `next ${item}!`))
      expect(batcher.size()).toBe(0)
    })
  )

  it.scoped("calls back submitters without a fiber", () =>
    Effect.gen(function* () {
      const { batcher, batches, open } = yield* held()
      const heard: Array<string> = []
      const hand = (item: string) =>
        batcher.submitWithCallback(item, (exit) => heard.push(`${item} ${Exit.getOrElse(exit, () => "no")}`))
      hand("a")
      yield* quiet
      hand("b")
      hand("c")
      yield* Effect.zipLeft(open(0), quiet)
      expect(batches).toEqual([["a"], ["b", "c"]])
      yield* Effect.zipLeft(open(1), quiet)
      expect(heard).toEqual(["a a!", "b b!", "c c!"])
    })
  )

  it.scoped("fills a flush up to its weight in order, and flushes a heavier item alone", () =>
    Effect.gen(function* () {
      const { batcher, batches, open } = yield* held({ maxWeight: 4, weight: (item) => item.length })
      yield* submitted(batcher, "a")
      yield* submitted(batcher, "bb", "cc", "d", "eeeeee", "f")
      for (const flush of [0, 1, 2, 3]) yield* Effect.zipLeft(open(flush), quiet)
      expect(batches).toEqual([["a"], ["bb", "cc"], ["d"], ["eeeeee"], ["f"]])
      yield* open(4)
    })
  )

  it.scoped("does not fail the neighbours of a bad item", () =>
    Effect.gen(function* () {
      const { batcher, batches, open } = yield* held()
      const fibers = yield* submitted(batcher, "a", "bad", "c")
      for (const flush of [0, 1, 2, 3]) yield* Effect.zipLeft(open(flush), quiet)
      expect(batches).toEqual([["a", "bad", "c"], ["a"], ["bad"], ["c"]])
      expect(yield* Effect.forEach(fibers, Fiber.await)).toEqual([
        Exit.succeed("a!"),
        Exit.fail("bad"),
        Exit.succeed("c!")
      ])
    })
  )

  it.scoped("fails the whole flush when no single item is to blame, and continues with the next", () =>
    Effect.gen(function* () {
      const { batcher, batches, open } = yield* held()
      const fibers = yield* submitted(batcher, "a", "down")
      yield* Effect.zipLeft(open(0), quiet)
      expect(yield* Effect.forEach(fibers, Fiber.await)).toEqual([Exit.fail("down"), Exit.fail("down")])
      const next = yield* submitted(batcher, "b")
      yield* open(1)
      expect(yield* Fiber.joinAll(next)).toEqual(["b!"])
      expect(batches).toHaveLength(2)
    })
  )

  it.scoped("reports a broken flush to every submitter that got no result", () =>
    Effect.gen(function* () {
      const batcher = yield* Batcher.make<string, string, never, never>({
        maxWeight: 10,
        capacity: 10,
        isolate: () => false,
        flush: (items) => Effect.succeed(items.slice(1).map((item) => Exit.succeed(item)))
      })
      const exits = yield* Effect.all([Effect.exit(batcher.submit("a")), Effect.exit(batcher.submit("b"))], {
        concurrency: 2
      })
      expect(exits[0]).toEqual(Exit.succeed("b"))
      expect(Exit.isFailure(exits[1])).toBe(true)
    })
  )

  it.scoped("makes submitters wait while it is full, and refuses offers", () =>
    Effect.gen(function* () {
      const { batcher, batches, open } = yield* held({ capacity: 2 })
      yield* submitted(batcher, "a")
      const inside = yield* submitted(batcher, "b", "c")
      expect(batcher.offer("x")).toBe(false)
      const outside = yield* submitted(batcher, "d", "e", "f")
      expect(batcher.size()).toBe(2)
      yield* Effect.zipLeft(open(0), quiet)
      expect(batches).toEqual([["a"], ["b", "c"]])
      expect(batcher.size()).toBe(2)
      for (const flush of [1, 2, 3]) yield* Effect.zipLeft(open(flush), quiet)
      expect(batches).toEqual([["a"], ["b", "c"], ["d", "e"], ["f"]])
      expect(yield* Fiber.joinAll([...inside, ...outside])).toEqual(["b!", "c!", "d!", "e!", "f!"])
      expect(batcher.offer("x")).toBe(true)
      yield* Effect.zipLeft(
        quiet,
        Effect.suspend(() => open(4))
      )
    })
  )

  it.scoped("withdraws an item whose submitter is interrupted before the flush began, and frees its room", () =>
    Effect.gen(function* () {
      const { batcher, batches, open } = yield* held({ capacity: 2 })
      yield* submitted(batcher, "a")
      const waiting = yield* submitted(batcher, "b", "c")
      const outside = yield* submitted(batcher, "d", "e")
      yield* Fiber.interruptAll([...waiting, ...outside.slice(0, 1)])
      yield* Effect.zipLeft(open(0), quiet)
      expect(batches).toEqual([["a"], ["e"]])
      expect(batcher.offer("f")).toBe(true)
      yield* Effect.zipLeft(open(1), quiet)
      expect(batches).toEqual([["a"], ["e"], ["f"]])
      expect(yield* Fiber.join(outside[1] ?? Fiber.never)).toBe("e!")
      yield* open(2)
    })
  )

  it.scoped("flushes an item whose submitter cannot be interrupted", () =>
    Effect.gen(function* () {
      const { batcher, batches, open } = yield* held()
      yield* submitted(batcher, "a")
      const waiting = yield* Effect.fork(Effect.uninterruptible(batcher.submit("b")))
      yield* Effect.zipRight(quiet, Fiber.interruptFork(waiting))
      yield* Effect.zipLeft(open(0), quiet)
      expect(batches).toEqual([["a"], ["b"]])
      yield* Effect.zipLeft(open(1), quiet)
      expect(Exit.isInterrupted(yield* Fiber.await(waiting))).toBe(true)
    })
  )

  it.scoped("flushes nothing when every item was withdrawn", () =>
    Effect.gen(function* () {
      // The test schedules the flushing fiber, so the item is withdrawn before the fiber reads it.
      const scheduler = new Scheduler.ControlledScheduler()
      const { batcher, batches } = yield* Effect.withScheduler(held({ capacity: 1 }), scheduler)
      scheduler.step()
      const fibers = yield* submitted(batcher, "a")
      expect(batcher.size()).toBe(1)
      yield* Fiber.interruptAll(fibers)
      scheduler.step()
      expect([batches, batcher.size()]).toEqual([[], 0])
      yield* batcher.drained
      scheduler.deferred = true
    })
  )

  it.scoped("finishes a running flush even if its submitter is gone", () =>
    Effect.gen(function* () {
      const { batcher, batches, open } = yield* held()
      const fibers = yield* submitted(batcher, "a")
      yield* Fiber.interruptAll(fibers)
      yield* submitted(batcher, "b")
      expect(batches).toEqual([["a"]])
      yield* Effect.zipLeft(open(0), quiet)
      expect(batches).toEqual([["a"], ["b"]])
      yield* open(1)
    })
  )

  it.scoped("is drained once every item submitted before the drain is flushed, regardless of later items", () =>
    Effect.gen(function* () {
      const { batcher, open } = yield* held()
      yield* batcher.drained
      batcher.offer("a")
      yield* quiet
      batcher.offer("b")
      const drained = yield* Effect.fork(batcher.drained)
      yield* quiet
      yield* Effect.zipLeft(open(0), quiet)
      batcher.offer("c")
      expect((yield* Fiber.status(drained))._tag).toBe("Suspended")
      yield* Effect.zipLeft(open(1), quiet)
      expect(FiberStatus.isDone(yield* Fiber.status(drained))).toBe(true)
      yield* open(2)
    })
  )

  it.effect("flushes waiting items when its Scope closes, and accepts none afterwards", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const { batcher, batches, open } = yield* Scope.extend(held({ capacity: 2 }), scope)
      const fibers = yield* submitted(batcher, "a")
      const rest = yield* submitted(batcher, "b", "c", "d")
      const closing = yield* Effect.fork(Scope.close(scope, Exit.void))
      yield* quiet
      for (const flush of [0, 1, 2]) yield* Effect.zipLeft(open(flush), quiet)
      yield* Fiber.join(closing)
      expect(batches).toEqual([["a"], ["b", "c"], ["d"]])
      expect(yield* Fiber.joinAll([...fibers, ...rest])).toEqual(["a!", "b!", "c!", "d!"])
      expect(batcher.offer("e")).toBe(false)
      expect(Exit.isInterrupted(yield* Effect.exit(batcher.submit("e")))).toBe(true)
    })
  )

  it.effect("neither loses nor duplicates an item under any interleaving", () =>
    Effect.forEach(
      Array.from({ length: 40 }, (_, seed) => seed),
      (seed) =>
        Effect.gen(function* () {
          const flushed: Array<number> = []
          const pause = Effect.flatMap(Random.nextIntBetween(0, 6), (turns) => Effect.repeatN(Effect.yieldNow(), turns))
          const answers = yield* Effect.scoped(
            Effect.gen(function* () {
              const batcher = yield* Batcher.make<number, number, string, never>({
                maxWeight: 7,
                capacity: 11,
                isolate: () => true,
                flush: (items) =>
                  Effect.gen(function* () {
                    yield* pause
                    if (items.length > 1 && (yield* Random.nextIntBetween(0, 4)) === 0)
                      return yield* Effect.fail("again")
                    flushed.push(...items)
                    return items.map((item) => Exit.succeed(item))
                  })
              })
              const one = (item: number) =>
                Effect.gen(function* () {
                  yield* pause
                  const fiber = yield* Effect.fork(batcher.submit(item))
                  yield* pause
                  const impatient = (yield* Random.nextIntBetween(0, 3)) === 0
                  return { item, exit: yield* impatient ? Fiber.interrupt(fiber) : Fiber.await(fiber) }
                })
              return yield* Effect.forEach(
                Array.from({ length: 60 }, (_, item) => item),
                one,
                { concurrency: "unbounded" }
              )
            })
          )
          const counted = new Set(flushed)
          expect(counted.size).toBe(flushed.length)
          for (const { exit, item } of answers) {
            if (Exit.isSuccess(exit)) expect([exit.value, counted.has(item)]).toEqual([item, true])
            else expect(Exit.isInterrupted(exit)).toBe(true)
          }
        }).pipe(Effect.withRandom(Random.make(seed)))
    )
  )
})
