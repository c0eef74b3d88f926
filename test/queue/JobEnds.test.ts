import type { Socket } from "node:net"
import { expect, layer } from "@effect/vitest"
import { Context, Deferred, Duration, Effect, Exit, Fiber, Layer, Option, Redacted, Schedule, Scope } from "effect"
import pg from "pg"
import { vi } from "vitest"
import { type JobId, makeGenerator } from "../../src/core/Ids.js"
import { Database } from "../../src/database/Database.js"
import { DatabaseConfig } from "../../src/database/DatabaseConfig.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import { Hints } from "../../src/database/Hints.js"
import * as Listener from "../../src/database/Listener.js"
import { End } from "../../src/queue/AttemptEnd.js"
import { JobAdmin } from "../../src/queue/JobAdmin.js"
import { type ClaimedJob, Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import { EndPolling } from "../../src/queue/search/JobWaits.js"
import * as LosingProxy from "../support/LosingProxy.js"
import * as TestDatabase from "../support/TestDatabase.js"

const rarely = Duration.toMillis("1 hour")

const untilConnected = (hints: typeof Hints.Service, isConnected: boolean) =>
  Effect.repeat(hints.connected, {
    until: (connected) => connected === isConnected,
    schedule: Schedule.spaced("2 millis")
  })

/** Another process on the test's database. */
const process = (
  polling: { readonly first: number; readonly most: number; readonly maxWithoutNotifications: number },
  listener: Layer.Layer<Listener.Listener, never, DatabaseUrl | DatabaseConfig> = Listener.layer
) =>
  Effect.gen(function* () {
    const built = yield* Layer.build(
      QueuePg.layer.pipe(
        Layer.provide(listener),
        Layer.provide(Layer.fresh(Database.layer)),
        Layer.provide(Layer.succeed(EndPolling, polling)),
        Layer.orDie
      )
    )
    const hints = Context.get(built, Hints)
    if (listener !== Listener.layerPolling) yield* untilConnected(hints, true)
    return {
      queue: Context.get(built, Queue),
      search: Context.get(built, JobSearch),
      admin: Context.get(built, JobAdmin),
      hints
    }
  })

/** Never polls within a test. */
const byNotification = { first: rarely, most: rarely, maxWithoutNotifications: rarely }

/** Counts the statements of an effect, and those that send a notification. */
const statementsOf = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    const query = vi.spyOn(pg.Query.prototype as pg.Query & { readonly submit: () => void }, "submit")
    return Effect.map(effect, (value) => {
      const texts = query.mock.contexts.map((sent) => (sent as { readonly text: string }).text)
      expect(texts.length).toBeGreaterThan(0)
      return { value, all: texts.length, notifications: texts.filter((text) => text.includes("pg_notify")).length }
    }).pipe(Effect.ensuring(Effect.sync(() => query.mockRestore())))
  })

/** Counts the statements that read jobs whose ends callers await. */
const readsOfEnds = Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => vi.spyOn(pg.Query.prototype as pg.Query & { readonly submit: () => void }, "submit")),
    (query) => Effect.sync(() => query.mockRestore())
  ),
  (query) =>
    Effect.sync(
      () => query.mock.contexts.filter((sent) => (sent as { readonly text: string }).text.includes("as awaited")).length
    )
)

const stored = (queue: typeof Queue.Service, name: string, count: number) =>
  Effect.map(
    queue.enqueue(
      Array.from({ length: count }, () => ({ kind: "test", version: 1, queue: name, payload: {}, attempts: 5 }))
    ),
    (all) => all.map(({ id }) => id)
  )

const claimed = (queue: typeof Queue.Service, name: string, count: number) =>
  Effect.gen(function* () {
    const pod = (yield* makeGenerator).pod(0)
    const runs: Array<ClaimedJob> = []
    while (runs.length < count) runs.push(...(yield* queue.claim({ queue: name, pod, limit: count - runs.length })))
    return runs
  })

const doneWith = (run: ClaimedJob, result: unknown) => ({
  id: run.id,
  lease: run.lease,
  queue: run.queue,
  key: run.key,
  end: End.Done({ result: JSON.stringify(result) })
})

/** Completes when a process has received the announcements of this many jobs. */
const announcedIn = ({ hints }: { readonly hints: typeof Hints.Service }, count: number) =>
  Effect.gen(function* () {
    const all = yield* Deferred.make<void>()
    const ids = new Set<string>()
    yield* hints.subscribe("awaited", (subject) => {
      const [, ...announced] = subject?.split(",") ?? []
      for (const id of announced) ids.add(id)
      if (ids.size >= count) Deferred.unsafeDone(all, Effect.void)
    })
    return Deferred.await(all)
  })

layer(TestDatabase.layer, { excludeTestServices: true })("callers that wait for jobs of another process", (it) => {
  it.scoped("are notified of the ends, with a few statements for a thousand of them", () =>
    Effect.gen(function* () {
      const [caller, worker] = [yield* process(byNotification), yield* process(byNotification)]
      const ids = yield* stored(caller.queue, "many", 1_000)
      const runs = yield* claimed(worker.queue, "many", 1_000)
      const announced = yield* announcedIn(worker, 1_000)
      const waiting = yield* statementsOf(
        Effect.gen(function* () {
          const fibers = yield* Effect.forEach(ids, (id) => Effect.fork(caller.search.await(id)))
          yield* announced
          return fibers
        })
      )
      expect(waiting.all).toBeLessThan(30)
      const ended = yield* statementsOf(
        Effect.gen(function* () {
          for (let part = 0; part < 10; part += 1)
            yield* worker.queue.finalize(
              runs.slice(part * 100, (part + 1) * 100).map((run, index) => doneWith(run, index))
            )
          return yield* Effect.forEach(waiting.value, (fiber) => Fiber.join(fiber))
        })
      )
      expect(ended.value.every(({ state }) => state === "done")).toBe(true)
      expect(ended.all).toBeLessThan(100)
    })
  )

  it.scoped("cost the ends of other jobs no notification", () =>
    Effect.gen(function* () {
      const [caller, worker] = [yield* process(byNotification), yield* process(byNotification)]
      const [awaited] = yield* stored(caller.queue, "one", 1)
      if (awaited === undefined) return yield* Effect.dieMessage("one was stored")
      const announced = yield* announcedIn(worker, 1)
      const waiter = yield* Effect.fork(caller.search.await(awaited))
      yield* announced
      yield* stored(caller.queue, "others", 20)
      const others = yield* claimed(worker.queue, "others", 20)
      const unawaited = yield* statementsOf(worker.queue.finalize(others.map((run) => doneWith(run, 1))))
      expect(unawaited.notifications).toBe(0)
      const [run] = yield* claimed(worker.queue, "one", 1)
      if (run === undefined) return yield* Effect.dieMessage("one was stored")
      const ended = yield* statementsOf(
        Effect.zipRight(worker.queue.finalize([doneWith(run, "late")]), Fiber.join(waiter))
      )
      expect(ended.value).toMatchObject({ id: awaited, state: "done", result: "late" })
      expect(ended.notifications).toBe(1)
    })
  )

  it.scoped("need no notification of the ends of their own process, unless a caller elsewhere waits too", () =>
    Effect.gen(function* () {
      const [own, other] = [yield* process(byNotification), yield* process(byNotification)]
      const endOf = (name: string, isAwaitedElsewhere: boolean) =>
        Effect.gen(function* () {
          const [id] = yield* stored(own.queue, name, 1)
          const [run] = yield* claimed(own.queue, name, 1)
          if (id === undefined || run === undefined) return yield* Effect.dieMessage("one was stored")
          const announced = yield* announcedIn(other, 1)
          const waiters = [yield* Effect.fork(own.search.await(id))]
          yield* announced
          if (isAwaitedElsewhere) {
            const announcedHere = yield* announcedIn(own, 1)
            waiters.push(yield* Effect.fork(other.search.await(id)))
            yield* announcedHere
          }
          const joined = Effect.forEach(waiters, (waiter) => Fiber.join(waiter))
          const ended = yield* statementsOf(Effect.zipRight(own.queue.finalize([doneWith(run, name)]), joined))
          expect(ended.value).toEqual(waiters.map(() => expect.objectContaining({ id, result: name })))
          return ended.notifications
        })
      expect(yield* endOf("own", false)).toBe(0)
      expect(yield* endOf("both", true)).toBe(1)
    })
  )

  it.scoped("that need only the result of a job of their own process do not read it", () =>
    Effect.gen(function* () {
      const own = yield* process(byNotification)
      const [id] = yield* stored(own.queue, "end", 1)
      const [run] = yield* claimed(own.queue, "end", 1)
      if (id === undefined || run === undefined) return yield* Effect.dieMessage("one was stored")
      const reads = yield* readsOfEnds
      const waiter = yield* Effect.fork(own.search.awaitEnd(id))
      // Before and after the announcement.
      yield* Effect.repeat(reads, { until: (count) => count === 2, schedule: Schedule.spaced("2 millis") })
      yield* own.queue.finalize([{ ...doneWith(run, "here"), kind: run.kind }])
      expect(yield* Fiber.join(waiter)).toEqual({ kind: "test", state: "done", result: "here" })
      expect(yield* reads).toBe(2)
    })
  )

  it.scoped("learn of ends that they missed while their listening connection was cut, and are announced again", () =>
    Effect.gen(function* () {
      const url = yield* DatabaseUrl
      const forward = (client: Socket, server: Socket) => {
        client.pipe(server).pipe(client)
        client.on("close", () => server.destroy())
      }
      const open = Scope.make()
      const [first, second] = [yield* open, yield* open]
      const proxy = yield* Scope.extend(LosingProxy.listen(url, forward), first)
      const through = Layer.effect(
        DatabaseConfig,
        Effect.map(DatabaseConfig, (config) => ({ ...config, listenUrl: Option.some(proxy) }))
      )
      const caller = yield* process(byNotification, Layer.provide(Listener.layer, through))
      const worker = yield* process(byNotification)
      const ids = yield* stored(caller.queue, "cut", 2)
      const announced = yield* announcedIn(worker, 2)
      const [missed, later] = yield* Effect.forEach(ids, (id) => Effect.fork(caller.search.await(id)))
      const runs = yield* claimed(worker.queue, "cut", 2)
      const endOf = (id: JobId | undefined) => {
        const run = runs.find((each) => each.id === id)
        return run === undefined ? Effect.dieMessage("it was claimed") : worker.queue.finalize([doneWith(run, id)])
      }
      if (missed === undefined || later === undefined) return yield* Effect.dieMessage("two were stored")
      yield* announced

      yield* Scope.close(first, Exit.void)
      yield* untilConnected(caller.hints, false)
      const notified = yield* Deferred.make<string>()
      yield* worker.hints.subscribe("ended", (subject) => {
        if (subject !== undefined) Deferred.unsafeDone(notified, Effect.succeed(subject))
      })
      yield* endOf(ids[0])
      expect(yield* Deferred.await(notified)).toBe(ids[0])
      expect(yield* Fiber.poll(missed)).toEqual(Option.none())

      const again = yield* announcedIn(worker, 1)
      const port = Number(new URL(Redacted.value(proxy)).port)
      yield* Scope.extend(LosingProxy.listen(url, forward, { host: "127.0.0.1", port }), second)
      yield* Effect.addFinalizer(() => Scope.close(second, Exit.void))
      expect(yield* Fiber.join(missed)).toMatchObject({ id: ids[0], state: "done" })
      yield* again
      yield* endOf(ids[1])
      expect(yield* Fiber.join(later)).toMatchObject({ id: ids[1], state: "done" })
    })
  )

  it.scoped("of a row that cannot be read fail alone", () =>
    Effect.gen(function* () {
      const own = yield* process({ first: 20, most: 20, maxWithoutNotifications: 20 })
      const { sql } = yield* Database
      const ids = yield* stored(own.queue, "unreadable", 2)
      yield* sql`update nightshift.job set status = 'done', finished_at = 'epoch',
        history = case when id = ${ids[0] ?? ""} then '[{"attempt": "first"}]'::jsonb end where queue = 'unreadable'`
      const reads = yield* readsOfEnds
      const [bad, good] = yield* Effect.forEach(ids, (id) => Effect.fork(Effect.exit(own.search.await(id))))
      if (bad === undefined || good === undefined) return yield* Effect.dieMessage("two were stored")
      expect(Exit.isSuccess(yield* Fiber.join(good))).toBe(true)
      expect(yield* Fiber.join(bad)).toMatchObject({ _tag: "Failure", cause: { _tag: "Die" } })
      expect(yield* reads).toBeLessThan(10)
    })
  )

  it.scoped("share one query per poll without notifications, and learn of ends without a worker", () =>
    Effect.gen(function* () {
      const caller = yield* process({ first: 20, most: 20, maxWithoutNotifications: 20 }, Listener.layerPolling)
      const ids = yield* stored(caller.queue, "alone", 500)
      const begun = performance.now()
      const ended = yield* statementsOf(
        Effect.gen(function* () {
          const fibers = yield* Effect.forEach(ids, (id) => Effect.fork(caller.search.await(id)))
          yield* Effect.forEach(ids.slice(0, 5), (id) => caller.admin.cancel(id))
          const cancelled = yield* Effect.forEach(fibers.slice(0, 5), (fiber) => Fiber.join(fiber))
          yield* Fiber.interruptAll(fibers)
          return cancelled
        })
      )
      expect(ended.value.map(({ reason }) => reason)).toEqual(Array(5).fill("cancelled"))
      expect(ended.all).toBeLessThan(60 + (performance.now() - begun) / 10)
      const [missing] = [(yield* makeGenerator).job(0)]
      expect(yield* Effect.flip(caller.search.await(missing))).toMatchObject({ _tag: "JobNotFound", id: missing })
    })
  )
})
