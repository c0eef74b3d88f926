import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Effect, Layer } from "effect"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { type Bot, Bots, type Source } from "../../gateway/Bots.js"
import { kindOf, queueOf } from "../../gateway/config/Declarations.js"
import { Deliveries, type DeliveryBook } from "../../gateway/Deliveries.js"
import { DeliveryLog, type Logged } from "../../gateway/DeliveryLog.js"
import type { JobOverview } from "../../queue/search/JobOverview.js"
import type { JobSearch } from "../../queue/search/JobSearch.js"
import { Api } from "../Api.js"
import * as Instant from "../Instant.js"
import * as Problem from "../Problem.js"
import { NotFound } from "../RequestErrors.js"
import type { BotView, SourceView } from "./BotsContract.js"

const hookOf = (hook: string, { counts, lastSeenAt }: DeliveryBook) => ({
  path: `/hooks/${hook}`,
  counts,
  lastSeenAt: lastSeenAt === undefined ? null : Instant.format(lastSeenAt)
})

/** Copies field by field, so no secret can leak. A URL may contain a secret, so only its host is returned. */
const botOf = (bot: Bot, book: DeliveryBook): BotView => {
  const { chatOrder, handler, onError, requireAuth, slug } = bot
  return {
    slug,
    ...hookOf(`telegram/${slug}`, book),
    handler: handler._tag === "Kind" ? handler.kind : handler._tag.toLowerCase(),
    target: handler._tag === "Http" ? handler.url.host : null,
    mode: bot.async ? "async" : "sync",
    requireAuth,
    chatOrder,
    onError,
    queue: bot.async ? queueOf(slug) : null,
    kind: bot.async ? kindOf(slug) : null
  }
}

const sourceOf = ({ kind, name, style }: Source, book: DeliveryBook): SourceView => ({
  name,
  ...hookOf(name, book),
  style,
  kind
})

const logOf = ({ complete, deliveries }: Logged) => ({
  complete,
  deliveries: deliveries.map(({ firstSeenAt, id, job, lastSeenAt, outcome, redelivered }) => ({
    id,
    firstSeenAt: Instant.format(firstSeenAt),
    lastSeenAt: Instant.format(lastSeenAt),
    redelivered,
    outcome,
    job: job === undefined ? null : { id: job.id, state: job.state ?? null }
  }))
})

/** Runs the route for a declared name, or fails with `NotFound`. */
const declared = <A>(
  found: A | undefined,
  url: string,
  log: (found: A) => Effect.Effect<Logged, DatabaseError>
): Effect.Effect<Logged, NotFound | DatabaseError> =>
  found === undefined ? new NotFound({ method: "GET", path: url.split("?")[0] ?? "" }) : log(found)

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "bots">,
  never,
  Bots | Deliveries | JobSearch | JobOverview
> = HttpApiBuilder.group(Api, "bots", (handlers) =>
  Effect.gen(function* () {
    const bots = yield* Bots
    const { book, since } = yield* Deliveries
    const log = yield* DeliveryLog
    return handlers
      .handle("list", () =>
        Effect.sync(() => ({
          since: Instant.format(since),
          bots: bots.all().map((bot) => botOf(bot, book(`telegram/${bot.slug}`))),
          sources: bots.sources().map((source) => sourceOf(source, book(source.name)))
        }))
      )
      .handle("deliveries", ({ path: { slug }, request }) =>
        declared(bots.bot(slug), request.url, log.ofBot).pipe(Effect.map(logOf), Problem.catchErrors)
      )
      .handle("sourceDeliveries", ({ path: { name }, request }) =>
        declared(bots.source(name), request.url, log.ofSource).pipe(Effect.map(logOf), Problem.catchErrors)
      )
  })
).pipe(Layer.provide(DeliveryLog.layer))
