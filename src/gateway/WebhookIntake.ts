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
import type { Bot, Source } from "./Bots.js"
import { GatewayConfig } from "./config/GatewayConfig.js"
import { botJob, type SourceDelivery, sourceJob, storableUpdate } from "./DeliveryJob.js"
import * as Reply from "./telegram/Reply.js"
import { addresseeOf, type Update, userOf } from "./telegram/TelegramUpdate.js"

/** How an accepted update or delivery was handled. The sender must not resend it. */
export type Received = Data.TaggedEnum<{
  /** Stored as a job. */
  Stored: { readonly job: JobId }
  /** Already stored by an earlier delivery. */
  Duplicate: { readonly job: JobId }
  /** Handled by a sync bot, with or without a reply. */
  Answered: { readonly body: string | undefined }
  /** The user must sign in first; the reply asks them to. */
  Prompted: { readonly body: string | undefined }
  /** The user is not in ALLOWED_USERS. */
  Dropped: {}
  /** The bot's handler does not take this type of update. */
  Ignored: {}
  /** The handler failed; the reply apologizes. */
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

/** A sync bot's handler failed, and `onError: redeliver` asks Telegram to send the update again. */
export class HandlerFailed extends Schema.TaggedError<HandlerFailed>()("HandlerFailed", { bot: Schema.String }) {
  override get message(): string {
    return `The handler of the bot ${this.bot} failed.`
  }
}

export type WebhookIntakeError = HandlerFailed | UnknownKind | EnqueueError

/** Receives the result of the item at an index. */
export type Report = (place: number, exit: Exit.Exit<Received, WebhookIntakeError>) => void

/** Takes authenticated updates and deliveries. */
export class WebhookIntake extends Context.Tag("nightshift/gateway/WebhookIntake")<
  WebhookIntake,
  {
    /**
     * Handles updates that arrived together, independently of each other, and reports each result as soon as it is
     * known. A job reported as stored is durable.
     */
    readonly receive: (bot: Bot, updates: ReadonlyArray<Update>, report: Report) => Effect.Effect<void>

    /** Enqueues one job per delivery id of a source. */
    readonly deliver: (source: Source, deliveries: ReadonlyArray<SourceDelivery>, report: Report) => Effect.Effect<void>
  }
>() {
  static readonly layer: Layer.Layer<WebhookIntake, never, Queue | Kinds | AuthSessions | GatewayConfig> =
    Layer.suspend(() => withDatabase)

  /** For a process without a database, whose file declares neither async bots nor sources. */
  static readonly layerWithoutDatabase: Layer.Layer<WebhookIntake, never, AuthSessions | GatewayConfig> = Layer.suspend(
    () => withoutDatabase
  )
}

/** Telegram closes the connection after a minute. */
const syncTimeout = Duration.seconds(50)

const prompt = Reply.make("Please sign in first: send /auth and your code to the bot that signs users in.")
const apology = Reply.make("Sorry, something went wrong with that. Please try again later.")

const inResponse = (update: Update, reply: Reply.Reply | undefined): string | undefined => {
  const chat = addresseeOf(update)
  return chat === undefined || reply === undefined ? undefined : Reply.inResponse(chat, reply)
}

interface Stores {
  readonly store: typeof Queue.Service.enqueueEach
  readonly kindOf: (name: string) => Effect.Effect<RegisteredKind, UnknownKind | DatabaseError>
}

const receivedOf = ({ _tag, id }: Enqueued): Received =>
  _tag === "Deduplicated" ? Received.Duplicate({ job: id }) : Received.Stored({ job: id })

const isInvalid = (exit: Exit.Exit<Enqueued, EnqueueError>) =>
  Exit.isFailure(exit) && exit.cause._tag === "Fail" && exit.cause.error._tag === "InvalidJob"

/** Handles items concurrently and reports each result. */
const each = <A>(
  items: ReadonlyArray<A>,
  report: Report,
  take: (item: A) => Effect.Effect<Received, WebhookIntakeError>
): Effect.Effect<void> =>
  Effect.forEach(
    items,
    (item, place) => Effect.map(Effect.exit(Effect.suspend(() => take(item))), (exit) => report(place, exit)),
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
      storeOne(botJob(bot.slug, update)).pipe(
        // Text that PostgreSQL cannot store would fail on every redelivery and block its chat for a day, so replace it.
        Effect.catchTag("InvalidJob", () => storeOne(botJob(bot.slug, storableUpdate(update))))
      )

    /** The hot path: thousands of updates per second. */
    const enqueueAll = (bot: Bot, updates: ReadonlyArray<Update>, report: Report) =>
      Effect.flatMap(Effect.exit(store(updates.map((update) => botJob(bot.slug, update)))), (exits) => {
        if (Exit.isFailure(exits)) return each(updates, report, () => Effect.failCause(exits.cause))
        const refused: Array<number> = []
        for (const [place, exit] of exits.value.entries()) {
          if (isInvalid(exit)) refused.push(place)
          else report(place, Exit.map(exit, receivedOf))
        }
        if (refused.length === 0) return Effect.void
        const again = refused.flatMap((place) => updates[place] ?? [])
        return each(
          again,
          (index, exit) => report(refused[index] ?? 0, exit),
          (update) => enqueue(bot, update)
        )
      })

    /**
     * Runs a sync bot's handler. By default a failure is acknowledged with an apology, so a poison update does not
     * block its chat.
     */
    const answer = (bot: Bot, update: Update) =>
      bot.handle({ bot, update, job: undefined }).pipe(
        // Respond to Telegram in time even if the handler ignores interruption.
        Effect.disconnect,
        Effect.timeoutFail({
          duration: syncTimeout,
          onTimeout: () => new Error(`the handler did not finish within ${Duration.format(syncTimeout)}`)
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

    const receiveTaken = (bot: Bot, updates: ReadonlyArray<Update>, report: Report) =>
      bot.async && !bot.requireAuth && allowedUsers === undefined
        ? enqueueAll(bot, updates, report)
        : each(updates, report, (update) => receiveOne(bot, update))

    return {
      deliver: (source, deliveries, report) =>
        each(deliveries, report, (delivery) =>
          Effect.flatMap(kindOf(source.kind), (kind) => storeOne(sourceJob(source.name, kind, delivery)))
        ),
      receive: (bot, updates, report) => {
        if (updates.every(bot.takes)) return receiveTaken(bot, updates, report)
        const taken: Array<number> = []
        for (const [place, update] of updates.entries()) {
          if (bot.takes(update)) taken.push(place)
          else report(place, Exit.succeed(Received.Ignored()))
        }
        const rest = taken.flatMap((place) => updates[place] ?? [])
        return rest.length === 0
          ? Effect.void
          : receiveTaken(bot, rest, (index, exit) => report(taken[index] ?? 0, exit))
      }
    }
  })

/** Cached for 30 seconds, because a deploy may register a kind again. Unknown kinds are not cached. */
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
    store: () => Effect.dieMessage("an async bot needs a database"),
    kindOf: () => Effect.dieMessage("a source needs a database")
  })
)
