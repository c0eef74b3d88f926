import { Duration, Effect, Predicate } from "effect"
import * as Outcome from "../core/Outcome.js"
import { type BotHandler, EndedOtherwise } from "./BotHandler.js"
import type { HandlerChoice } from "./config/Declarations.js"
import type * as HttpExchange from "./fetch/HttpExchange.js"
import { SafeFetch } from "./fetch/SafeFetch.js"
import { UpstreamEmpty, UpstreamNotJson, UpstreamRefused, UpstreamWithoutText } from "./fetch/UpstreamErrors.js"
import * as Reply from "./telegram/Reply.js"

type Target = Extract<HandlerChoice, { readonly _tag: "Http" }>
type Unusable = UpstreamRefused | UpstreamEmpty | UpstreamNotJson | UpstreamWithoutText

/** No upstream may keep a bot waiting for longer. */
const longestPause = 3600

const pauseOf = (header: string | undefined): number | undefined =>
  header !== undefined && /^\d{1,9}$/.test(header) ? Math.min(Number(header), longestPause) : undefined

/** What an upstream says as a reply, or why it cannot be one. */
const replyIn = (host: string, answer: HttpExchange.Answer): Effect.Effect<Reply.Reply | undefined, Unusable> => {
  const { body, headers, status } = answer
  if (status < 200 || status > 299) {
    const retryAfter = pauseOf(headers["retry-after"])
    return new UpstreamRefused({ host, status, ...(retryAfter === undefined ? {} : { retryAfter }) })
  }
  if (status === 204) return Effect.succeed(undefined)
  if (body.length === 0) return new UpstreamEmpty({ host, status })
  const encoding = headers["content-encoding"]
  if (encoding !== undefined && encoding !== "identity") {
    return new UpstreamNotJson({ host, reason: "it is compressed, which was not asked for" })
  }
  return Effect.flatMap(
    Effect.try({
      try: (): unknown => JSON.parse(body.toString("utf8")),
      catch: () => new UpstreamNotJson({ host, reason: "it cannot be parsed" })
    }),
    (value) =>
      Predicate.hasProperty(value, "text") && typeof value.text === "string"
        ? Effect.succeed(Reply.make(value.text))
        : new UpstreamWithoutText({ host })
  )
}

/** Upstreams limit by who asks, and that is the whole bot: all of it waits, where it can. */
const throttled = (error: Unusable) =>
  error._tag === "UpstreamRefused" && error.status === 429 && error.retryAfter !== undefined
    ? new EndedOtherwise({ outcome: Outcome.throttled({ after: Duration.seconds(error.retryAfter), scope: "queue" }) })
    : error

/** Asks a url what to say: posts the update as JSON, expects `{"text": …}` or 204. */
export const make = ({ redirects, timeout, url }: Target): Effect.Effect<BotHandler, never, SafeFetch> =>
  Effect.map(SafeFetch, (safeFetch) => ({
    handle: ({ update }) =>
      safeFetch
        .post({ url, json: JSON.stringify(update), timeout, redirects })
        .pipe(Effect.flatMap((answer) => Effect.mapError(replyIn(url.host, answer), throttled)))
  }))
