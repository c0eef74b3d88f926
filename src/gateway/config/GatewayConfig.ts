import { Context, type Duration, Effect, Either, Layer, type Option, type Redacted } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as HttpUrl from "../../core/HttpUrl.js"
import * as Setting from "../../core/Setting.js"
import * as Allowance from "./Allowance.js"

const readUsers = (words: ReadonlyArray<string>) =>
  words.every((word) => /^\d{1,15}$/.test(word))
    ? Either.right(words)
    : Either.left("comma-separated Telegram user ids, which are numbers")

const readAllowance = (words: ReadonlyArray<string>) =>
  words.every(Allowance.isRule)
    ? Either.right(words)
    : Either.left("comma-separated host names, addresses or ranges like 10.0.0.0/8, each with an optional port")

const readApiUrl = (text: string) => {
  const url = HttpUrl.parse(text)
  const plain = url !== undefined && url.username === "" && url.search === "" && url.hash === ""
  return plain ? Either.right(text.replace(/\/+$/, "")) : Either.left("a URL like https://api.telegram.org")
}

export const settings = {
  file: Setting.optionalText({
    key: "NIGHTSHIFT_BOTS",
    about:
      "File that declares bots, webhook sources and kinds that are sent to a URL. If unset, `bots.yaml` is used if it exists."
  }),
  authSecret: Setting.secret({
    key: "AUTH_SECRET",
    about: "Code that users send with `/auth` to sign in. Required by bots with `requireAuth` or `handler: auth`."
  }),
  sessionTtl: Setting.positiveDuration(
    { key: "AUTH_SESSION_TTL", about: "How long a sign-in by `/auth` lasts. Values of 0 or less use the default." },
    "24h"
  ),
  allowedUsers: Setting.list(
    {
      key: "ALLOWED_USERS",
      about: "Comma-separated Telegram user ids that bots respond to. If unset, bots respond to everyone."
    },
    readUsers
  ),
  httpAllow: Setting.list(
    {
      key: "HTTP_HANDLER_ALLOW",
      about:
        "Comma-separated private hosts, addresses and ranges that `handler: http`, pushed jobs and webhooks to customers may reach."
    },
    readAllowance
  ),
  endpointDisableAfter: Setting.duration(
    {
      key: "ENDPOINT_DISABLE_AFTER",
      about:
        "Disables an endpoint of a customer when all attempts to send to it have failed for this long, and at least ten. 0 never does."
    },
    "5d"
  ),
  telegramApi: Setting.text(
    { key: "TELEGRAM_API_URL", about: "Base URL of the Telegram Bot API." },
    "https://api.telegram.org",
    readApiUrl
  )
}

/** Settings of the gateway. */
export class GatewayConfig extends Context.Tag("nightshift/gateway/GatewayConfig")<
  GatewayConfig,
  {
    readonly file: Option.Option<string>
    readonly authSecret: Option.Option<Redacted.Redacted>
    readonly sessionTtl: Duration.Duration
    /** Undefined allows everyone. */
    readonly allowedUsers: ReadonlySet<number> | undefined
    readonly httpAllow: Allowance.Allowance
    readonly telegramApi: URL
  }
>() {
  static readonly layer: Layer.Layer<GatewayConfig, ConfigError> = Layer.effect(
    GatewayConfig,
    Effect.map(Setting.group(settings), (values) => ({
      ...values,
      allowedUsers: values.allowedUsers.length === 0 ? undefined : new Set(values.allowedUsers.map(Number)),
      httpAllow: Allowance.make(values.httpAllow),
      telegramApi: new URL(values.telegramApi)
    }))
  )
}
