import { Clock, Context, Effect, Layer, type Scope } from "effect"
import { typeOf, type Update } from "../../gateway/telegram/TelegramUpdate.js"
import * as EmulatedApi from "./EmulatedApi.js"
import { type BotCall, type DeliveryTry, type EmulatedBot, make as makeBot } from "./EmulatedBot.js"
import type { EmulatedFault } from "./EmulatedFault.js"
import * as WebhookSender from "./WebhookSender.js"

export interface TelegramEmulatorOptions {
  /** The tokens that are known from the start. */
  readonly tokens?: ReadonlyArray<string>
  /** Decides every chance: the same again for the same seed. [1] */
  readonly seed?: number
  /** How many of Telegram's seconds pass in one of ours: 100 makes an hour of retries half a minute. [1] */
  readonly speed?: number
  /** From 0 to 1: how often an update is delivered twice at the same moment, to two urls where there are two. [0] */
  readonly duplicates?: number
  /** From 0 to 1: how often the answer to a delivery is lost, so that it is delivered again. [0] */
  readonly lostReplies?: number
}

/** Which calls meet a fault. */
export interface FaultRule {
  /** Any method when absent. */
  readonly method?: string
  /** Any call when absent. */
  readonly when?: (call: Omit<BotCall, "done">) => boolean
  /** How many calls meet it; all of them when absent. */
  readonly times?: number
}

/** A message that somebody writes to a bot. */
export interface Spoken {
  readonly chat: number
  readonly text: string
  /** [the chat's] */
  readonly user?: number
}

/** A Telegram of one's own: delivers updates by Telegram's rules, and records what bots say. */
export class TelegramEmulator extends Context.Tag("nightshift/testing/TelegramEmulator")<
  TelegramEmulator,
  {
    /** To be set as TELEGRAM_API_URL. */
    readonly url: string

    /** Makes a token known. */
    readonly addBot: (token: string) => Effect.Effect<void>

    /** Where a bot's updates go, as by `setWebhook`; several urls are several pods behind one address. */
    readonly deliverTo: (
      token: string,
      webhook: { readonly urls: ReadonlyArray<string>; readonly secret?: string; readonly maxConnections?: number }
    ) => Effect.Effect<void>

    /** Somebody writes to a bot. Answers the update's id, without waiting for its delivery. */
    readonly say: (token: string, spoken: Spoken) => Effect.Effect<number>

    /** Any other update; the id is made when there is none. */
    readonly send: (token: string, update: Partial<Update>) => Effect.Effect<number>

    /** From now on, calls meet a fault. Rules that were given first are looked at first. */
    readonly fail: (fault: EmulatedFault, rule?: FaultRule) => Effect.Effect<void>

    /** Forgets all faults. */
    readonly mend: Effect.Effect<void>

    /** What bots have said and asked, in order. */
    readonly calls: Effect.Effect<ReadonlyArray<BotCall>>

    /** Every try to deliver an update, in the order in which they ended. */
    readonly tries: Effect.Effect<ReadonlyArray<DeliveryTry>>

    /** Updates that ran out of time before anyone took them. */
    readonly expired: (token: string) => Effect.Effect<ReadonlyArray<number>>

    /** Completes when every update is delivered or expired. */
    readonly settled: Effect.Effect<void>
  }
>() {
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

    const send = (token: string, update: Partial<Update>) =>
      Effect.sync(() => {
        const bot = botOf(token)
        const id = update.update_id ?? bot.nextUpdate
        bot.nextUpdate = id + 1
        const whole = { ...update, update_id: id }
        // Telegram does not deliver what the webhook did not ask for.
        if (bot.webhook?.updates?.includes(typeOf(whole) ?? "") ?? true) sender.carry(bot, whole)
        return id
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
      mend: Effect.sync(() => {
        faults = []
      }),
      calls: Effect.sync(() => [...calls]),
      tries: Effect.sync(() => [...tries]),
      expired: (token) => Effect.sync(() => [...botOf(token).expired]),
      settled: sender.settled
    }
  })
