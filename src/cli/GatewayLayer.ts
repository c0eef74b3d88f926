import { Effect, Layer } from "effect"
import * as AuthSessionsMemory from "../gateway/auth/AuthSessionsMemory.js"
import * as AuthSessionsPg from "../gateway/auth/AuthSessionsPg.js"
import * as BotJobs from "../gateway/BotJobs.js"
import * as Bots from "../gateway/Bots.js"
import * as ChatOrders from "../gateway/ChatOrders.js"
import type { Declarations } from "../gateway/config/Declarations.js"
import * as Reload from "../gateway/config/Reload.js"
import { Deliveries } from "../gateway/Deliveries.js"
import * as DeadLetterHandler from "../gateway/dead/DeadLetterHandler.js"
import type { DeadLetters } from "../gateway/dead/DeadLetters.js"
import * as DeadLettersPg from "../gateway/dead/DeadLettersPg.js"
import { SafeFetch } from "../gateway/fetch/SafeFetch.js"
import * as GatewaySweeper from "../gateway/GatewaySweeper.js"
import * as PushJobs from "../gateway/push/PushJobs.js"
import { Telegram } from "../gateway/telegram/Telegram.js"
import { WebhookIntake } from "../gateway/WebhookIntake.js"
import type { Handler } from "../handlers/Handler.js"
import { WebhookEndpoint } from "../http/hooks/WebhookEndpoint.js"
import { Transactions } from "../queue/Transactions.js"
import { runLoop } from "../telemetry/LoopRunner.js"
import type { Services } from "../worker/Nightshift.js"
import type { App } from "./App.js"

// Assembles the gateway: the webhook endpoint on top, its storage and outgoing clients below.

const outgoing = Layer.merge(Telegram.layer, SafeFetch.layer)

/**
 * All handlers of the process: the app's, those of pushed kinds and of the bots' jobs, and the dead letter messages if there
 * are any bots.
 */
export const handlers = (
  declared: Declarations,
  app: App
): ReadonlyArray<Handler<Services | Bots.Bots | Telegram | DeadLetters>> => {
  const jobs = BotJobs.handlers(declared.bots, app.handlers)
  const own = [...app.handlers, ...PushJobs.handlers(declared.push)]
  return jobs.length === 0 ? own : [...own, ...jobs, DeadLetterHandler.handler]
}

/** The full gateway, with async bots. */
export const onDatabase = (declared: Declarations, app: App) =>
  Layer.merge(WebhookEndpoint.layer, Reload.layer).pipe(
    Layer.provide([WebhookIntake.layer, ChatOrders.layer(declared.bots)]),
    Layer.provideMerge(Bots.layer({ declared, database: true, handlers: app.handlers })),
    Layer.provideMerge(Deliveries.layer),
    Layer.provideMerge(Layer.mergeAll(outgoing, AuthSessionsPg.layer, DeadLettersPg.layer))
  )

/** The gateway without a database: sync bots only, with sign-ins kept in memory. */
export const alone = (declared: Declarations) =>
  Layer.mergeAll(
    WebhookEndpoint.layer,
    Reload.layer,
    Layer.scopedDiscard(Effect.flatMap(GatewaySweeper.makeWithoutDatabase, runLoop))
  ).pipe(
    Layer.provide(WebhookIntake.layerWithoutDatabase),
    Layer.provide([Bots.layer<never>({ declared, database: false, handlers: [] }), Deliveries.layer]),
    Layer.provide(Layer.mergeAll(outgoing, AuthSessionsMemory.layer, Transactions.layerMemory))
  )
