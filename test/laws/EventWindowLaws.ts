import { expect } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { jobIdOf, type NewSubscription, type Window } from "../../src/queue/events/Events.js"
import { ends, type Law, type Line } from "./Line.js"

const eventOf = (line: Line) => `${line.name}.paid`
const kindOf = (line: Line) => `${line.name}.digest`

const tenSeconds: Window = { debounce: 10_000, max: 100, by: [["customer"]] }

/** Declares a subscriber with windows, whose jobs are in the queue of the law. */
const subscribe = (line: Line, window: Partial<Window> = {}, more: Partial<NewSubscription> = {}) =>
  Effect.gen(function* () {
    const kind = kindOf(line)
    yield* line.kinds.register([{ name: kind, queue: line.name, version: 2, attempts: 3, onDead: undefined }])
    yield* line.events.subscribe(
      [kind],
      [{ event: eventOf(line), kind, window: { ...tenSeconds, ...window }, ...more }]
    )
  })

const publish = (line: Line, data: object, more: { readonly id?: string; readonly key?: string } = {}) =>
  Effect.map(line.events.publish([{ name: eventOf(line), data, ...more }]), ([only]) => only?.id ?? "")

const numbers = (line: Line, from: number, to: number) =>
  Effect.forEach(
    Array.from({ length: to - from + 1 }, (_, place) => from + place),
    (n) => publish(line, { n })
  )

interface Numbered {
  readonly n: number
}

/** The numbers of the events in each job, jobs by their first number. */
const joined = (line: Line) =>
  Effect.map(line.all(), (jobs) =>
    jobs
      .map(({ payload }) => (payload as ReadonlyArray<Numbered>).map(({ n }) => n))
      .sort(([left = 0], [right = 0]) => left - right)
  )

/** Closes windows when none of the law's is open any more. */
const closed = (line: Line) => Effect.zipRight(line.advance("10 seconds"), line.events.closeWindows)

export const eventWindowLaws = (law: Law): void => {
  law("of a window make one job when none was published for a while, apart by a value", (line) =>
    Effect.gen(function* () {
      yield* subscribe(line)
      const first = yield* publish(line, { n: 1, customer: "a" })
      yield* publish(line, { n: 2, customer: "b" })
      yield* line.advance("6 seconds")
      const second = yield* publish(line, { n: 3, customer: "a" })
      yield* line.events.closeWindows
      expect(yield* joined(line)).toEqual([])
      yield* line.advance("4 seconds")
      yield* line.events.closeWindows
      expect(yield* joined(line)).toEqual([[2]])
      yield* line.advance("6 seconds")
      const publishedAt = (yield* line.now) - 10_000
      const { nextAt } = yield* line.events.closeWindows
      expect(nextAt).toBeGreaterThan(yield* line.now)
      const [job] = yield* line.claim(1)
      expect(yield* joined(line)).toEqual([[1, 3], [2]])
      expect(job).toMatchObject({ version: 2, payload: [{ n: 2, customer: "b" }] })
      const [whole] = (yield* line.all()).filter(({ payload }) => (payload as ReadonlyArray<Numbered>).length === 2)
      expect(whole).toMatchObject({
        kind: kindOf(line),
        attempts: 3,
        payload: [
          { n: 1, customer: "a" },
          { n: 3, customer: "a" }
        ],
        meta: {
          event: { name: eventOf(line) },
          events: [
            { id: first, publishedAt: new Date(publishedAt - 6_000).toISOString() },
            { id: second, publishedAt: new Date(publishedAt).toISOString() }
          ]
        }
      })
    })
  )

  law("close a window at once when it is full", (line) =>
    Effect.gen(function* () {
      yield* subscribe(line, { max: 3 })
      yield* numbers(line, 1, 7)
      yield* line.events.closeWindows
      expect(yield* joined(line)).toEqual([
        [1, 2, 3],
        [4, 5, 6]
      ])
      yield* numbers(line, 8, 8)
      yield* closed(line)
      expect(yield* joined(line)).toEqual([
        [1, 2, 3],
        [4, 5, 6],
        [7, 8]
      ])
    })
  )

  law("of different keys are in different jobs, which have the key", (line) =>
    Effect.gen(function* () {
      yield* subscribe(line)
      for (const [n, key] of ["x", "y", "x"].entries()) yield* publish(line, { n }, { key })
      yield* closed(line)
      expect(yield* joined(line)).toEqual([[0, 2], [1]])
      expect((yield* line.all()).map(({ key }) => key).sort()).toEqual(["x", "y"])
    })
  )

  law("are each in one window, however many publish and close at the same time", (line) =>
    Effect.gen(function* () {
      yield* subscribe(line, { max: 7 })
      const sent = Array.from({ length: 60 }, (_, n) => n)
      yield* Effect.forEach(
        sent,
        (n) =>
          Effect.gen(function* () {
            yield* publish(line, { n }, { id: `evt_${n}` })
            if (n % 6 === 5) yield* line.events.closeWindows
            else yield* publish(line, { n }, { id: `evt_${n}` })
          }),
        { concurrency: "unbounded" }
      )
      yield* line.advance("10 seconds")
      yield* Effect.all(
        Array.from({ length: 4 }, () => line.events.closeWindows),
        { concurrency: "unbounded" }
      )
      const all = (yield* joined(line)).flat()
      expect(all.sort((left, right) => left - right)).toEqual(sent)
    })
  )

  law("of a running or failed job stay the same, and later ones open the next window", (line) =>
    Effect.gen(function* () {
      yield* subscribe(line)
      yield* numbers(line, 1, 2)
      yield* closed(line)
      const [run] = yield* line.claim()
      if (run === undefined) return yield* Effect.dieMessage("no job")
      yield* numbers(line, 3, 3)
      yield* line.end(run, ends.again(yield* line.now))
      yield* closed(line)
      yield* line.advance("1 hour")
      const again = yield* line.claim()
      expect(again.map(({ attempt, payload }) => ({ attempt, payload })).sort((a, b) => b.attempt - a.attempt)).toEqual(
        [
          { attempt: 2, payload: [{ n: 1 }, { n: 2 }] },
          { attempt: 1, payload: [{ n: 3 }] }
        ]
      )
    })
  )

  law("of an open window are kept, although their retention has passed", (line) =>
    Effect.gen(function* () {
      yield* subscribe(line)
      const [id = ""] = yield* numbers(line, 1, 1)
      yield* line.advance("2 hours")
      yield* line.events.purge(Duration.hours(1))
      expect((yield* line.events.get(id)).jobs).toMatchObject([{ state: undefined, isOpen: true }])
      yield* line.events.closeWindows
      expect(yield* joined(line)).toEqual([[1]])
      yield* line.events.purge(Duration.hours(1))
      expect(yield* Effect.flip(line.events.get(id))).toMatchObject({ _tag: "EventNotFound" })
    })
  )

  law("are rolled back from their window, and do not enter it if they do not match", (line) =>
    Effect.gen(function* () {
      yield* subscribe(line, {}, { match: { paths: [["country"]], values: ["DE"] } })
      const failing = Effect.zipRight(publish(line, { n: 1, country: "DE" }), Effect.fail("no"))
      expect(yield* Effect.flip(line.transactions.run(failing))).toBe("no")
      yield* publish(line, { n: 2, country: "FR" })
      yield* line.transactions.run(publish(line, { n: 3, country: "DE" }))
      yield* closed(line)
      expect(yield* joined(line)).toEqual([[3]])
    })
  )

  law("show their job and how many it has, and are replayed alone", (line) =>
    Effect.gen(function* () {
      yield* subscribe(line)
      const [id = ""] = yield* numbers(line, 1, 3)
      const subscriber = kindOf(line)
      expect((yield* line.events.get(id)).jobs).toEqual([
        { subscriber, id: jobIdOf(id, subscriber), state: undefined, replayed: false, isOpen: true, events: 0 }
      ])
      yield* closed(line)
      const [job] = yield* line.all()
      const again = yield* line.events.replay(id, subscriber)
      expect((yield* line.events.get(id)).jobs).toEqual([
        { subscriber, id: job?.id, state: "pending", replayed: false, isOpen: false, events: 3 },
        { subscriber, id: again, state: "pending", replayed: true, isOpen: false, events: 1 }
      ])
      expect(yield* line.search.get(again)).toMatchObject({
        version: 2,
        payload: [{ n: 1 }],
        meta: { event: { name: eventOf(line) }, events: [{ id }] }
      })
    })
  )

  law("of the past are joined, and those of a subscriber that is gone are not lost", (line) =>
    Effect.gen(function* () {
      yield* numbers(line, 1, 3)
      yield* line.advance("1 minute")
      yield* subscribe(line, { max: 2 }, { past: Duration.toMillis("1 hour") })
      yield* Effect.repeat(line.events.fill, { while: ({ isOpen }) => isOpen })
      yield* line.events.closeWindows
      expect(yield* joined(line)).toEqual([[1, 2], [3]])
      yield* numbers(line, 4, 5)
      yield* line.events.unsubscribe(eventOf(line), kindOf(line))
      yield* line.events.closeWindows
      expect(yield* joined(line)).toEqual([[1, 2], [3], [4, 5]])
    })
  )

  law("that are too large for one job make several", (line) =>
    Effect.gen(function* () {
      yield* subscribe(line)
      const text = "x".repeat(60_000)
      yield* Effect.forEach([...Array(20).keys()], (n) => publish(line, { n, text }))
      yield* closed(line)
      const jobs = yield* line.all()
      expect(jobs.length).toBe(2)
      for (const { payload } of jobs) expect(JSON.stringify(payload).length).toBeLessThan(1_048_576)
      expect((yield* joined(line)).flat()).toEqual([...Array(20).keys()])
    })
  )

  law("are one for equal objects, whatever the order of their keys", (line) =>
    Effect.gen(function* () {
      yield* subscribe(line)
      yield* publish(line, { n: 1, customer: { id: 7, name: "Ada" } })
      yield* publish(line, { n: 2, customer: { name: "Ada", id: 7 } })
      yield* publish(line, { n: 3, customer: { name: "Grace", id: 7 } })
      yield* closed(line)
      expect(yield* joined(line)).toEqual([[1, 2], [3]])
    })
  )

  law("listed as subscriptions say how they are joined", (line) =>
    Effect.gen(function* () {
      yield* subscribe(line)
      const own = () =>
        Effect.map(line.events.subscriptions, (all) => all.filter(({ event }) => event === eventOf(line)))
      expect(yield* own()).toMatchObject([{ window: tenSeconds }])
      yield* line.events.subscribe([kindOf(line)], [{ event: eventOf(line), kind: kindOf(line) }])
      expect(yield* own()).toMatchObject([{ window: undefined }])
    })
  )
}
