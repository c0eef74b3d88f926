import type { IncomingMessage, ServerResponse } from "node:http"
import { Cause, Context, Effect, Exit, Fiber, Layer, Runtime, Schedule } from "effect"
import { type Bot, Bots, type Source } from "../../gateway/Bots.js"
import { isAmongShort } from "../../gateway/ConstantTime.js"
import { type Received, Reception, type ReceptionError, type Tell } from "../../gateway/Reception.js"
import * as SignedSources from "../../gateway/SignedSources.js"
import type { SourceDelivery } from "../../gateway/SourceJob.js"
import { isUpdate, type Update } from "../../gateway/telegram/TelegramUpdate.js"
import type { Series } from "../../telemetry/MetricFamily.js"
import * as MetricSpec from "../../telemetry/MetricSpec.js"
import { Metrics } from "../../telemetry/Metrics.js"
import { type Arrived, Gathering } from "./Gathering.js"
import { HookAnswers } from "./HookAnswers.js"
import { BodyReader, mostBytes, parse, refusedType } from "./HookBody.js"
import * as HookRefusals from "./HookRefusals.js"

const requests = MetricSpec.counter("webhook_requests_total", "Webhooks by bot or source and what became of them.", [
  "bot",
  "outcome"
])

/** The words under which deliveries are counted that were taken. */
const outcomes: Readonly<Record<Received["_tag"], string>> = {
  Stored: "stored",
  Duplicate: "duplicate",
  Answered: "answered",
  Prompted: "prompted",
  Dropped: "dropped",
  Apologized: "failed"
}

export const prefix = "/hooks/"
const telegramPrefix = `${prefix}telegram/`

/** While the database is away every delivery fails: one line in so long says so. */
const quietMillis = 5_000

/** Where webhooks arrive. It works on node's own objects up to the point where something must be done with a delivery. */
export class HooksDoor extends Context.Tag("nightshift/http/HooksDoor")<
  HooksDoor,
  {
    /** Answers a request whose path begins with `/hooks/`. */
    readonly take: (request: IncomingMessage, response: ServerResponse) => void
  }
>() {
  static readonly layer: Layer.Layer<HooksDoor, never, Bots | Reception | Metrics> = Layer.suspend(() =>
    Layer.scoped(HooksDoor, make)
  )
}

/** What is done with deliveries that arrived together. */
type Work<A> = (items: ReadonlyArray<A>, tell: Tell) => Effect.Effect<void>

const pathOf = ({ url = "" }: IncomingMessage) => {
  const query = url.indexOf("?")
  return query === -1 ? url : url.slice(0, query)
}

const hasBody = ({ headers }: IncomingMessage) =>
  headers["transfer-encoding"] !== undefined || (headers["content-length"] ?? "0") !== "0"

const make = Effect.gen(function* () {
  const bots = yield* Bots
  const reception = yield* Reception
  const metrics = yield* Metrics
  const clock = yield* Effect.clock
  const now = () => clock.unsafeCurrentTimeMillis()
  const fork = Runtime.runFork(yield* Effect.runtime<never>())
  const running = new Set<Fiber.RuntimeFiber<unknown, unknown>>()
  yield* Effect.addFinalizer(() => Fiber.interruptAll(running))
  const reader = new BodyReader(now)
  const answers = new HookAnswers(now)
  const counted = new Map<string, Series>()
  let quietUntil = 0

  yield* Effect.forkScoped(
    Effect.repeat(
      Effect.sync(() => {
        reader.sweep()
        answers.sweep()
      }),
      Schedule.spaced("500 millis")
    )
  )

  const count = (bot: string, outcome: string) => {
    const key = `${bot} ${outcome}`
    const known = counted.get(key) ?? metrics.series(requests, { bot, outcome })
    counted.set(key, known)
    known.add(1)
  }

  /** Says no before the body was read, and does not read it any more. */
  const turnAway = (
    name: string,
    request: IncomingMessage,
    response: ServerResponse,
    refused: HookRefusals.Refused
  ) => {
    count(name, refused.outcome)
    if (hasBody(request)) answers.refuseUnread(request, response, refused)
    else answers.refuse(response, refused)
  }

  const refuse = (name: string, response: ServerResponse, refused: HookRefusals.Refused) => {
    count(name, refused.outcome)
    answers.refuse(response, refused)
  }

  const complain = (name: string, cause: Cause.Cause<ReceptionError>) => {
    if (now() < quietUntil || Cause.isInterruptedOnly(cause)) return
    quietUntil = now() + quietMillis
    fork(Effect.annotateLogs(Effect.logError("a webhook could not be taken in", cause), { bot: name }))
  }

  const answer = (name: string, response: ServerResponse, exit: Exit.Exit<Received, ReceptionError>) => {
    if (Exit.isSuccess(exit)) {
      count(name, outcomes[exit.value._tag])
      answers.accept(response, "body" in exit.value ? exit.value.body : undefined)
    } else {
      complain(name, exit.cause)
      refuse(name, response, HookRefusals.reception(exit))
    }
  }

  /** Runs what is to be done with deliveries, and answers each when it is done. */
  const settle = <A>(name: string, waiting: ReadonlyArray<Arrived<A>>, work: Work<A>) => {
    const open = new Set(waiting.keys())
    const tell: Tell = (place, exit) => {
      const arrived = waiting[place]
      if (arrived !== undefined && open.delete(place)) answer(name, arrived.response, exit)
    }
    const items = waiting.map(({ item }) => item)
    const fiber = fork(Effect.suspend(() => work(items, tell)))
    running.add(fiber)
    fiber.addObserver((exit) => {
      running.delete(fiber)
      if (Exit.isSuccess(exit)) return
      for (const place of open) tell(place, Exit.failCause(exit.cause))
    })
  }

  const updates = new Gathering<Bot, Update>((bot, waiting) =>
    settle(bot.slug, waiting, (items, tell) => reception.receive(bot, items, tell))
  )
  const deliveries = new Gathering<Source, SourceDelivery>((source, waiting) =>
    settle(source.name, waiting, (items, tell) => reception.deliver(source, items, tell))
  )

  /** Reads the body of a request that may be read, and hands it on whole. */
  const read = (name: string, request: IncomingMessage, response: ServerResponse, whole: (body: Buffer) => void) => {
    const odd = refusedType(request)
    if (odd !== undefined) return turnAway(name, request, response, HookRefusals.type(odd))
    if (Number(request.headers["content-length"] ?? 0) > mostBytes) {
      return turnAway(name, request, response, HookRefusals.body.TooLarge)
    }
    if (request.headers.expect !== undefined) response.writeContinue()
    reader.read(request, (body) => {
      if (typeof body === "string") turnAway(name, request, response, HookRefusals.body[body])
      else whole(body)
    })
  }

  const takeUpdate = (bot: Bot, request: IncomingMessage, response: ServerResponse) => {
    if (request.method !== "POST") return turnAway(bot.slug, request, response, HookRefusals.method)
    const secret = request.headers["x-telegram-bot-api-secret-token"]
    if (!isAmongShort(typeof secret === "string" ? secret : "", bot.known)) {
      const message = "The header X-Telegram-Bot-Api-Secret-Token does not hold the bot's secret."
      return turnAway(bot.slug, request, response, HookRefusals.unauthorized(message))
    }
    read(bot.slug, request, response, (body) => {
      const parsed = parse(body)
      if ("fault" in parsed) {
        return refuse(bot.slug, response, HookRefusals.invalid(`The body is not JSON: ${parsed.fault}.`))
      }
      if (!isUpdate(parsed.value)) {
        const message = "The body must be an update: an object with a whole number as its update_id."
        return refuse(bot.slug, response, HookRefusals.invalid(message))
      }
      updates.add(bot, { item: parsed.value, response })
    })
  }

  const takeDelivery = (source: Source, request: IncomingMessage, response: ServerResponse) => {
    const { keys, name, style } = source
    const { headers } = request
    if (request.method !== "POST") return turnAway(name, request, response, HookRefusals.method)
    if (!SignedSources.isSigned(style, headers)) {
      return turnAway(name, request, response, HookRefusals.unauthorized("The delivery is not signed."))
    }
    read(name, request, response, (body) => {
      const verdict = SignedSources.verify(style, keys, headers, body, now())
      if (verdict._tag === "Refused") return refuse(name, response, HookRefusals.unauthorized(verdict.reason))
      const parsed = parse(body)
      if ("fault" in parsed)
        return refuse(name, response, HookRefusals.invalid(`The body is not JSON: ${parsed.fault}.`))
      const { event, id } = SignedSources.deliveryOf(style, headers, parsed.value)
      if (id === undefined || id.length > 256) {
        return refuse(name, response, HookRefusals.invalid("The delivery has no id by which it could be known again."))
      }
      deliveries.add(source, { item: { id, event, body: parsed.value }, response })
    })
  }

  return HooksDoor.of({
    take: (request, response) => {
      const path = pathOf(request)
      const bot = path.startsWith(telegramPrefix) ? bots.bot(path.slice(telegramPrefix.length)) : undefined
      if (bot !== undefined) return takeUpdate(bot, request, response)
      const source = bots.source(path.slice(prefix.length))
      if (source !== undefined) return takeDelivery(source, request, response)
      turnAway("", request, response, HookRefusals.nobody(path))
    }
  })
})
