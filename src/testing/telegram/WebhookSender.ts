import * as Http from "node:http"
import { Clock, Duration, Effect, FiberSet, Predicate, type Scope } from "effect"
import * as HttpExchange from "../../gateway/fetch/HttpExchange.js"
import type { Update } from "../../gateway/telegram/TelegramUpdate.js"
import { chanceOf, lifetimeOf, lineOf, retryDelay } from "./DeliveryRules.js"
import type { BotCall, DeliveryTry, EmulatedBot, EmulatedWebhook } from "./EmulatedBot.js"

// Delivers updates to webhooks. Updates with the same ordering key form a line: one fiber delivers them in sequence,
// each until it is acknowledged or expired. Lines run in parallel, up to the webhook's maximum number of connections.

export interface WebhookSenderOptions {
  readonly seed: number
  /** Time factor of delays and retries. */
  readonly speed: number
  /** Probability from 0 to 1 that an update is delivered twice at the same time. */
  readonly duplicates: number
  /** Probability from 0 to 1 that the response to a delivery is lost. */
  readonly lostReplies: number
  readonly onTry: (attempt: DeliveryTry) => void
  readonly onCall: (call: BotCall) => void
}

export interface WebhookSender {
  /** Queues an update for delivery. */
  readonly carry: (bot: EmulatedBot, update: Update) => void
  /** Completes when no update is left to deliver. */
  readonly settled: Effect.Effect<void>
}

/** Telegram's response timeout. */
const responseTimeout = Duration.seconds(60)

const refusedInResponse = /^(?:get|setwebhook$|deletewebhook$|close$|logout$)/i

/** Returns the Bot API call contained in a webhook response, if any. */
const callIn = (token: string, body: string): BotCall | undefined => {
  try {
    const parsed: unknown = JSON.parse(body)
    if (!Predicate.isRecord(parsed) || typeof parsed.method !== "string") return undefined
    const { method, ...parameters } = parsed
    return { token, method, parameters, via: "response", done: !refusedInResponse.test(method) }
  } catch {
    return undefined
  }
}

const retryAfterOf = (response: HttpExchange.Response): number | undefined => {
  const header = response.headers["retry-after"]
  return header !== undefined && /^\d+$/.test(header) ? Number(header) : undefined
}

interface Try {
  readonly acknowledged: boolean
  readonly retryAfter: number | undefined
}

export const make = (options: WebhookSenderOptions): Effect.Effect<WebhookSender, never, Scope.Scope> =>
  Effect.gen(function* () {
    const run = yield* FiberSet.makeRuntime<never>()
    const agent = yield* Effect.acquireRelease(
      Effect.sync(() => new Http.Agent({ keepAlive: true })),
      (open) => Effect.sync(() => open.destroy())
    )
    const lines = new Map<string, Array<Update>>()
    const permits = new Map<string, Effect.Semaphore>()
    let waiting: Array<() => void> = []

    const permitsOf = ({ token }: EmulatedBot, { maxConnections }: EmulatedWebhook) => {
      const known = permits.get(token) ?? Effect.unsafeMakeSemaphore(maxConnections)
      permits.set(token, known)
      return Effect.as(known.resize(maxConnections), known)
    }

    const post = (bot: EmulatedBot, update: Update, url: string, secret: string | undefined, lost: boolean) =>
      HttpExchange.post({
        url: new URL(url),
        headers: {
          "content-type": "application/json",
          ...(secret === undefined ? {} : { "x-telegram-bot-api-secret-token": secret })
        },
        body: JSON.stringify(update),
        maxBytes: 1024 * 1024,
        // A lost response means a broken connection, which must not be reused.
        agent: lost ? undefined : agent
      }).pipe(
        Effect.timeoutFail({
          duration: responseTimeout,
          onTimeout: () => new HttpExchange.ExchangeFailed({ code: "ETIMEDOUT", sent: true })
        }),
        Effect.match({
          onFailure: ({ code }): Try => {
            bot.lastError = code
            options.onTry({ token: bot.token, update: update.update_id, url, status: undefined, body: code })
            return { acknowledged: false, retryAfter: undefined }
          },
          onSuccess: (response): Try => {
            const body = response.body.toString("utf8")
            const acknowledged = !lost && response.status >= 200 && response.status < 300
            const status = lost ? undefined : response.status
            options.onTry({ token: bot.token, update: update.update_id, url, status, body })
            const call = acknowledged ? callIn(bot.token, body) : undefined
            if (call !== undefined) options.onCall(call)
            if (!acknowledged)
              bot.lastError = lost ? "Connection closed" : `Wrong response from the webhook: ${response.status}`
            return { acknowledged, retryAfter: lost ? undefined : retryAfterOf(response) }
          }
        })
      )

    /** Makes one delivery attempt, or two at the same time. The result of the first one counts. */
    const attempt = (bot: EmulatedBot, webhook: EmulatedWebhook, update: Update, failures: number) => {
      const chance = (salt: string) => chanceOf(options.seed, salt, update.update_id, failures)
      const { secret, urls } = webhook
      const start = Math.floor(chance("url") * urls.length)
      const urlAt = (index: number) => urls[(start + index) % urls.length] ?? ""
      const lost = chance("lost") < options.lostReplies
      const first = post(bot, update, urlAt(0), secret, lost)
      const twice = chance("twice") < options.duplicates
      const tries = twice ? [first, post(bot, update, urlAt(1), secret, lost)] : [first]
      const tried = Effect.all(tries, { concurrency: "unbounded" })
      return Effect.map(
        Effect.flatMap(permitsOf(bot, webhook), (permit) => permit.withPermits(1)(tried)),
        ([main = { acknowledged: false, retryAfter: undefined }]) => main
      )
    }

    const rest = (seconds: number) => Effect.sleep(Duration.millis((seconds * 1000) / options.speed))

    /** Retries one update until it is acknowledged or expires. */
    const deliver = (bot: EmulatedBot, update: Update): Effect.Effect<void> =>
      Effect.gen(function* () {
        const begun = yield* Clock.currentTimeMillis
        const lifetimeMillis = (lifetimeOf(update) * 1000) / options.speed
        for (let failures = 0; ; ) {
          // Already fetched by `getUpdates`.
          if (!bot.pending.has(update)) return
          const { webhook } = bot
          // Without a webhook, updates wait; this does not count as a failure.
          if (webhook === undefined) yield* rest(1)
          else {
            const { acknowledged, retryAfter } = yield* attempt(bot, webhook, update, failures)
            if (acknowledged) return
            failures += 1
            const delay = retryDelay(failures, chanceOf(options.seed, "cap", update.update_id), retryAfter)
            const next = (yield* Clock.currentTimeMillis) + (delay * 1000) / options.speed
            if (next > begun + lifetimeMillis) return void bot.expired.push(update.update_id)
            yield* rest(delay)
          }
        }
      })

    const notifyIdle = () => {
      if (lines.size > 0) return
      for (const notify of waiting) notify()
      waiting = []
    }

    const drain = (bot: EmulatedBot, name: string, line: Array<Update>) =>
      Effect.gen(function* () {
        for (let head = line[0]; head !== undefined; head = line[0]) {
          yield* deliver(bot, head)
          bot.pending.delete(head)
          line.shift()
        }
        lines.delete(name)
        notifyIdle()
      })

    return {
      carry: (bot, update) => {
        const name = `${bot.token} ${lineOf(update)}`
        const line = lines.get(name)
        bot.pending.add(update)
        for (const wake of [...bot.polls]) wake()
        if (line !== undefined) return void line.push(update)
        const begun = [update]
        lines.set(name, begun)
        run(drain(bot, name, begun))
      },
      settled: Effect.async<void>((resume) => {
        waiting.push(() => resume(Effect.void))
        notifyIdle()
      })
    }
  })
