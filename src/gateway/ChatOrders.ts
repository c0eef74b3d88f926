import { Effect, Layer } from "effect"
import type { DatabaseError } from "../database/DatabaseError.js"
import * as QueueDeclaration from "../queue/settings/QueueDeclaration.js"
import type { Queues } from "../queue/settings/QueueSettings.js"
import { type BotDeclaration, queueOf } from "./config/Declarations.js"

const declaredBy = ({ chatOrder, slug }: BotDeclaration): QueueDeclaration.DeclaredQueue => ({
  name: queueOf(slug),
  workers: undefined,
  patch: { perKey: chatOrder === "none" ? null : { concurrency: 1, order: chatOrder } }
})

/** Declares the queue of each async bot with its chat order, also in a process that only receives webhooks. */
export const layer = (bots: ReadonlyArray<BotDeclaration>): Layer.Layer<never, DatabaseError, Queues> =>
  Layer.effectDiscard(
    Effect.catchTag(
      Effect.flatten(QueueDeclaration.plan(bots.filter((bot) => bot.async).map(declaredBy))),
      "InvalidSetting",
      Effect.die
    )
  )
