import { Duration, Effect, Random } from "effect"
import * as Outcome from "../../core/Outcome.js"
import * as Handler from "../../handlers/Handler.js"
import type { Services } from "../../worker/Nightshift.js"
import * as Kinds from "./DemoKinds.js"

// Handlers with realistic durations and failures.

const takes = (min: number, max: number) =>
  Effect.flatMap(Random.nextRange(min, max), (millis) => Effect.sleep(Duration.millis(millis)))

const oneIn = (chances: number) => Effect.map(Random.nextIntBetween(0, chances), (drawn) => drawn === 0)

/** Reports progress in steps of 10 %. */
const renderVideo = Handler.make(Kinds.RenderVideo, ({ frames, title }, job) =>
  Effect.gen(function* () {
    const breaksAt = (yield* oneIn(8)) ? yield* Random.nextIntBetween(3, 9) : undefined
    const step = yield* Random.nextRange(500, 1_500)
    for (let tenth = 1; tenth <= 10; tenth += 1) {
      yield* Effect.sleep(Duration.millis(step))
      const frame = Math.round((frames * tenth) / 10)
      if (tenth === breaksAt) return yield* Effect.fail(`the encoder ran out of memory at frame ${frame}`)
      yield* job.progress({ percent: tenth * 10, frame, of: frames })
    }
    return { file: `${title}.mp4`, frames }
  })
)

/** The card number determines the result, so a retry of a declined card fails again. */
const chargeCard = Handler.make(Kinds.ChargeCard, ({ card, cents, order }) =>
  Effect.gen(function* () {
    yield* takes(80, 400)
    if (card.endsWith("0002")) return Outcome.dead("card declined: insufficient_funds")
    if (card.endsWith("0069")) return Outcome.dead("card declined: expired_card")
    if (card.endsWith("0119")) return yield* Effect.fail("payments.example.com answered 503 Service Unavailable")
    if (card.endsWith("0259")) return yield* Effect.never
    if (card.endsWith("0341"))
      return yield* Effect.die(new TypeError("Cannot read properties of undefined (reading 'iban')"))
    if (yield* oneIn(15)) return yield* Effect.fail("connect ECONNRESET payments.example.com:443")
    return { charge: `ch_${order}`, cents }
  })
)

/** The remote API sometimes rejects a call although the rate limit is respected. */
const syncStock = Handler.make(Kinds.SyncStock, ({ sku }) =>
  Effect.gen(function* () {
    yield* Kinds.shopApi.acquire
    yield* takes(50, 250)
    if (yield* oneIn(80)) return yield* Kinds.shopApi.refused("4 seconds")
    return { sku, onHand: yield* Random.nextIntBetween(0, 200) }
  })
)

const publishPrice = Handler.make(Kinds.PublishPrice, () =>
  Effect.gen(function* () {
    yield* takes(30, 120)
    if (yield* oneIn(40)) return Outcome.throttled({ after: Duration.seconds(8), scope: "queue" })
    return undefined
  })
)

const answerChat = Handler.make(Kinds.AnswerChat, ({ message: { from, text } }) =>
  Effect.gen(function* () {
    yield* takes(150, 900)
    if (text.includes("refund")) return yield* Effect.fail("the knowledge base has no page about refunds")
    return `${from.first_name}, about “${text}”: it is on its way.`
  })
)

const scanFile = Handler.make(Kinds.ScanFile, ({ name }) =>
  Effect.gen(function* () {
    yield* takes(100, 600)
    return name.endsWith(".exe") ? Outcome.dead(`${name} is an executable and was rejected`) : { clean: true }
  })
)

const buildReport = Handler.make(Kinds.BuildReport, ({ name }, job) =>
  Effect.gen(function* () {
    for (const part of ["read", "reckon", "write"]) {
      yield* job.progress({ part })
      yield* name === "sales" ? takes(3_000, 5_000) : takes(300, 900)
    }
    return { report: name }
  })
)

export const handlers: ReadonlyArray<Handler.Handler<Services>> = [
  Handler.make(Kinds.SendReceipt, ({ email }) => Effect.as(takes(20, 140), { to: email })),
  Handler.make(Kinds.SendReminder, () => takes(20, 140)),
  renderVideo,
  chargeCard,
  syncStock,
  publishPrice,
  Handler.make(Kinds.ApplyOrderEvent, () => takes(200, 900)),
  Handler.make(Kinds.NotifyDevice, () => takes(20, 80)),
  Handler.make(Kinds.ImportCatalogue, () => takes(1_000, 4_000)),
  Handler.make(Kinds.ExportLedger, () => takes(1_000, 4_000)),
  Handler.make(Kinds.WarmCache, ({ pages }) =>
    Effect.zipRight(Effect.ignore(Kinds.mapTiles.take(pages)), takes(100, 500))
  ),
  buildReport,
  scanFile,
  answerChat
]
