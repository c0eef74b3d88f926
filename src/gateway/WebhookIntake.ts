import { Cache, Context, type Data, Duration, Effect, Exit, Layer, Option, Schema } from "effect"
import type { JobId } from "../core/Ids.js"
import * as Tagged from "../core/Tagged.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { NewJob } from "../queue/enqueue/NewJob.js"
import type { EnqueueError } from "../queue/Job.js"
import type { UnknownKind } from "../queue/JobErrors.js"
import { Kinds, type RegisteredKind } from "../queue/Kinds.js"
import { type Enqueued, Queue } from "../queue/Queue.js"
import { AuthSessions } from "./auth/AuthSessions.js"
import * as BotJob from "./BotJob.js"
import type { Bot, Source } from "./Bots.js"
import { GatewayConfig } from "./config/GatewayConfig.js"
import type { SourceDelivery } from "./SourceJob.js"
import * as SourceJob from "./SourceJob.js"
import * as Reply from "./telegram/Reply.js"
import { addresseeOf, type Update, userOf } from "./telegram/TelegramUpdate.js"

/** What became of an update that its sender need not send again. */
export type Received = Data.TaggedEnum<{
  /** A durable job. */
  Stored: { readonly job: JobId }
  /** It has been a job before. */
  Duplicate: { readonly job: JobId }
  /** Answered on the spot, perhaps with nothing to say. */
  Answered: { readonly body: string | undefined }
  /** Its user must sign in first, and is told so. */
  Prompted: { readonly body: string | undefined }
  /** Its user is not one that bots listen to. */
  Dropped: {}
  /** Its type is not one that the bot's handler takes. */
  Ignored: {}
  /** Its handler failed, and the user is told so. */
  Apologized: { readonly body: string | undefined }
}>
export const Received = Tagged.taggedEnum<Received>({
  Stored: true,
  Duplicate: true,
  Answered: true,
  Prompted: true,
  Dropped: true,
  Ignored: true,
  Apologized: true
})

/** A sync bot's handler failed, and the file wants the update delivered again. */
export class HandlerFailed extends Schema.TaggedError<HandlerFailed>()("HandlerFailed", { bot: Schema.String }) {
  override get message(): string {
    return `The handler of the bot ${this.bot} failed.`
  }
}

export type WebhookIntakeError = HandlerFailed | UnknownKind | EnqueueError

/** Hears what became of the update at a place. */
export type Tell = (place: number, exit: Exit.Exit<Received, WebhookIntakeError>) => void

/** Where updates go once the door has let them in. */
export class WebhookIntake extends Context.Tag("nightshift/gateway/WebhookIntake")<
  WebhookIntake,
  {
    /**
     * Takes updates in that arrived together, each on its own, and tells what became of it as soon as it is known. What was
     * promised is done by then: a stored update is durable.
     */
    readonly receive: (bot: Bot, updates: ReadonlyArray<Update>, tell: Tell) => Effect.Effect<void>

    /** Makes each delivery of a source a job of its kind, once per delivery id. */
    readonly deliver: (source: Source, deliveries: ReadonlyArray<SourceDelivery>, tell: Tell) => Effect.Effect<void>
  }
>() {
  static readonly layer: Layer.Layer<WebhookIntake, never, Queue | Kinds | AuthSessions | GatewayConfig> =
    Layer.suspend(() => withDatabase)

  /** For a process without a database, whose file can declare neither async bots nor sources. */
  static readonly layerWithoutDatabase: Layer.Layer<WebhookIntake, never, AuthSessions | GatewayConfig> = Layer.suspend(
    () => withoutDatabase
  )
}

/** Telegram hangs up after a minute. */
const syncPatience = Duration.seconds(50)

const prompt = Reply.make("Please sign in first: send /auth and your code to the bot that signs users in.")
const apology = Reply.make("Sorry, something went wrong with that. Please try again later.")

const inResponse = (update: Update, reply: Reply.Reply | undefined): string | undefined => {
  const chat = addresseeOf(update)
  return chat === undefined || reply === undefined ? undefined : Reply.inResponse(chat, reply)
}

/** How jobs are stored, and what is known of kinds. */
interface Stores {
  readonly store: typeof Queue.Service.enqueueEach
  readonly kindOf: (name: string) => Effect.Effect<RegisteredKind, UnknownKind | DatabaseError>
}

const receivedOf = ({ _tag, id }: Enqueued): Received =>
  _tag === "Deduplicated" ? Received.Duplicate({ job: id }) : Received.Stored({ job: id })

const isInvalid = (exit: Exit.Exit<Enqueued, EnqueueError>) =>
  Exit.isFailure(exit) && exit.cause._tag === "Fail" && exit.cause.error._tag === "InvalidJob"

/** Goes through items that do not wait for one another. */
const each = <A>(
  items: ReadonlyArray<A>,
  tell: Tell,
  take: (item: A) => Effect.Effect<Received, WebhookIntakeError>
): Effect.Effect<void> =>
  Effect.forEach(
    items,
    (item, place) => Effect.map(Effect.exit(Effect.suspend(() => take(item))), (exit) => tell(place, exit)),
    { concurrency: "unbounded", discard: true }
  )

const make = ({
  kindOf,
  store
}: Stores): Effect.Effect<typeof WebhookIntake.Service, never, AuthSessions | GatewayConfig> =>
  Effect.gen(function* () {
    const sessions = yield* AuthSessions
    const { allowedUsers } = yield* GatewayConfig

    const storeOne = (job: NewJob) =>
      Effect.flatMap(store([job]), ([exit]) => Exit.map(exit ?? Exit.die("a job has no result"), receivedOf))

    const enqueue = (bot: Bot, update: Update) =>
      storeOne(BotJob.of(bot.slug, update)).pipe(
        // Text that PostgreSQL has no bytes for would be refused for ever, and hold up its chat for a day.
        Effect.catchTag("InvalidJob", () => storeOne(BotJob.of(bot.slug, BotJob.storable(update))))
      )

    /** The way of nearly every update, by the fewest steps: thousands a second pass here. */
    const enqueueAll = (bot: Bot, updates: ReadonlyArray<Update>, tell: Tell) =>
      Effect.flatMap(Effect.exit(store(updates.map((update) => BotJob.of(bot.slug, update)))), (exits) => {
        if (Exit.isFailure(exits)) return each(updates, tell, () => Effect.failCause(exits.cause))
        const refused: Array<number> = []
        for (const [place, exit] of exits.value.entries()) {
          if (isInvalid(exit)) refused.push(place)
          else tell(place, Exit.map(exit, receivedOf))
        }
        if (refused.length === 0) return Effect.void
        const again = refused.flatMap((place) => updates[place] ?? [])
        return each(
          again,
          (index, exit) => tell(refused[index] ?? 0, exit),
          (update) => enqueue(bot, update)
        )
      })

    /** The handler's answer. A poison update must not block its chat, so a failure is an answer, too. */
    const answer = (bot: Bot, update: Update) =>
      bot.handle({ bot, update, job: undefined }).pipe(
        // Telegram gets its answer in time even if the handler ignores interruption.
        Effect.disconnect,
        Effect.timeoutFail({
          duration: syncPatience,
          onTimeout: () => new Error(`no answer within ${Duration.format(syncPatience)}`)
        }),
        Effect.map((reply): Received => Received.Answered({ body: inResponse(update, reply) })),
        Effect.catchAllCause((cause) =>
          Effect.zipRight(
            Effect.annotateLogs(Effect.logWarning("a bot's handler failed", cause), {
              bot: bot.slug,
              update: update.update_id
            }),
            bot.onError === "redeliver"
              ? new HandlerFailed({ bot: bot.slug })
              : Effect.succeed(Received.Apologized({ body: inResponse(update, apology) }))
          )
        )
      )

    const admitted = (bot: Bot, update: Update): Effect.Effect<Received, WebhookIntakeError> =>
      bot.async ? enqueue(bot, update) : answer(bot, update)

    const receiveOne = (bot: Bot, update: Update): Effect.Effect<Received, WebhookIntakeError> => {
      const user = bot.requireAuth || allowedUsers !== undefined ? userOf(update) : undefined
      if (allowedUsers !== undefined && (user === undefined || !allowedUsers.has(user))) {
        return Effect.succeed(Received.Dropped())
      }
      if (!bot.requireAuth) return admitted(bot, update)
      const prompted = Received.Prompted({ body: inResponse(update, prompt) })
      if (user === undefined) return Effect.succeed(prompted)
      return Effect.flatMap(sessions.find(user), (session) =>
        Option.isSome(session) ? admitted(bot, update) : Effect.succeed(prompted)
      )
    }

    const receiveTaken = (bot: Bot, updates: ReadonlyArray<Update>, tell: Tell) =>
      bot.async && !bot.requireAuth && allowedUsers === undefined
        ? enqueueAll(bot, updates, tell)
        : each(updates, tell, (update) => receiveOne(bot, update))

    return {
      deliver: (source, deliveries, tell) =>
        each(deliveries, tell, (delivery) =>
          Effect.flatMap(kindOf(source.kind), (kind) => storeOne(SourceJob.of(source.name, kind, delivery)))
        ),
      receive: (bot, updates, tell) => {
        if (updates.every(bot.takes)) return receiveTaken(bot, updates, tell)
        const taken: Array<number> = []
        for (const [place, update] of updates.entries()) {
          if (bot.takes(update)) taken.push(place)
          else tell(place, Exit.succeed(Received.Ignored()))
        }
        const rest = taken.flatMap((place) => updates[place] ?? [])
        return rest.length === 0 ? Effect.void : receiveTaken(bot, rest, (index, exit) => tell(taken[index] ?? 0, exit))
      }
    }
  })

/** A kind may be registered anew with every deploy, so what is known of it is asked again now and then; what is not, each time. */
const kindCache = Effect.flatMap(Kinds, (kinds) =>
  Cache.makeWith({
    capacity: 256,
    lookup: kinds.find,
    timeToLive: (exit) => (Exit.isSuccess(exit) ? Duration.seconds(30) : Duration.zero)
  })
)

const withDatabase = Layer.effect(
  WebhookIntake,
  Effect.gen(function* () {
    const queue = yield* Queue
    const kinds = yield* kindCache
    return yield* make({ store: queue.enqueueEach, kindOf: (name) => kinds.get(name) })
  })
)

const withoutDatabase = Layer.effect(
  WebhookIntake,
  make({
    store: () => Effect.dieMessage("an async bot without a database"),
    kindOf: () => Effect.dieMessage("a source without a database")
  })
)
