import { createHash } from "node:crypto"
import type * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import { Clock, Context, Duration, Effect, Layer, Option } from "effect"
import * as ClientAddress from "../ClientAddress.js"
import type { TooManyRequests } from "../RequestErrors.js"
import { ServerConfig } from "../ServerConfig.js"
import * as Throttle from "./Throttle.js"

// Throttles wrong credentials by client address. Role tokens are chosen by people and could be guessed. Session secrets
// and workspace tokens are 256 random bits and cannot, but each wrong one costs a database query.

/** Wrong tokens per address: enough for typing errors, too few for a brute-force attack. */
const guesses = { burst: 20, perSecond: 20 / 60 }

/** Database lookups of unknown secrets per address. */
const lookups = { burst: 60, perSecond: 5 }

/** A correct token of this length cannot have been guessed, so it is accepted even while its address is throttled. */
export const minStrongLength = 24

/** How long an unknown secret is remembered. Short, because a lagging replica may not have a new secret yet. */
const unknownMillis = Duration.toMillis("10 seconds")

const maxRememberedIds = 10_000

type Request = HttpServerRequest.HttpServerRequest

export class Attempts extends Context.Tag("nightshift/http/Attempts")<
  Attempts,
  {
    /**
     * Counts a presented token. Fails if its address has presented too many wrong ones, even if this one is right,
     * unless it is right and at least `minStrongLength` characters long.
     */
    readonly token: (request: Request, given: string, isRight: boolean) => Effect.Effect<void, TooManyRequests>

    /** Looks up a random secret, throttled by address. A recently found secret is never throttled. */
    readonly lookUp: <A, E>(
      request: Request,
      secret: string,
      find: Effect.Effect<Option.Option<A>, E>
    ) => Effect.Effect<Option.Option<A>, E | TooManyRequests>
  }
>() {
  /** Shared by all routes of a process, so a client that is throttled on one is throttled on all. */
  static readonly layer: Layer.Layer<Attempts, never, ServerConfig> = Layer.effect(
    Attempts,
    Effect.gen(function* () {
      const addressOf = ClientAddress.make((yield* ServerConfig).trustProxy)
      const wrongTokens = Throttle.make(guesses)
      const unknownSecrets = Throttle.make(lookups)
      const known = new Throttle.RecentMap<number>(maxRememberedIds)
      const unknown = new Throttle.RecentMap<number>(maxRememberedIds)

      const keyOf = ({ headers, remoteAddress }: Request) =>
        ClientAddress.group(addressOf(Option.getOrUndefined(remoteAddress), headers["x-forwarded-for"]))

      return {
        token: (request, given, isRight) => {
          if (isRight && given.length >= minStrongLength) return Effect.void
          const key = keyOf(request)
          return isRight ? wrongTokens.check(key) : wrongTokens.take(key)
        },
        lookUp: (request, secret, find) =>
          Effect.gen(function* () {
            const id = createHash("sha256").update(secret).digest("base64url")
            const now = yield* Clock.currentTimeMillis
            if ((unknown.get(id) ?? 0) > now) return Option.none()
            const key = keyOf(request)
            const wasKnown = known.get(id) !== undefined
            // Take a token first and return it on success, so concurrent wrong secrets cannot all pass before the first
            // lookup ends.
            if (!wasKnown) yield* unknownSecrets.take(key)
            const found = yield* find
            if (Option.isSome(found)) {
              if (!wasKnown) unknownSecrets.give(key)
              known.set(id, now)
            } else {
              known.delete(id)
              unknown.set(id, now + unknownMillis)
            }
            return found
          })
      }
    })
  )
}
