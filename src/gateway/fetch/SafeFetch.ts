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

/** Maximum size of a response. */
const mostBytes = 1024 * 1024

export interface SafeRequest {
  readonly url: URL
  /** The request body, sent unchanged. */
  readonly json: string
  /** Total time for lookup, connection, redirects and the complete response. */
  readonly timeout: Duration.Duration
  /** Maximum number of redirects. */
  readonly redirects: number
}

type Failure = AddressRefused | UpstreamUnreachable | UpstreamTimeout | UpstreamTooLarge | UpstreamRedirected

/** HTTP client for configured URLs, protected against requests to private addresses (SSRF). */
export class SafeFetch extends Context.Tag("nightshift/gateway/SafeFetch")<
  SafeFetch,
  {
    /** Posts JSON. Every hop may connect only to public addresses and those listed in HTTP_HANDLER_ALLOW. */
    readonly post: (request: SafeRequest) => Effect.Effect<HttpExchange.Answer, Failure>
  }
>() {
  static readonly layer: Layer.Layer<SafeFetch, never, GatewayConfig> = Layer.suspend(() => make)
}

const make: Layer.Layer<SafeFetch, never, GatewayConfig> = Layer.scoped(
  SafeFetch,
  Effect.gen(function* () {
    const { httpAllow } = yield* GatewayConfig
    // Kept-alive connections are pooled by host, and their addresses were checked when they were opened.
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
        // No compression: a small compressed body can expand far beyond the size limit.
        headers: { "content-type": "application/json", accept: "application/json", "accept-encoding": "identity" }
      }
      return Effect.mapError(HttpExchange.post(request), (failed) => failureOf(failed, url))
    }

    /** Returns the redirect target, or why the redirect is not followed. */
    const nextOf = (answer: HttpExchange.Answer, url: URL, left: number) => {
      const refuse = (reason: string) => new UpstreamRedirected({ host: url.host, status: answer.status, reason })
      const { location = "" } = answer.headers
      if (left === 0) return refuse("the limit on redirects is reached; raise http.redirects to follow more")
      if (answer.status !== 307 && answer.status !== 308)
        return refuse("only 307 and 308 are followed, because they keep the request body")
      const next = URL.canParse(location, url.href) ? new URL(location, url) : undefined
      if (next === undefined || !/^https?:$/.test(next.protocol))
        return refuse("its Location is not an http or https URL")
      if (url.protocol === "https:" && next.protocol === "http:")
        return refuse("redirects from https to http are not followed")
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
