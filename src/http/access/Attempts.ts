import { createHash } from "node:crypto"
import type * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import { Clock, Context, Duration, Effect, Layer, Option } from "effect"
import type { TooManyRequests } from "../RequestErrors.js"
import { ServerConfig } from "../ServerConfig.js"
import * as ClientAddress from "./ClientAddress.js"
import * as Throttle from "./Throttle.js"

// Wrong credentials, counted by the address they come from. Tokens that people choose are guessed at; sessions and tokens of
// workspaces are 256 random bits, so guessing finds none, but each guess costs a statement.

/** Wrong tokens from one address: enough for typing errors, too few to find one by trying. */
const guesses = { burst: 20, perSecond: 20 / 60 }

/** Statements that one address may cost with secrets that do not exist. */
const lookups = { burst: 60, perSecond: 5 }

/** A token this long cannot be guessed, so its owner need not wait for an attacker at the same address. */
export const leastStrong = 24

/** A secret that does not exist will not begin to, except where a replica answers. */
const unknownMillis = Duration.toMillis("10 seconds")

const mostRemembered = 10_000

type Request = HttpServerRequest.HttpServerRequest

export class Attempts extends Context.Tag("nightshift/http/Attempts")<
  Attempts,
  {
    /**
     * Counts a token that was presented. Fails while its address has shown too many wrong ones, whatever it shows now,
     * unless it is right and too long to be found by trying.
     */
    readonly token: (request: Request, given: string, isRight: boolean) => Effect.Effect<void, TooManyRequests>

    /** Looks a random secret up, as often as its address may; one that was found lately, always. */
    readonly lookUp: <A, E>(
      request: Request,
      secret: string,
      find: Effect.Effect<Option.Option<A>, E>
    ) => Effect.Effect<Option.Option<A>, E | TooManyRequests>
  }
>() {
  /** One for all doors of a process: a client refused at one is refused at the next. */
  static readonly layer: Layer.Layer<Attempts, never, ServerConfig> = Layer.effect(
    Attempts,
    Effect.gen(function* () {
      const addressOf = ClientAddress.make((yield* ServerConfig).trustProxy)
      const wrongTokens = Throttle.make(guesses)
      const unknownSecrets = Throttle.make(lookups)
      const known = new Remembered()
      const unknown = new Remembered()

      const keyOf = ({ headers, remoteAddress }: Request) =>
        ClientAddress.group(addressOf(Option.getOrUndefined(remoteAddress), headers["x-forwarded-for"]))

      return {
        token: (request, given, isRight) => {
          if (isRight && given.length >= leastStrong) return Effect.void
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
            // Taken before and given back: many at once must not all pass before the first is found to be wrong.
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

/** A bounded map: keeps the entries set last. */
class Remembered extends Map<string, number> {
  override set(id: string, value: number): this {
    this.delete(id)
    if (this.size >= mostRemembered) this.delete(this.keys().next().value ?? "")
    return super.set(id, value)
  }
}
