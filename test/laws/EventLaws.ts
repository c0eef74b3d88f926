import { expect } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { type EventDetails, jobIdOf, type NewSubscription } from "../../src/queue/events/Events.js"
import { ends, type Law, type Line } from "./Line.js"

const eventOf = (line: Line) => `${line.name}.paid`

/** Declares subscribers of the event, whose jobs are in the queue of the law. */
const subscribe = (line: Line, names: ReadonlyArray<string>, more: Partial<NewSubscription> = {}) =>
  Effect.gen(function* () {
    const kinds = names.map((name) => `${line.name}.${name}`)
    yield* line.kinds.register(
      kinds.map((name) => ({ name, queue: line.name, version: 1, attempts: 3, onDead: undefined }))
    )
    yield* line.events.subscribe(
      kinds,
      kinds.map((kind) => ({ event: eventOf(line), kind, ...more }))
    )
    return kinds
  })

const publish = (line: Line, data: unknown, more: { readonly id?: string; readonly key?: string } = {}) =>
  Effect.flatMap(line.events.publish([{ name: eventOf(line), data, ...more }]), ([only]) =>
    only === undefined ? Effect.dieMessage("no result") : Effect.succeed(only)
  )

/** Other transactions of the server may be open when the subscriber appears. */
const filled = (line: Line) => Effect.repeat(line.events.fill, { while: ({ isOpen }) => isOpen })

const kindsOf = (line: Line) => Effect.map(line.all(), (jobs) => jobs.map(({ kind }) => kind).sort())

const statesOf = ({ jobs }: EventDetails) => jobs.map(({ state }) => state)

export const eventLaws = (law: Law): void => {
  law("makes one job for each subscriber, with the data and the event", (line) =>
    Effect.gen(function* () {
      const [first, second] = yield* subscribe(line, ["mail", "ship"])
      const { id, ...published } = yield* publish(line, { order: 7 }, { key: "customer" })
      expect(published).toEqual({ outcome: "published", jobs: 2 })
      const jobs = yield* line.all()
      expect(jobs.map(({ kind }) => kind).sort()).toEqual([first, second])
      expect(jobs.map((job) => job.id).sort()).toEqual([jobIdOf(id, first ?? ""), jobIdOf(id, second ?? "")].sort())
      const publishedAt = new Date(yield* line.now).toISOString()
      expect(jobs[0]).toMatchObject({
        payload: { order: 7 },
        key: "customer",
        attempts: 3,
        state: "pending",
        meta: { event: { id, name: eventOf(line), publishedAt, key: "customer" } }
      })
    })
  )

  law("without subscribers is stored", (line) =>
    Effect.gen(function* () {
      const { id, jobs } = yield* publish(line, null)
      expect(jobs).toBe(0)
      expect(yield* line.events.get(id)).toMatchObject({ name: eventOf(line), data: null, jobs: [] })
    })
  )

  law("with the same id is stored once, and its jobs too", (line) =>
    Effect.gen(function* () {
      yield* subscribe(line, ["mail", "ship"])
      const first = yield* publish(line, { order: 1 }, { id: "evt_1" })
      expect(yield* publish(line, { order: 1 }, { id: "evt_1" })).toEqual({
        id: first.id,
        outcome: "repeated",
        jobs: 0
      })
      const many = yield* Effect.all(
        Array.from({ length: 20 }, () => publish(line, { order: 2 }, { id: "evt_2" })),
        { concurrency: "unbounded" }
      )
      expect(many.filter(({ outcome }) => outcome === "published")).toHaveLength(1)
      expect(new Set(many.map(({ id }) => id)).size).toBe(1)
      expect(yield* line.all()).toHaveLength(4)
    })
  )

  law("is the first of those with its id in one call", (line) =>
    Effect.gen(function* () {
      const name = eventOf(line)
      const numbers = Array.from({ length: 40 }, (_, place) => (place * 7) % 40)
      const all = yield* line.events.publish(numbers.map((data) => ({ name, data, id: `${data % 20}` })))
      expect(all.map(({ outcome }) => outcome)).toEqual(
        numbers.map((data, place) =>
          numbers.slice(0, place).some((n) => n % 20 === data % 20) ? "repeated" : "published"
        )
      )
      const stored = yield* Effect.forEach(all, ({ id }) => line.events.get(id))
      expect(stored.map(({ data }) => data)).toEqual(
        numbers.map((data) => numbers.find((first) => first % 20 === data % 20))
      )
    })
  )

  law("of many callers at once reaches each subscriber once", (line) =>
    Effect.gen(function* () {
      yield* subscribe(line, ["a", "b", "c"])
      yield* Effect.all(
        Array.from({ length: 50 }, (_, order) => publish(line, { order })),
        { concurrency: "unbounded" }
      )
      const jobs = yield* line.all()
      expect(new Set(jobs.map(({ kind, payload }) => `${kind} ${JSON.stringify(payload)}`)).size).toBe(150)
      expect(jobs).toHaveLength(150)
    })
  )

  law("is rolled back with its jobs", (line) =>
    Effect.gen(function* () {
      yield* subscribe(line, ["mail"])
      const failing = Effect.zipRight(publish(line, { order: 1 }, { id: "evt" }), Effect.fail("no"))
      expect(yield* Effect.flip(line.transactions.run(failing))).toBe("no")
      expect(yield* line.all()).toEqual([])
      expect((yield* line.events.list({ limit: 10, name: eventOf(line) })).events).toEqual([])
      expect((yield* line.transactions.run(publish(line, { order: 1 }, { id: "evt" }))).outcome).toBe("published")
      expect(yield* line.all()).toHaveLength(1)
    })
  )

  law("that does not match a subscriber makes no job for it", (line) =>
    Effect.gen(function* () {
      yield* subscribe(line, ["german"], { match: { paths: [["address", "country"], ["vip"]], values: ["DE", true] } })
      expect((yield* publish(line, { address: { country: "FR" }, vip: true })).jobs).toBe(0)
      expect((yield* publish(line, { address: { country: "DE" } })).jobs).toBe(0)
      expect((yield* publish(line, { address: { country: "DE", city: "Bonn" }, vip: true })).jobs).toBe(1)
    })
  )

  law("is not delivered to subscribers that are gone", (line) =>
    Effect.gen(function* () {
      const [mail = "", ship = ""] = yield* subscribe(line, ["mail", "ship"])
      yield* line.events.unsubscribe(eventOf(line), ship)
      expect(yield* Effect.flip(line.events.unsubscribe(eventOf(line), ship))).toMatchObject({ _tag: "NotSubscribed" })
      yield* publish(line, {})
      expect(yield* kindsOf(line)).toEqual([mail])
      // A process that serves the kind no longer declares the subscription.
      yield* line.events.subscribe([mail], [])
      expect((yield* publish(line, {})).jobs).toBe(0)
      const own = (yield* line.events.subscriptions).filter(({ event }) => event === eventOf(line))
      expect(own).toEqual([])
    })
  )

  law("is delivered to a new subscriber that starts in the past, once", (line) =>
    Effect.gen(function* () {
      yield* publish(line, { order: "old" })
      yield* line.advance("2 hours")
      const recent = yield* publish(line, { order: "recent" })
      yield* line.advance("10 minutes")
      const [late = ""] = yield* subscribe(line, ["late"], { past: Duration.toMillis("1 hour") })
      yield* publish(line, { order: "new" })
      expect(yield* line.all()).toHaveLength(1)
      yield* filled(line)
      yield* subscribe(line, ["late"], { past: Duration.toMillis("10 hours") })
      yield* filled(line)
      const orders = (yield* line.all()).map(({ payload }) => (payload as { readonly order: string }).order)
      expect(orders.sort()).toEqual(["new", "recent"])
      expect((yield* line.events.get(recent.id)).jobs).toMatchObject([{ subscriber: late, state: "pending" }])
    })
  )

  law(
    "reaches a new subscriber that starts in the past once, even if its job is gone before earlier events are delivered",
    (line) =>
      Effect.gen(function* () {
        const early = yield* publish(line, { order: "early" })
        yield* subscribe(line, ["late"], { past: Duration.toMillis("1 hour") })
        yield* publish(line, { order: "new" })
        yield* line.end(yield* line.claimOne, ends.done)
        yield* line.advance("2 minutes")
        yield* line.queue.purge(Duration.minutes(1))
        expect(yield* line.all()).toEqual([])
        yield* filled(line)
        expect(yield* line.all()).toMatchObject([{ meta: { event: { id: early.id } } }])
      })
  )

  law("shows what happened to its jobs, and is replayed to one subscriber", (line) =>
    Effect.gen(function* () {
      const [mail = "", ship = ""] = yield* subscribe(line, ["mail", "ship"])
      const { id } = yield* publish(line, { order: 1 })
      const runs = yield* line.claim()
      for (const run of runs) yield* line.end(run, run.kind === mail ? ends.done : ends.dead)
      const job = yield* line.events.replay(id, ship)
      const shown = yield* line.events.get(id)
      expect(statesOf(shown)).toEqual(["done", "dead", "pending"])
      expect(shown.jobs[2]).toMatchObject({ subscriber: ship, id: job, state: "pending", replayed: true })
      expect(yield* line.search.get(job)).toMatchObject({ payload: { order: 1 }, meta: { event: { id } } })
      expect(yield* Effect.flip(line.events.replay(id, "nobody"))).toMatchObject({ _tag: "NotSubscribed" })
      const unknown = yield* line.newId
      expect(yield* Effect.flip(line.events.replay(unknown, ship))).toMatchObject({ _tag: "EventNotFound" })
      expect(yield* Effect.flip(line.events.get("x"))).toMatchObject({ _tag: "EventNotFound" })
    })
  )

  law("is listed by name, newest first, in pages", (line) =>
    Effect.gen(function* () {
      for (const order of [1, 2, 3]) yield* publish(line, { order }, { id: `evt_${order}` })
      const first = yield* line.events.list({ limit: 2, name: eventOf(line) })
      expect(first.events).toMatchObject([{ data: { order: 3 }, ownId: "evt_3" }, { data: { order: 2 } }])
      const rest = yield* line.events.list({ limit: 2, name: eventOf(line), cursor: first.next })
      expect(rest).toMatchObject({ events: [{ data: { order: 1 } }], next: undefined })
      expect(yield* Effect.flip(line.events.list({ limit: 1, cursor: "no" }))).toMatchObject({ _tag: "BadCursor" })
    })
  )

  law("is deleted after its retention, and its id is free again", (line) =>
    Effect.gen(function* () {
      const { id } = yield* publish(line, {}, { id: "evt" })
      yield* line.advance("2 hours")
      const recent = yield* publish(line, {})
      expect(yield* line.events.purge(Duration.hours(1))).toBeGreaterThanOrEqual(1)
      expect(yield* Effect.flip(line.events.get(id))).toMatchObject({ _tag: "EventNotFound" })
      yield* line.events.get(recent.id)
      expect((yield* publish(line, {}, { id: "evt" })).outcome).toBe("published")
    })
  )

  law("that is invalid is refused with the field", (line) =>
    Effect.gen(function* () {
      const fieldOf = (event: object) =>
        Effect.map(Effect.flip(line.events.publish([{ name: eventOf(line), data: {}, ...event }])), (error) => error)
      expect(yield* fieldOf({ name: "" })).toMatchObject({ _tag: "InvalidEvent", field: "name" })
      expect(yield* fieldOf({ data: undefined })).toMatchObject({ field: "data" })
      expect(yield* fieldOf({ data: "x".repeat(70_000) })).toMatchObject({
        field: "data",
        reason: expect.stringContaining("Publish the key")
      })
      expect(yield* fieldOf({ key: "" })).toMatchObject({ field: "key" })
      expect(yield* fieldOf({ id: "x".repeat(257) })).toMatchObject({ field: "id" })
    })
  )
}
