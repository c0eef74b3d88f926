import { Clock, Context, Effect, Layer, type Scope } from "effect"
import { typeOf, type Update } from "../../gateway/telegram/TelegramUpdate.js"
import * as EmulatedApi from "./EmulatedApi.js"
import { type BotCall, type DeliveryTry, type EmulatedBot, make as makeBot } from "./EmulatedBot.js"
import type { EmulatedFault } from "./EmulatedFault.js"
import * as WebhookSender from "./WebhookSender.js"

/** Bots, seed, speed and unreliability of the emulated Telegram. */
export interface TelegramEmulatorOptions {
  /** Tokens of bots that exist from the start. */
  readonly tokens?: ReadonlyArray<string>
  /** Seed of all random decisions. [1] */
  readonly seed?: number
  /** Time factor of delays and retries: with 100, an hour takes 36 seconds. [1] */
  readonly speed?: number
  /** Probability from 0 to 1 that an update is delivered twice at the same time, to two URLs if there are two. [0] */
  readonly duplicates?: number
  /** Probability from 0 to 1 that the response to a delivery is lost, so that it is delivered again. [0] */
  readonly lostReplies?: number
}

/** Selects the calls that fail. */
export interface FaultRule {
  /** Method of the Bot API that fails. [any method] */
  readonly method?: string
  /** Selects calls by their parameters. [any call] */
  readonly when?: (call: Omit<BotCall, "done">) => boolean
  /** Number of calls that fail. [all] */
  readonly times?: number
}

/** A message from a user to a bot. */
export interface Spoken {
  /** Id of the private chat. */
  readonly chat: number
  /** What the user wrote. */
  readonly text: string
  /** Who wrote it. [the same number as the chat] */
  readonly user?: number
}

/** Emulates Telegram: delivers updates by Telegram's rules and records the bots' calls. */
export class TelegramEmulator extends Context.Tag("nightshift/testing/TelegramEmulator")<
  TelegramEmulator,
  {
    /** Value for TELEGRAM_API_URL. */
    readonly url: string

    /** Registers a bot by its token. */
    readonly addBot: (token: string) => Effect.Effect<void>

    /** Sets a bot's webhook, like `setWebhook`. Several URLs simulate several pods behind one address. */
    readonly deliverTo: (
      token: string,
      webhook: {
        /** Addresses that get the updates in turn. */
        readonly urls: ReadonlyArray<string>
        /** Value of the header `X-Telegram-Bot-Api-Secret-Token`. [none] */
        readonly secret?: string
        /** Updates that are delivered at the same time. [40] */
        readonly maxConnections?: number
      }
    ) => Effect.Effect<void>

    /** Sends a user's message to a bot. Returns the update id without waiting for delivery. */
    readonly say: (token: string, spoken: Spoken) => Effect.Effect<number>

    /** Sends any other update. Generates an id if there is none. */
    readonly send: (token: string, update: object) => Effect.Effect<number>

    /** Makes matching calls fail. Earlier rules take precedence. */
    readonly fail: (fault: EmulatedFault, rule?: FaultRule) => Effect.Effect<void>

    /** Removes all faults. */
    readonly clearFaults: Effect.Effect<void>

    /**
     * The old name of `clearFaults`.
     *
     * @deprecated Use `clearFaults`.
     */
    readonly mend: Effect.Effect<void>

    /** All calls made by bots, in order. */
    readonly calls: Effect.Effect<ReadonlyArray<BotCall>>

    /** All delivery attempts, in the order in which they ended. */
    readonly tries: Effect.Effect<ReadonlyArray<DeliveryTry>>

    /** Ids of updates that expired before they were delivered. */
    readonly expired: (token: string) => Effect.Effect<ReadonlyArray<number>>

    /** Completes when every update is delivered or expired. */
    readonly settled: Effect.Effect<void>
  }
>() {
  /** Starts the emulator on a free port of this machine. */
  static layer(options: TelegramEmulatorOptions = {}): Layer.Layer<TelegramEmulator> {
    return Layer.scoped(TelegramEmulator, make(options))
  }
}

interface StandingFault extends FaultRule {
  readonly fault: EmulatedFault
  left: number
}

const make = (options: TelegramEmulatorOptions): Effect.Effect<typeof TelegramEmulator.Service, never, Scope.Scope> =>
  Effect.gen(function* () {
    const bots = new Map<string, EmulatedBot>((options.tokens ?? []).map((token) => [token, makeBot(token)]))
    const calls: Array<BotCall> = []
    const tries: Array<DeliveryTry> = []
    let faults: ReadonlyArray<StandingFault> = []

    const faultFor = (call: Omit<BotCall, "done">): EmulatedFault | undefined => {
      const met = faults.find(
        ({ left, method, when }) => left > 0 && (method ?? call.method) === call.method && (when?.(call) ?? true)
      )
      if (met === undefined) return undefined
      met.left -= 1
      return met.fault
    }

    const onCall = (call: BotCall) => void calls.push(call)
    const url = yield* EmulatedApi.serve({ bot: (token) => bots.get(token), faultFor, onCall })
    const sender = yield* WebhookSender.make({
      seed: options.seed ?? 1,
      speed: options.speed ?? 1,
      duplicates: options.duplicates ?? 0,
      lostReplies: options.lostReplies ?? 0,
      onTry: (attempt) => void tries.push(attempt),
      onCall
    })

    const botOf = (token: string): EmulatedBot => {
      const known = bots.get(token) ?? makeBot(token)
      bots.set(token, known)
      return known
    }

    const send = (token: string, given: object) =>
      Effect.sync(() => {
        const update = given as Partial<Update>
        const bot = botOf(token)
        const id = update.update_id ?? bot.nextUpdate
        bot.nextUpdate = id + 1
        const whole = { ...update, update_id: id }
        // Telegram delivers only the update types that the webhook asked for.
        if (bot.webhook?.updates?.includes(typeOf(whole) ?? "") ?? true) sender.carry(bot, whole)
        return id
      })

    const clearFaults = Effect.sync(() => {
      faults = []
    })

    return {
      url,
      addBot: (token) => Effect.sync(() => void botOf(token)),
      deliverTo: (token, { maxConnections = 40, secret, urls }) =>
        Effect.sync(() => {
          botOf(token).webhook = { urls, secret, maxConnections }
        }),
      say: (token, { chat, text, user = chat }) =>
        Effect.flatMap(Clock.currentTimeMillis, (now) =>
          send(token, {
            message: {
              message_id: botOf(token).nextMessage++,
              date: Math.floor(now / 1000),
              chat: { id: chat, type: "private", first_name: `User ${user}` },
              from: { id: user, is_bot: false, first_name: `User ${user}` },
              text
            }
          })
        ),
      send,
      fail: (fault, rule = {}) =>
        Effect.sync(() => {
          faults = [...faults, { ...rule, fault, left: rule.times ?? Number.POSITIVE_INFINITY }]
        }),
      clearFaults,
      mend: clearFaults,
      calls: Effect.sync(() => [...calls]),
      tries: Effect.sync(() => [...tries]),
      expired: (token) => Effect.sync(() => [...botOf(token).expired]),
      settled: sender.settled
    }
  })
