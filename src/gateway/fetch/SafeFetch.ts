import * as Http from "node:http"
import * as Https from "node:https"
import { Context, type Duration, Effect, Layer } from "effect"
import * as DurationText from "../../core/DurationText.js"
import { GatewayConfig } from "../config/GatewayConfig.js"
import * as GuardedLookup from "./GuardedLookup.js"
import * as HttpExchange from "./HttpExchange.js"
import {
  AddressRefused,
  UpstreamRedirected,
  UpstreamTimeout,
  UpstreamTooLarge,
  UpstreamUnreachable
} from "./UpstreamErrors.js"

/** The most of an answer that is read. */
const mostBytes = 1024 * 1024

export interface SafeRequest {
  readonly url: URL
  /** Sent as it is. */
  readonly json: string
  /** For everything together: look-up, connection, redirects, the whole answer. */
  readonly timeout: Duration.Duration
  /** How many redirects are followed. */
  readonly redirects: number
}

type Failure = AddressRefused | UpstreamUnreachable | UpstreamTimeout | UpstreamTooLarge | UpstreamRedirected

/** Requests to urls that somebody else chose. */
export class SafeFetch extends Context.Tag("nightshift/gateway/SafeFetch")<
  SafeFetch,
  {
    /** Posts JSON. Only public addresses are dialled, and those that HTTP_HANDLER_ALLOW lists, at every hop. */
    readonly post: (request: SafeRequest) => Effect.Effect<HttpExchange.Answer, Failure>
  }
>() {
  static readonly layer: Layer.Layer<SafeFetch, never, GatewayConfig> = Layer.suspend(() => make)
}

const make: Layer.Layer<SafeFetch, never, GatewayConfig> = Layer.scoped(
  SafeFetch,
  Effect.gen(function* () {
    const { httpAllow } = yield* GatewayConfig
    // Connections are kept by host, and were checked when they were made.
    const agents = yield* Effect.acquireRelease(
      Effect.sync(() => ({
        "http:": new Http.Agent({ keepAlive: true, maxFreeSockets: 16 }),
        "https:": new Https.Agent({ keepAlive: true, maxFreeSockets: 16 })
      })),
      (all) => Effect.sync(() => Object.values(all).forEach((agent) => void agent.destroy()))
    )

    const failureOf = ({ cause, code }: HttpExchange.ExchangeFailed, { host }: URL) => {
      if (cause instanceof AddressRefused) return cause
      return code === HttpExchange.tooLong
        ? new UpstreamTooLarge({ host, mostBytes })
        : new UpstreamUnreachable({ host, code })
    }

    const hop = (url: URL, json: string) => {
      const refusal = GuardedLookup.refusalOf(url, httpAllow)
      if (refusal !== undefined) return Effect.fail(refusal)
      const request = {
        url,
        body: json,
        mostBytes,
        agent: url.protocol === "https:" ? agents["https:"] : agents["http:"],
        lookup: GuardedLookup.make(url, httpAllow),
        // Nothing compressed: what unpacks to a thousand times its length would pass every limit on the way.
        headers: { "content-type": "application/json", accept: "application/json", "accept-encoding": "identity" }
      }
      return Effect.mapError(HttpExchange.post(request), (failed) => failureOf(failed, url))
    }

    /** Where an answer points, if it may be followed there with the same body. */
    const nextOf = (answer: HttpExchange.Answer, url: URL, left: number) => {
      const refuse = (reason: string) => new UpstreamRedirected({ host: url.host, status: answer.status, reason })
      const { location = "" } = answer.headers
      if (left === 0) return refuse("redirects are not followed, unless http.redirects says how many")
      if (answer.status !== 307 && answer.status !== 308)
        return refuse("only 307 and 308 keep the body, so only they are followed")
      const next = URL.canParse(location, url.href) ? new URL(location, url) : undefined
      if (next === undefined || !/^https?:$/.test(next.protocol))
        return refuse("it does not say where in http or https")
      if (url.protocol === "https:" && next.protocol === "http:") return refuse("from https to http")
      return next
    }

    const follow = (url: URL, json: string, left: number): Effect.Effect<HttpExchange.Answer, Failure> =>
      Effect.flatMap(hop(url, json), (answer) => {
        if (answer.status < 300 || answer.status > 399) return Effect.succeed(answer)
        const next = nextOf(answer, url, left)
        return next instanceof URL ? follow(next, json, left - 1) : Effect.fail(next)
      })

    return {
      post: ({ json, redirects, timeout, url }) =>
        Effect.timeoutFail(follow(url, json, redirects), {
          duration: timeout,
          onTimeout: () => new UpstreamTimeout({ host: url.host, after: DurationText.format(timeout) })
        })
    }
  })
)
