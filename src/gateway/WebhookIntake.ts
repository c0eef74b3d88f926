import {
  Cache,
  Context,
  type Data,
  Duration,
  Effect,
  Exit,
  Fiber,
  Layer,
  Option,
  Predicate,
  Runtime,
  Schema
} from "effect"
import type { JobId } from "../core/Ids.js"
import { defaults } from "../core/Kind.js"
import { isDeeperThan, storableText } from "../core/Storable.js"
import { limits } from "../core/StoredJob.js"
import * as Tagged from "../core/Tagged.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import { type EnqueueError, jobOf } from "../queue/Job.js"
import type { UnknownKind } from "../queue/JobErrors.js"
import { Kinds, type RegisteredKind } from "../queue/Kinds.js"
import type { NewJob } from "../queue/NewJob.js"
import { type Enqueued, Queue, type Submit } from "../queue/Queue.js"
import { AuthSessions } from "./auth/AuthSessions.js"
import type { Bot, Source } from "./Bots.js"
import { kindOf, queueOf } from "./config/Declarations.js"
import { GatewayConfig } from "./config/GatewayConfig.js"
import { followUp } from "./dead/DeadLetters.js"
import * as Reply from "./telegram/Reply.js"
import { replyChatOf, type Update, userOf } from "./telegram/TelegramUpdate.js"

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

/** Longer than Telegram retries an update, shorter than the week after which Telegram may restart update ids. */
const botWindow = Duration.toMillis("48 hours")

/** Prefix of the dedupe keys of a bot's jobs. The update id follows. */
export const botDedupePrefix = (slug: string): string => `telegram:${slug}:`

/** Makes the jobs of an async bot, one per update. `text` is the update as it arrived, if it is known. */
export const jobsOfBot = (
  slug: string,
  attempts: number = defaults.attempts
): ((update: Update, text?: string) => NewJob) => {
  const kind = { name: kindOf(slug), version: 1, queue: queueOf(slug), attempts }
  const dedupePrefix = botDedupePrefix(slug)
  const letter = followUp(slug, 0)
  return (update, text) => {
    const chat = replyChatOf(update)
    return jobOf(kind, {
      payload: update,
      payloadText: text,
      key: chat === undefined ? undefined : String(chat),
      dedupe: { key: `${dedupePrefix}${update.update_id}`, scope: "retained", window: botWindow },
      onDead: chat === undefined ? undefined : { ...letter, payload: { bot: slug, chat } }
    })
  }
}

const storableValue = (value: unknown): unknown => {
  if (typeof value === "string") return storableText(value)
  if (typeof value === "number" && !Number.isFinite(value)) return null
  if (Array.isArray(value)) return value.map(storableValue)
  if (!Predicate.isRecord(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [String(storableValue(key)), storableValue(inner)])
  )
}

/** Replaces everything in an update that PostgreSQL cannot store as JSON. */
const storableUpdate = (update: Update): Update => ({
  ...Object(storableValue(update)),
  update_id: update.update_id
})

/** A delivery from a source whose signature is verified. */
export interface SourceDelivery {
  /** The sender's id, which is the same for redeliveries. */
  readonly id: string
  readonly event: string | undefined
  readonly body: unknown
  /** The body as it arrived, if it is known. */
  readonly text?: string | undefined
}

/** Replaces everything in a delivery that PostgreSQL cannot store. */
const storableDelivery = ({ body, event, id }: SourceDelivery): SourceDelivery => ({
  id: storableText(id),
  event: event === undefined ? undefined : storableText(event),
  body: storableValue(body)
})

/** Longer than any known sender retries. */
const sourceWindow = Duration.toMillis("72 hours")

/** Prefix of the dedupe keys of a source's jobs. The delivery id follows. */
export const sourceDedupePrefix = (source: string): string => `source:${source}:`

/** Makes the job for a delivery: the body is its payload; source, delivery id and event are its meta. */
const sourceJob = (source: string, kind: RegisteredKind, { body, event, id, text }: SourceDelivery): NewJob =>
  jobOf(kind, {
    payload: body,
    payloadText: text,
    dedupe: { key: `${sourceDedupePrefix(source)}${id}`, scope: "retained", window: sourceWindow },
    meta: { source, delivery: id, ...(event === undefined ? {} : { event }) }
  })

/** Receives the result, once. */
export type Report = (exit: Exit.Exit<Received, WebhookIntakeError>) => void

/** Takes authenticated updates and deliveries. Plain functions: a fiber per delivery would cost more than storing it. */
export class WebhookIntake extends Context.Tag("nightshift/gateway/WebhookIntake")<
  WebhookIntake,
  {
    /**
     * Handles an update, and reports the result as soon as it is known. A job reported as stored is durable. `text` is
     * the JSON that the update was parsed from.
     */
    readonly receive: (bot: Bot, update: Update, report: Report, text?: string) => void

    /** Enqueues one job per delivery id of a source. */
    readonly deliver: (source: Source, delivery: SourceDelivery, report: Report) => void
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
  const chat = replyChatOf(update)
  return chat === undefined || reply === undefined ? undefined : Reply.inResponse(chat, reply)
}

interface Stores {
  readonly submit: Submit
  readonly kindOf: (name: string) => Effect.Effect<RegisteredKind, UnknownKind | DatabaseError>
}

// Every delivery passes here: a plain object instead of the constructors, and no `Exit.map`.
const received = (exit: Exit.Exit<Enqueued, EnqueueError>): Exit.Exit<Received, EnqueueError> => {
  if (Exit.isFailure(exit)) return Exit.failCause(exit.cause)
  const { id, outcome } = exit.value
  return Exit.succeed({ _tag: outcome === "deduplicated" ? "Duplicate" : "Stored", job: id })
}

const isInvalid = (exit: Exit.Exit<Enqueued, EnqueueError>) =>
  Exit.isFailure(exit) && exit.cause._tag === "Fail" && exit.cause.error._tag === "InvalidJob"

/** How long a kind is cached. A deploy may register it again with other options. Unknown kinds are not cached. */
const kindMillis = Duration.toMillis("30 seconds")

/**
 * Runs a sync bot's handler. By default a failure is acknowledged with an apology, so a poison update does not block its
 * chat.
 */
const answer = (bot: Bot, update: Update): Effect.Effect<Received, HandlerFailed> =>
  Effect.suspend(() => bot.handle({ bot, update, job: undefined })).pipe(
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

const make = ({ kindOf, submit }: Stores) =>
  Effect.gen(function* () {
    const sessions = yield* AuthSessions
    const { allowedUsers } = yield* GatewayConfig
    const clock = yield* Effect.clock
    const fork = Runtime.runFork(yield* Effect.runtime<never>())
    const running = new Set<Fiber.RuntimeFiber<unknown, unknown>>()
    yield* Effect.addFinalizer(() => Fiber.interruptAll(running))

    /** Starts a fiber, for handlers of sync bots and lookups in the database. */
    const run = <A, E>(effect: Effect.Effect<A, E>, then: (exit: Exit.Exit<A, E>) => void) => {
      const fiber = fork(effect)
      running.add(fiber)
      fiber.addObserver((exit) => {
        running.delete(fiber)
        then(exit)
      })
    }

    const makers = new WeakMap<Bot, ReturnType<typeof jobsOfBot>>()
    const makerOf = (bot: Bot) => {
      const known = makers.get(bot)
      if (known !== undefined) return known
      const maker = jobsOfBot(bot.slug, bot.attempts)
      makers.set(bot, maker)
      return maker
    }

    /** Stores a job, or a storable one in its place: text that PostgreSQL cannot store would fail on every redelivery. */
    const store = (job: NewJob, storable: () => NewJob, report: Report) =>
      submit(job, (exit) => {
        if (!isInvalid(exit) || isDeeperThan(job.payload, limits.nesting)) return report(received(exit))
        submit(storable(), (second) => report(received(second)))
      })

    const storeUpdate = (bot: Bot, update: Update, report: Report, text: string | undefined) => {
      const jobOf = makerOf(bot)
      store(jobOf(update, text), () => jobOf(storableUpdate(update)), report)
    }

    const admit = (bot: Bot, update: Update, report: Report, text: string | undefined) =>
      bot.async ? storeUpdate(bot, update, report, text) : run(answer(bot, update), report)

    const known = new Map<string, { readonly kind: RegisteredKind; readonly until: number }>()

    const withKind = (name: string, report: Report, use: (kind: RegisteredKind) => void) => {
      const now = clock.unsafeCurrentTimeMillis()
      const found = known.get(name)
      if (found !== undefined && now < found.until) return use(found.kind)
      run(kindOf(name), (exit) => {
        if (Exit.isFailure(exit)) return report(Exit.failCause(exit.cause))
        known.set(name, { kind: exit.value, until: now + kindMillis })
        use(exit.value)
      })
    }

    return WebhookIntake.of({
      deliver: (source, delivery, report) =>
        withKind(source.kind, report, (kind) => {
          const jobOf = (each: SourceDelivery) => sourceJob(source.name, kind, each)
          store(jobOf(delivery), () => jobOf(storableDelivery(delivery)), report)
        }),
      receive: (bot, update, report, text) => {
        if (!bot.takes(update)) return report(Exit.succeed(Received.Ignored()))
        const user = bot.requireAuth || allowedUsers !== undefined ? userOf(update) : undefined
        if (allowedUsers !== undefined && (user === undefined || !allowedUsers.has(user))) {
          return report(Exit.succeed(Received.Dropped()))
        }
        if (!bot.requireAuth) return admit(bot, update, report, text)
        const prompted = Exit.succeed(Received.Prompted({ body: inResponse(update, prompt) }))
        if (user === undefined) return report(prompted)
        run(sessions.find(user), (exit) => {
          if (Exit.isFailure(exit)) report(Exit.failCause(exit.cause))
          else if (Option.isSome(exit.value)) admit(bot, update, report, text)
          else report(prompted)
        })
      }
    })
  })

const withDatabase = Layer.scoped(
  WebhookIntake,
  Effect.gen(function* () {
    const { submitter } = yield* Queue
    const kinds = yield* Kinds
    // Deliveries that ask for a kind at the same time share one query.
    const asked = yield* Cache.make({ capacity: 256, lookup: kinds.find, timeToLive: Duration.zero })
    return yield* make({ submit: yield* submitter, kindOf: (name) => asked.get(name) })
  })
)

const withoutDatabase = Layer.scoped(
  WebhookIntake,
  make({
    submit: (_, stored) => stored(Exit.die("an async bot needs a database")),
    kindOf: () => Effect.dieMessage("a source needs a database")
  })
)
