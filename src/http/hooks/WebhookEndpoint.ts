import type { IncomingMessage, ServerResponse } from "node:http"
import { Cause, Context, Effect, Exit, Layer, Runtime, Schedule } from "effect"
import { repeated } from "../../core/Loop.js"
import { type Bot, Bots, isSecretOf, type Source } from "../../gateway/Bots.js"
import { Deliveries, type DeliveryBook } from "../../gateway/Deliveries.js"
import * as SignedSources from "../../gateway/SignedSources.js"
import { isUpdate } from "../../gateway/telegram/TelegramUpdate.js"
import { type Received, WebhookIntake, type WebhookIntakeError } from "../../gateway/WebhookIntake.js"
import type { Series } from "../../telemetry/MetricFamily.js"
import * as MetricSpec from "../../telemetry/MetricSpec.js"
import { Metrics } from "../../telemetry/Metrics.js"
import { refusedType } from "../Body.js"
import * as ClientAddress from "../ClientAddress.js"
import { ServerConfig } from "../ServerConfig.js"
import { BodyReader, maxDeliveryBytes, parse } from "./HookBody.js"
import {
  bodyRefused,
  common,
  HookRefusals,
  intakeRefused,
  invalidDelivery,
  methodRefused,
  type Refused,
  typeRefused,
  unauthorizedHook,
  unknownHook
} from "./HookRefusals.js"

const requests = MetricSpec.counter("webhook_requests_total", "Webhooks by bot or source and outcome.", [
  "bot",
  "outcome"
])

/** Outcome labels of accepted deliveries. */
const outcomes: Readonly<Record<Received["_tag"], string>> = {
  Stored: "stored",
  Duplicate: "duplicate",
  Answered: "answered",
  Prompted: "prompted",
  Dropped: "dropped",
  Ignored: "ignored",
  Apologized: "failed"
}

export const prefix = "/hooks/"
const telegramPrefix = `${prefix}telegram/`

/** Minimum time between two error lines: while the database is unavailable, every delivery fails. */
const quietMillis = 5_000

/** Receives webhooks. Uses node's request objects directly, for speed. */
export class WebhookEndpoint extends Context.Tag("nightshift/http/WebhookEndpoint")<
  WebhookEndpoint,
  {
    /** Handles a request whose path starts with `/hooks/`. */
    readonly take: (request: IncomingMessage, response: ServerResponse) => void
  }
>() {
  static readonly layer: Layer.Layer<
    WebhookEndpoint,
    never,
    Bots | WebhookIntake | Deliveries | Metrics | ServerConfig
  > = Layer.suspend(() => Layer.scoped(WebhookEndpoint, make))
}

/** The target of a request: its name in metrics, its recent deliveries, and its counters by outcome. */
interface Hook {
  readonly name: string
  readonly book: DeliveryBook | undefined
  readonly counters: Map<string, Series>
}

const usualType = "application/json"

const pathOf = ({ url = "" }: IncomingMessage) => {
  const query = url.indexOf("?")
  return query === -1 ? url : url.slice(0, query)
}

const forwardedFor = ({ headers }: IncomingMessage): string | undefined => {
  const value = headers["x-forwarded-for"]
  return Array.isArray(value) ? value.join(",") : value
}

const noBody = { "content-length": 0 }

/** Acknowledges a delivery. The optional body is a Bot API method that Telegram executes. */
const accept = (response: ServerResponse, body: string | undefined): void => {
  if (body === undefined) response.writeHead(200, noBody).end()
  else {
    const headers = { ...common, "content-type": "application/json", "content-length": Buffer.byteLength(body) }
    response.writeHead(200, headers).end(body)
  }
}

const hasBody = ({ headers }: IncomingMessage) =>
  headers["transfer-encoding"] !== undefined || (headers["content-length"] ?? "0") !== "0"

const make = Effect.gen(function* () {
  const bots = yield* Bots
  const intake = yield* WebhookIntake
  const deliveries = yield* Deliveries
  const metrics = yield* Metrics
  const clock = yield* Effect.clock
  const now = () => clock.unsafeCurrentTimeMillis()
  const fork = Runtime.runFork(yield* Effect.runtime<never>())
  // Separate memory limits: senders authenticated by a header do not compete with senders that are verified only after
  // the body is read.
  const readers = { known: new BodyReader(now), unknown: new BodyReader(now) }
  const addressOf = ClientAddress.make((yield* ServerConfig).trustProxy)
  const refusals = new HookRefusals(now)
  const noHook: Hook = { name: "", book: undefined, counters: new Map() }
  const hooks = new WeakMap<Bot | Source, Hook>()
  let quietUntil = 0

  const hookOf = (target: Bot | Source, name: string, path: string): Hook => {
    const known = hooks.get(target)
    if (known !== undefined) return known
    const hook = { name, book: deliveries.book(path), counters: new Map() }
    hooks.set(target, hook)
    return hook
  }

  const sweep = Effect.sync(() => {
    readers.known.sweep()
    readers.unknown.sweep()
    refusals.sweep()
  })
  yield* Effect.forkScoped(
    repeated({ name: "hooks", schedule: Schedule.spaced("500 millis"), runAtStart: true, run: sweep })
  )

  const count = ({ book, counters, name }: Hook, outcome: string, at = now()) => {
    let known = counters.get(outcome)
    if (known === undefined) {
      known = metrics.series(requests, { bot: name, outcome })
      counters.set(outcome, known)
    }
    known.add(1)
    book?.count(outcome, at)
  }

  /** Rejects a request without reading its body. */
  const reject = (hook: Hook, request: IncomingMessage, response: ServerResponse, refused: Refused) => {
    count(hook, refused.outcome)
    if (hasBody(request)) refusals.refuseUnread(request, response, refused)
    else refusals.refuse(response, refused)
  }

  const refuse = (hook: Hook, response: ServerResponse, refused: Refused) => {
    count(hook, refused.outcome)
    refusals.refuse(response, refused)
  }

  const logFailure = (name: string, cause: Cause.Cause<WebhookIntakeError>) => {
    if (now() < quietUntil || Cause.isInterruptedOnly(cause)) return
    quietUntil = now() + quietMillis
    fork(Effect.annotateLogs(Effect.logError("could not handle a webhook", cause), { bot: name }))
  }

  /** Responds to a delivery when its result is known. `id` is the sender's. */
  const answer = (hook: Hook, response: ServerResponse, id: string, exit: Exit.Exit<Received, WebhookIntakeError>) => {
    if (Exit.isSuccess(exit)) {
      const outcome = outcomes[exit.value._tag]
      const at = now()
      count(hook, outcome, at)
      accept(response, "body" in exit.value ? exit.value.body : undefined)
      hook.book?.note(id, outcome, "job" in exit.value ? exit.value.job : undefined, at)
    } else {
      logFailure(hook.name, exit.cause)
      const refused = intakeRefused(exit)
      refuse(hook, response, refused)
      hook.book?.note(id, refused.outcome, undefined, now())
    }
  }

  /** Checks the headers, then reads the complete body. */
  const read = (
    reader: BodyReader,
    hook: Hook,
    request: IncomingMessage,
    response: ServerResponse,
    whole: (body: Buffer) => void
  ) => {
    const { headers } = request
    const type = headers["content-type"]
    if (type !== usualType || headers["content-encoding"] !== undefined) {
      const unsupported = refusedType(type, headers["content-encoding"])
      if (unsupported !== undefined) return reject(hook, request, response, typeRefused(unsupported))
    }
    if (Number(headers["content-length"] ?? 0) > maxDeliveryBytes) {
      return reject(hook, request, response, bodyRefused.TooLarge)
    }
    if (headers.expect !== undefined) response.writeContinue()
    const address = () => ClientAddress.group(addressOf(request.socket.remoteAddress, forwardedFor(request)))
    reader.read(request, { hook: hook.name, address }, (body) => {
      if (typeof body === "string") reject(hook, request, response, bodyRefused[body])
      else whole(body)
    })
  }

  const takeUpdate = (bot: Bot, request: IncomingMessage, response: ServerResponse) => {
    const hook = hookOf(bot, bot.slug, `telegram/${bot.slug}`)
    if (request.method !== "POST") return reject(hook, request, response, methodRefused)
    const secret = request.headers["x-telegram-bot-api-secret-token"]
    if (!isSecretOf(bot, typeof secret === "string" ? secret : "")) {
      const message = "The header X-Telegram-Bot-Api-Secret-Token does not match the bot's secret."
      return reject(hook, request, response, unauthorizedHook(message))
    }
    read(readers.known, hook, request, response, (body) => {
      const parsed = parse(body)
      if ("fault" in parsed) {
        return refuse(hook, response, invalidDelivery(`The body is not JSON: ${parsed.fault}.`))
      }
      const { text, value: update } = parsed
      if (!isUpdate(update)) {
        const message = "The body must be an update: an object with an integer update_id."
        return refuse(hook, response, invalidDelivery(message))
      }
      intake.receive(bot, update, (exit) => answer(hook, response, String(update.update_id), exit), text)
    })
  }

  const takeDelivery = (source: Source, request: IncomingMessage, response: ServerResponse) => {
    const { keys, name, style } = source
    const { headers } = request
    const hook = hookOf(source, name, name)
    if (request.method !== "POST") return reject(hook, request, response, methodRefused)
    const early = SignedSources.preVerify(style, headers, now())
    if (early._tag === "Refused") return reject(hook, request, response, unauthorizedHook(early.reason))
    read(readers.unknown, hook, request, response, (body) => {
      const verdict = SignedSources.verify(style, keys, headers, body, now())
      if (verdict._tag === "Refused") return refuse(hook, response, unauthorizedHook(verdict.reason))
      const parsed = parse(body)
      if ("fault" in parsed) return refuse(hook, response, invalidDelivery(`The body is not JSON: ${parsed.fault}.`))
      const { event, id } = SignedSources.deliveryOf(style, headers, parsed.value)
      if (id === undefined || id.length > 256) {
        return refuse(
          hook,
          response,
          invalidDelivery(
            "The delivery must have an id of at most 256 characters, which is needed to detect redeliveries."
          )
        )
      }
      intake.deliver(source, { id, event, body: parsed.value, text: parsed.text }, (exit) =>
        answer(hook, response, id, exit)
      )
    })
  }

  return WebhookEndpoint.of({
    take: (request, response) => {
      const path = pathOf(request)
      const bot = path.startsWith(telegramPrefix) ? bots.bot(path.slice(telegramPrefix.length)) : undefined
      if (bot !== undefined) return takeUpdate(bot, request, response)
      const source = bots.source(path.slice(prefix.length))
      if (source !== undefined) return takeDelivery(source, request, response)
      reject(noHook, request, response, unknownHook(path))
    }
  })
})
