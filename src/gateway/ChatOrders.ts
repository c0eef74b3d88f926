import { Effect, Layer } from "effect"
import type { DatabaseError } from "../database/DatabaseError.js"
import { fresh } from "../queue/settings/QueueRow.js"
import { type QueueSettings, Queues } from "../queue/settings/QueueSettings.js"
import { type BotDeclaration, queueOf } from "./config/Declarations.js"

const wanted = ({ chatOrder }: BotDeclaration): QueueSettings["perKey"] =>
  chatOrder === "none" ? undefined : { concurrency: 1, order: chatOrder }

const isSame = (left: QueueSettings["perKey"], right: QueueSettings["perKey"]) =>
  left?.concurrency === right?.concurrency && left?.order === right?.order

/** One job of a chat at a time is a setting of the bot's queue. It is made with the row; later it is the operator's. */
const declare = (bot: BotDeclaration): Effect.Effect<void, DatabaseError, Queues> =>
  Effect.gen(function* () {
    const queues = yield* Queues
    const name = queueOf(bot.slug)
    yield* queues.declare([name])
    const { perKey, revision } = yield* queues.get(name)
    if (isSame(perKey, wanted(bot))) return
    // Two pods that start at once both find a fresh row, and write the same.
    if (revision === fresh(name).revision) yield* queues.change(name, { perKey: wanted(bot) })
    else {
      yield* Effect.logWarning(
        `the bot ${bot.slug} is declared with chatOrder: ${bot.chatOrder}, but its queue ${name} is set otherwise; what is set for the queue holds, and is changed there`
      )
    }
  }).pipe(Effect.catchTags({ QueueNotFound: Effect.die, InvalidSetting: Effect.die }))

/** Declares how the jobs of each async bot's chats follow each other. */
export const layer = (bots: ReadonlyArray<BotDeclaration>): Layer.Layer<never, DatabaseError, Queues> =>
  Layer.effectDiscard(
    Effect.forEach(
      bots.filter((bot) => bot.async),
      declare,
      { discard: true }
    )
  )
