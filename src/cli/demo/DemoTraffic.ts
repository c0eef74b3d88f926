import { Array as Arrays, Clock, Duration, Effect, Random, Schedule, type Scope } from "effect"
import type { EnqueueError } from "../../queue/Job.js"
import type { Queue } from "../../queue/Queue.js"
import * as Kinds from "./DemoKinds.js"

// Incoming traffic: independent flows with random intervals and a slowly varying rate.

export interface Pace {
  readonly rate: number
  readonly seed: number
}

/** One flow: runs `act` `first` times at the start, then `perSecond` times per second. */
export interface Flow<out E, out R> {
  readonly name: string
  readonly first: number
  readonly perSecond: number
  readonly act: Effect.Effect<unknown, E, R>
}

/** Varies the rate by a third up and down, with a period of three minutes. */
const tide = (millis: number) => 1 + Math.sin(millis / 28_650) / 3

/**
 * Runs a flow until the Scope closes. Each flow has its own random generator, so a seed reproduces it. Errors are
 * logged and do not stop the flow.
 */
export const keep = <E, R>(
  { act, first, name, perSecond }: Flow<E, R>,
  { rate, seed }: Pace
): Effect.Effect<void, never, R | Scope.Scope> => {
  const arrive = Effect.catchAll(act, (error) => Effect.logDebug(`failed to generate traffic for ${name}`, error))
  const gap = Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    return Duration.seconds(Math.min(-Math.log(1 - (yield* Random.next)) / (perSecond * rate * tide(now)), 60))
  })
  const arrivals = Schedule.addDelayEffect(Schedule.forever, () => gap)
  return Effect.replicateEffect(arrive, first, { discard: true }).pipe(
    Effect.zipRight(Effect.schedule(arrive, arrivals)),
    Effect.withRandom(Random.make(`${seed} ${name}`)),
    Effect.forkScoped,
    Effect.asVoid
  )
}

export const pick = <A>(from: readonly [A, ...ReadonlyArray<A>]): Effect.Effect<A> =>
  Effect.map(Random.nextIntBetween(0, from.length), (index) => from[index] ?? from[0])

const names = ["ada", "blaise", "grace", "edsger", "barbara", "donald", "frances", "tony", "radia", "alan"] as const
const titles = ["harvest", "aurora", "tideland", "kiln", "orchard", "lantern"] as const
const events = ["placed", "paid", "packed", "shipped", "delivered", "returned"] as const
const suppliers = ["northwind", "contoso", "tailspin", "fabrikam"] as const
const texts = ["Your parcel is near", "Back in stock", "Price drop", "Rate your order"] as const

/** Each of these cards fails in a different way. */
const badCards = ["0002", "0069", "0119", "0259", "0341"].map((end) => `400000000000${end}`)
const cards = ["4242424242424242", ...Arrays.replicate("5555555555554444", 23), ...badCards] as const

const order = Effect.map(Random.nextIntBetween(10_000, 99_999), (number) => `A-${number}`)
const sku = Effect.map(Random.nextIntBetween(100, 999), (number) => `SKU-${number}`)
const email = Effect.map(pick(names), (name) => `${name}@example.org`)
const cents = Random.nextIntBetween(500, 25_000)

const receipt = Effect.flatMap(Effect.all({ order, email }), Kinds.SendReceipt.enqueue)
const reminder = Effect.flatMap(Effect.all({ order, email, minutes: Random.nextIntBetween(5, 4_000) }), (drawn) =>
  Kinds.SendReminder.enqueue(drawn, { delay: Duration.minutes(drawn.minutes) })
)
const video = Effect.flatMap(
  Effect.all({ title: pick(titles), frames: Random.nextIntBetween(600, 9_000) }),
  Kinds.RenderVideo.enqueue
)
const charge = Effect.flatMap(Effect.all({ order, card: pick(cards), cents }), (drawn) =>
  Kinds.ChargeCard.enqueue(drawn, { dedupe: `charge:${drawn.order}` })
)
const stock = Effect.flatMap(Effect.all({ sku }), Kinds.SyncStock.enqueue)
const price = Effect.flatMap(Effect.all({ sku, cents }), Kinds.PublishPrice.enqueue)
const orderEvent = Effect.flatMap(Effect.all({ number: Random.nextIntBetween(1, 7), event: pick(events) }), (drawn) => {
  const order = `B-${drawn.number}`
  return Kinds.ApplyOrderEvent.enqueue({ order, event: drawn.event }, { key: order })
})
const burst = Effect.flatMap(Effect.all({ text: pick(texts), size: Random.nextIntBetween(10, 30) }), ({ size, text }) =>
  Kinds.NotifyDevice.enqueueMany(Arrays.makeBy(size, (index) => ({ device: `device-${index}`, text })))
)
// The queue has a maximum depth; jobs beyond it are rejected at enqueue.
const catalogue = Effect.flatMap(
  Effect.all({ supplier: pick(suppliers), rows: Random.nextIntBetween(100, 50_000) }),
  Kinds.ImportCatalogue.enqueue
)
const ledgers = Kinds.ExportLedger.enqueueMany(["2026-01", "2026-02", "2026-03"].map((month) => ({ month })))

/** About 15 jobs per second at a rate of 1. The initial jobs fill every page of Mission Control. */
const flows = [
  { name: "receipts", first: 30, perSecond: 6, act: receipt },
  { name: "reminders", first: 40, perSecond: 0.1, act: reminder },
  { name: "videos", first: 6, perSecond: 0.25, act: video },
  { name: "charges", first: 40, perSecond: 1.5, act: charge },
  { name: "stock", first: 25, perSecond: 2.5, act: stock },
  { name: "prices", first: 5, perSecond: 1.5, act: price },
  { name: "order events", first: 20, perSecond: 2, act: orderEvent },
  { name: "notifications", first: 1, perSecond: 0.07, act: burst },
  { name: "catalogues", first: 12, perSecond: 0.05, act: catalogue }
]

/** Runs all flows until the Scope closes. */
export const start = (pace: Pace): Effect.Effect<void, EnqueueError, Queue | Scope.Scope> =>
  Effect.gen(function* () {
    yield* Effect.forEach(flows, (flow) => keep(flow, pace), { discard: true })
    // No pod serves this queue, so enqueue these jobs only once.
    yield* ledgers
  })
