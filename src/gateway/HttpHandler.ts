import { Clock, Duration, Effect, Predicate } from "effect"
import * as Outcome from "../core/Outcome.js"
import { type BotHandler, NonReplyOutcome } from "./BotHandler.js"
import type { HandlerChoice } from "./config/Declarations.js"
import type * as HttpExchange from "./fetch/HttpExchange.js"
import * as RetryAfter from "./fetch/RetryAfter.js"
import { SafeFetch } from "./fetch/SafeFetch.js"
import { UpstreamEmpty, UpstreamNotJson, UpstreamRefused, UpstreamWithoutText } from "./fetch/UpstreamErrors.js"
import * as Reply from "./telegram/Reply.js"

type Target = Extract<HandlerChoice, { readonly _tag: "Http" }>
type Unusable = UpstreamRefused | UpstreamEmpty | UpstreamNotJson | UpstreamWithoutText

/** Parses an upstream's response as a reply. */
const replyIn = (
  host: string,
  response: HttpExchange.Response,
  now: number
): Effect.Effect<Reply.Reply | undefined, Unusable> => {
  const { body, headers, status } = response
  if (status < 200 || status > 299) {
    const retryAfter = RetryAfter.secondsIn(headers["retry-after"], now)
    return new UpstreamRefused({ host, status, ...(retryAfter === undefined ? {} : { retryAfter }) })
  }
  if (status === 204) return Effect.succeed(undefined)
  if (body.length === 0) return new UpstreamEmpty({ host, status })
  const encoding = headers["content-encoding"]
  if (encoding !== undefined && encoding !== "identity") {
    return new UpstreamNotJson({ host, reason: "the body is compressed although the request did not allow it" })
  }
  return Effect.flatMap(
    Effect.try({
      try: (): unknown => JSON.parse(body.toString("utf8")),
      catch: () => new UpstreamNotJson({ host, reason: "parsing failed" })
    }),
    (value) =>
      Predicate.hasProperty(value, "text") && typeof value.text === "string"
        ? Effect.succeed(Reply.make(value.text))
        : new UpstreamWithoutText({ host })
  )
}

/** An upstream's rate limit applies to the bot, not to one chat, so the bot's whole queue waits. */
const throttled = (error: Unusable) =>
  error._tag === "UpstreamRefused" && error.status === 429 && error.retryAfter !== undefined
    ? new NonReplyOutcome({ outcome: Outcome.throttled({ after: Duration.seconds(error.retryAfter), scope: "queue" }) })
    : error

/** Makes a handler that posts the update as JSON to a URL and expects `{"text": …}` or 204. */
export const make = ({ redirects, timeout, url }: Target): Effect.Effect<BotHandler, never, SafeFetch> =>
  Effect.map(SafeFetch, (safeFetch) => ({
    handle: ({ update }) =>
      safeFetch.post({ url, json: JSON.stringify(update), timeout, redirects }).pipe(
        Effect.zip(Clock.currentTimeMillis),
        Effect.flatMap(([response, now]) => Effect.mapError(replyIn(url.host, response, now), throttled))
      )
  }))
