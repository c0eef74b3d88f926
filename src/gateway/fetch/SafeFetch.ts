import type { LookupAddress } from "node:dns"
import * as Http from "node:http"
import * as Https from "node:https"
import { isIP, type LookupFunction } from "node:net"
import { Context, Duration, Effect, Layer, type Scope } from "effect"
import * as DurationText from "../../core/DurationText.js"
import * as HttpUrl from "../../core/HttpUrl.js"
import type { Allowance } from "../config/Allowance.js"
import { GatewayConfig } from "../config/GatewayConfig.js"
import * as HttpExchange from "./HttpExchange.js"
import * as NameLookup from "./NameLookup.js"
import {
  AddressRefused,
  UpstreamRedirected,
  UpstreamTimeout,
  UpstreamTooLarge,
  UpstreamUnreachable
} from "./UpstreamErrors.js"

// Checks addresses in the socket's own lookup. Checking in a separate lookup would allow DNS rebinding: the second
// lookup could return another address.

/** Returns the URL's host if it is an IP address. Node connects to it without a lookup. */
const literalOf = (url: URL): string | undefined => {
  const host = url.hostname.replace(/^\[|\]$/g, "")
  return isIP(host) === 0 ? undefined : host
}

const portOf = (url: URL) => Number(url.port || (url.protocol === "https:" ? 443 : 80))

/** Returns why a URL with an IP address as its host is refused, or undefined. */
const refusalOf = (url: URL, allowance: Allowance): AddressRefused | undefined => {
  const address = literalOf(url)
  return address === undefined || allowance.allowsAddress(address, portOf(url))
    ? undefined
    : new AddressRefused({ host: url.hostname, address })
}

/** Makes a lookup that fails if any of the resolved addresses is not allowed. */
const guardedLookup = (url: URL, allowance: Allowance, ofOthers: NameLookup.NameLookup): LookupFunction => {
  const port = portOf(url)
  return (host, options, callback) => {
    const checkAddresses = (addresses: ReadonlyArray<LookupAddress>) => {
      const refused = allowance.allowsHost(host, port)
        ? undefined
        : addresses.find(({ address }) => !allowance.allowsAddress(address, port))
      const [first] = addresses
      if (refused !== undefined) return callback(new AddressRefused({ host, address: refused.address }), "", 0)
      if (first === undefined) return callback(Object.assign(new Error("no address"), { code: "ENOTFOUND" }), "", 0)
      if (options.all === true) callback(null, [...addresses])
      else callback(null, first.address, first.family)
    }
    const resolve = allowance.allowsHost(host, port) ? NameLookup.bySystem : ofOthers
    resolve(host, (error, addresses) => (error === null ? checkAddresses(addresses) : callback(error, "", 0)))
  }
}

/** Maximum size of a response. */
const maxBytes = 1024 * 1024

export interface SafeRequest {
  readonly url: URL
  /** The request body, sent unchanged. */
  readonly json: string
  /** Headers besides those of every request. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Total time for lookup, connection, redirects and the complete response. [the caller interrupts the request] */
  readonly timeout?: Duration.Duration | undefined
  /** Maximum number of redirects. Undefined returns a redirect like any other response. */
  readonly redirects: number | undefined
  /** Returns this many bytes of a longer response. [a response of more than 1 MiB fails] */
  readonly cutAt?: number | undefined
}

type Failure = AddressRefused | UpstreamUnreachable | UpstreamTimeout | UpstreamTooLarge | UpstreamRedirected

/** HTTP client for configured URLs, protected against requests to private addresses (SSRF). */
export class SafeFetch extends Context.Tag("nightshift/gateway/SafeFetch")<
  SafeFetch,
  {
    /** Posts JSON. Every hop may connect only to public addresses and those listed in HTTP_HANDLER_ALLOW. */
    readonly post: (request: SafeRequest) => Effect.Effect<HttpExchange.Response, Failure>
  }
>() {
  static readonly layer: Layer.Layer<SafeFetch, never, GatewayConfig> = Layer.scoped(
    SafeFetch,
    Effect.flatMap(GatewayConfig, ({ httpAllow }) => make(httpAllow))
  )
}

/** How long an unused connection is kept. Without a limit, hosts that never close theirs would use up all file descriptors. */
const keptFor = Duration.seconds(30)

/** Makes a client with its own kept-alive connections. `servers` are name servers. [those of the system] */
export const make = (
  httpAllow: Allowance,
  idle = keptFor,
  servers?: ReadonlyArray<string>
): Effect.Effect<typeof SafeFetch.Service, never, Scope.Scope> =>
  Effect.gen(function* () {
    // Kept-alive connections are pooled by host, and their addresses were checked when they were opened.
    const options = { keepAlive: true, maxFreeSockets: 16, timeout: Duration.toMillis(idle) }
    const agents = yield* Effect.acquireRelease(
      Effect.sync(() => ({ "http:": new Http.Agent(options), "https:": new Https.Agent(options) })),
      (all) => Effect.sync(() => Object.values(all).forEach((agent) => void agent.destroy()))
    )

    const ofOthers = NameLookup.make(servers)
    const failureOf = ({ cause, code }: HttpExchange.ExchangeFailed, { host }: URL) => {
      if (cause instanceof AddressRefused) return cause
      return code === HttpExchange.tooLong
        ? new UpstreamTooLarge({ host, maxBytes })
        : new UpstreamUnreachable({ host, code })
    }

    const hop = ({ cutAt, headers, json, url }: SafeRequest) => {
      const refusal = refusalOf(url, httpAllow)
      if (refusal !== undefined) return Effect.fail(refusal)
      const request = {
        url,
        body: json,
        maxBytes: cutAt ?? maxBytes,
        cuts: cutAt !== undefined,
        agent: url.protocol === "https:" ? agents["https:"] : agents["http:"],
        lookup: guardedLookup(url, httpAllow, ofOthers),
        // No compression: a small compressed body can expand far beyond the size limit.
        headers: {
          "content-type": "application/json",
          accept: "application/json",
          "accept-encoding": "identity",
          ...headers
        }
      }
      return Effect.mapError(HttpExchange.post(request), (failed) => failureOf(failed, url))
    }

    /** Returns the redirect target, or why the redirect is not followed. */
    const nextOf = (response: HttpExchange.Response, url: URL, left: number) => {
      const refuse = (reason: string) => new UpstreamRedirected({ host: url.host, status: response.status, reason })
      const { location = "" } = response.headers
      if (left === 0) return refuse("the limit on redirects is reached; raise http.redirects to follow more")
      if (response.status !== 307 && response.status !== 308)
        return refuse("only 307 and 308 are followed, because they keep the request body")
      const next = HttpUrl.parse(location, url)
      if (next === undefined) return refuse("its Location is not an http or https URL")
      if (url.protocol === "https:" && next.protocol === "http:")
        return refuse("redirects from https to http are not followed")
      return next
    }

    const follow = (request: SafeRequest): Effect.Effect<HttpExchange.Response, Failure> =>
      Effect.flatMap(hop(request), (response) => {
        const { redirects, url } = request
        if (response.status < 300 || response.status > 399 || redirects === undefined) return Effect.succeed(response)
        const next = nextOf(response, url, redirects)
        return next instanceof URL ? follow({ ...request, url: next, redirects: redirects - 1 }) : Effect.fail(next)
      })

    return {
      post: (request) => {
        const { timeout, url } = request
        if (timeout === undefined) return follow(request)
        return Effect.timeoutFail(follow(request), {
          duration: timeout,
          onTimeout: () => new UpstreamTimeout({ host: url.host, after: DurationText.format(timeout) })
        })
      }
    }
  })
