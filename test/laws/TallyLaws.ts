import { expect, layer as withLayer } from "@effect/vitest"
import { Clock, Effect, Layer, Option } from "effect"
import { type AttemptEnd, End, type NextStatus } from "../../src/queue/AttemptEnd.js"
import { type JobCounts, noCounts } from "../../src/telemetry/BucketCount.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import { Tally } from "../../src/telemetry/Tally.js"
import { type Clocks, ends, type Law, type Line, lawOf, type Ports } from "./Line.js"

/** Counts of a kind in the law's queue since the last call, over all minutes. */
const counted = (line: Line, kind = "greet", queue = line.name) =>
  Effect.map(Tally, (tally): JobCounts => {
    const minutes = tally.take().filter(({ grain }) => grain === 1)
    const found = minutes.filter((count) => count.queue === queue && count.kind === kind)
    return found.reduce(
      (sum, { cancelled, completed, dead, enqueued, rescued, retried, started }) => ({
        enqueued: sum.enqueued + enqueued,
        started: sum.started + started,
        completed: sum.completed + completed,
        retried: sum.retried + retried,
        dead: sum.dead + dead,
        cancelled: sum.cancelled + cancelled,
        rescued: sum.rescued + rescued
      }),
      noCounts
    )
  })

/** Advances a minute, so that later counts are separate. */
const nextMinute = (line: Line) => line.advance("1 minute")

const laws = (law: Law) => {
  law("every stored job is counted once, a deduplicated one is not", (line) =>
    Effect.gen(function* () {
      const id = yield* line.newId
      yield* line.queue.enqueue([line.job(), line.job({ kind: "other" }), line.job()])
      yield* line.put({ id })
      yield* line.queue.enqueue([line.job({ id })])
      const dedupe = { key: `${line.name}.key`, scope: "active" as const }
      yield* line.queue.enqueue([line.job({ dedupe })])
      yield* line.queue.enqueue([line.job({ dedupe }), line.job({ dedupe, kind: "other" })])
      yield* Effect.flip(line.queue.enqueue([line.job(), line.job({ priority: 1e9 })]))
      yield* Effect.flip(line.queue.enqueue([line.job(), line.job({ id, payload: "another" })]))
      const tally = yield* Tally
      const minutes = tally.take().filter(({ grain }) => grain === 1)
      const byKind = Object.fromEntries(minutes.map(({ enqueued, kind, queue }) => [`${queue} ${kind}`, enqueued]))
      expect(byKind).toMatchObject({ [`${line.name} greet`]: 4, [`${line.name} other`]: 1 })
    })
  )

  law("the follow-up of a death is counted as stored, and again only for another death", (line) =>
    Effect.gen(function* () {
      const onDead = { kind: "mourn", version: 1, queue: line.name, payload: {}, attempts: 1 }
      const held = yield* line.run({ onDead })
      yield* counted(line)
      yield* line.end(held, ends.dead)
      yield* line.end(held, ends.dead)
      expect(yield* counted(line, "mourn")).toEqual({ ...noCounts, enqueued: 1 })
    })
  )

  law("an end is notified of its job's new state, and not when the job had moved on", (line) =>
    Effect.gen(function* () {
      const heard: Array<NextStatus> = []
      const written = (became: NextStatus) => void heard.push(became)
      const finalize = (end: AttemptEnd) => line.queue.finalize([end])
      const done = yield* line.run()
      yield* finalize({ ...done, end: ends.done, written })
      yield* line.advance("1 second")
      yield* finalize({ ...done, end: ends.done, written })
      expect(heard).toEqual(["done"])
      const retried = yield* line.run()
      yield* finalize({ ...retried, end: ends.again(yield* line.now), written })
      yield* finalize({ ...(yield* line.claimOne), end: ends.dead, written })
      expect(heard).toEqual(["done", "pending", "dead"])
      const unwanted = yield* line.run()
      yield* line.jobAdmin.cancel(unwanted.id)
      yield* finalize({ ...unwanted, end: ends.again(yield* line.now), written })
      expect(heard).toEqual(["done", "pending", "dead", "dead"])
    })
  )

  law("a retry returns what the first attempt wrote, even if its answer was lost", (line) =>
    Effect.gen(function* () {
      const heard: Array<NextStatus> = []
      const written = (became: NextStatus) => void heard.push(became)
      const jobs = [yield* line.run(), yield* line.run(), yield* line.run(), yield* line.run()]
      const fates = [ends.done, ends.again((yield* line.now) + 60_000), ends.dead, End.Done({ result: "7" })]
      const whole = jobs.map(({ id, lease }, index) => ({ id, lease, end: fates[index] ?? ends.done, written }))
      // Each attempt is a new effect, as under Effect.suspend, Effect.fn or a span around the retried call.
      expect(yield* line.queue.finalize(whole)).toEqual([])
      for (const wait of ["10 seconds", "1 minute"] as const) {
        yield* line.advance(wait)
        heard.length = 0
        expect(yield* Effect.suspend(() => line.queue.finalize(whole))).toEqual([])
        expect(heard.toSorted()).toEqual(["dead", "done", "done", "pending"])
      }
      heard.length = 0
      expect((yield* line.queue.finalize([...whole])).toSorted()).toEqual(jobs.map(({ id }) => id).toSorted())
      expect(heard).toEqual([])
    })
  )

  law("a recovered job is counted as rescued, or as dead when it is not retried", (line) =>
    Effect.gen(function* () {
      yield* line.crash(yield* line.run())
      yield* counted(line)
      yield* nextMinute(line)
      for (let crash = 0; crash < 3; crash += 1) yield* line.crash(yield* line.claimOne)
      expect(yield* counted(line)).toEqual({ ...noCounts, rescued: 3 })
      yield* nextMinute(line)
      yield* line.crash(yield* line.claimOne)
      expect(yield* counted(line)).toEqual({ ...noCounts, dead: 1 })
      yield* nextMinute(line)
      const unwanted = yield* line.run()
      yield* line.jobAdmin.cancel(unwanted.id)
      yield* line.crash(unwanted)
      expect(yield* counted(line)).toMatchObject({ dead: 0, cancelled: 1, rescued: 0 })
    })
  )

  law("a cancelled waiting job is counted once, and not as dead", (line) =>
    Effect.gen(function* () {
      const id = yield* line.put()
      yield* line.jobAdmin.cancel(id)
      yield* line.jobAdmin.cancel(id)
      expect(yield* counted(line)).toEqual({ ...noCounts, enqueued: 1, cancelled: 1 })
      const { id: running } = yield* line.run()
      yield* nextMinute(line)
      yield* counted(line)
      yield* line.jobAdmin.cancel(running)
      expect(yield* counted(line)).toEqual(noCounts)
    })
  )

  law("jobs that an operation cancels are counted, those that run when they end", (line) =>
    Effect.gen(function* () {
      const running = yield* line.run()
      const ids = [running.id, ...(yield* Effect.replicateEffect(line.put(), 3))]
      yield* counted(line)
      yield* nextMinute(line)
      const { id } = yield* line.operations.begin({ action: "cancel", who: "law", target: { ids } })
      while (Option.getOrUndefined(yield* line.operations.step(id))?.status === "running");
      expect(yield* counted(line)).toEqual({ ...noCounts, cancelled: 3 })
    })
  )

  law("a count belongs to the minute in which it happened", (line) =>
    Effect.gen(function* () {
      const tally = yield* Tally
      tally.take()
      const start = Math.floor((yield* line.now) / 60_000) * 60_000 + 60_000
      yield* line.advance(start + 59_999 - (yield* Clock.currentTimeMillis))
      yield* line.put()
      yield* line.advance(1)
      yield* line.queue.enqueue([line.job(), line.job()])
      const ours = tally.take().filter(({ grain, queue }) => grain === 1 && queue === line.name)
      expect(ours.map((count) => [count.start, count.enqueued])).toEqual([
        [start, 1],
        [start + 60_000, 2]
      ])
    })
  )
}

/** Laws of the queue's counters. */
export const tallyLaws = (
  name: string,
  layer: Layer.Layer<Ports>,
  options: { readonly clock: "test" | "live" } & Clocks
): void => {
  const tally = Layer.effect(Tally, Tally.make).pipe(Layer.provide(Metrics.layer))
  const whole = Layer.merge(Layer.provide(layer, tally), tally)
  withLayer(whole, { excludeTestServices: options.clock === "live" })(name, (it) => laws(lawOf(it.effect, options)))
}
