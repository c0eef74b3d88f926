import { Effect, Layer } from "effect"
import type { DatabaseError } from "../database/DatabaseError.js"
import { fresh } from "../queue/settings/QueueRow.js"
import { type QueueSettings, Queues } from "../queue/settings/QueueSettings.js"
import { type BotDeclaration, queueOf } from "./config/Declarations.js"

const wanted = ({ chatOrder }: BotDeclaration): QueueSettings["perKey"] =>
  chatOrder === "none" ? undefined : { concurrency: 1, order: chatOrder }

const isSame = (left: QueueSettings["perKey"], right: QueueSettings["perKey"]) =>
  left?.concurrency === right?.concurrency && left?.order === right?.order

/** Sets the per-key limit of the bot's queue when the queue is new. Afterwards the operator's setting wins. */
const declare = (bot: BotDeclaration): Effect.Effect<void, DatabaseError, Queues> =>
  Effect.gen(function* () {
    const queues = yield* Queues
    const name = queueOf(bot.slug)
    yield* queues.declare([name])
    const { perKey, revision } = yield* queues.get(name)
    if (isSame(perKey, wanted(bot))) return
    // Two pods that start at once may both see a new row; both write the same value.
    if (revision === fresh(name).revision) yield* queues.change(name, { perKey: wanted(bot) })
    else {
      yield* Effect.logWarning(
        `the bot ${bot.slug} declares chatOrder: ${bot.chatOrder}, but its queue ${name} has a different per-key setting, which takes precedence; change it on the queue`
      )
    }
  }).pipe(Effect.catchTags({ QueueNotFound: Effect.die, InvalidSetting: Effect.die }))

/** Declares the queue of each async bot with its chat order. */
export const layer = (bots: ReadonlyArray<BotDeclaration>): Layer.Layer<never, DatabaseError, Queues> =>
  Layer.effectDiscard(
    Effect.forEach(
      bots.filter((bot) => bot.async),
      declare,
      { discard: true }
    )
  )
