import { Duration, Effect, identity, Option } from "effect"
import { storableText } from "../../core/Storable.js"
import * as Allowance from "../config/Allowance.js"
import { settings } from "../config/GatewayConfig.js"
import type { Response } from "../fetch/HttpExchange.js"
import * as RetryAfter from "../fetch/RetryAfter.js"
import * as SafeFetch from "../fetch/SafeFetch.js"

// What pushed jobs and webhooks to customers share.

/** Characters of a response that an error quotes. */
const quotedCharacters = 1_000

/** The beginning of a response, for an error or a result. Without characters that cannot be stored, and with `mask` applied before it is cut. */
export const quoted = ({ body }: Response, mask: (text: string) => string = identity): string =>
  storableText(mask(body.toString("utf8")), quotedCharacters).trim()

/** The error of a response that is no success, with what it said. */
export const failureOf = (host: string, { status }: Response, said: string): string => {
  const why = status >= 300 && status < 400 ? ", a redirect, which is not followed" : ""
  return `${host} responded ${status}${why}${said === "" ? "." : `: ${said}`}`
}

/** The delay that a response asks for: at most an hour, unless `most` says otherwise. */
export const waitIn = ({ headers }: Response, now: number, most?: number): Duration.Duration | undefined => {
  const seconds = RetryAfter.secondsIn(headers["retry-after"], now, most)
  return seconds === undefined ? undefined : Duration.seconds(seconds)
}

/** A client that reaches public addresses, and those of HTTP_HANDLER_ALLOW. */
const newClient = Effect.flatMap(settings.httpAllow.config, (rules) => SafeFetch.make(Allowance.make(rules)))

/** The client of the process, or else a new one. */
export const client = Effect.flatMap(
  Effect.serviceOption(SafeFetch.SafeFetch),
  Option.match({ onNone: () => newClient, onSome: Effect.succeed })
)
