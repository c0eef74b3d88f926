import { randomUUID } from "node:crypto"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import { Clock, Duration, Effect } from "effect"
import type { Role } from "../../access/Sessions.js"
import { CrossSiteRefused, Unauthorized } from "../RequestErrors.js"
import { type Identify, reading, reasonOf } from "./Auth.js"
import { isSameOrigin } from "./Credentials.js"

// Mission Control inside an app that has its own login. The app says who a visitor is before the request comes here.

/** A visitor that the app lets in. */
export interface Visitor {
  readonly role: Role
  /** The name for the audit log. By default, the role. */
  readonly user: string | undefined
}

/**
 * How long a stream of events may last: the app is asked only when it begins. The browser then opens another one, for
 * which the app is asked again.
 */
const streamLasts = Duration.toMillis("5 minutes")

const maxNameCharacters = 200

/** The visitors of requests that are being answered, by the request object of the server. */
export class AppLogin {
  private readonly visitors = new WeakMap<object, Visitor>()

  /** Lets a request in. */
  admit(source: object, visitor: Visitor): void {
    this.visitors.set(source, visitor)
  }

  /** Whether the app let this request in. */
  readonly isAdmitted = ({ source }: HttpServerRequest.HttpServerRequest): boolean =>
    this.visitors.has(source as object)

  /** The visitor as the caller. The app's login may be a cookie, so only our own pages may make changes with it. */
  readonly identify: Identify = Effect.gen(this, function* () {
    const request = yield* HttpServerRequest.HttpServerRequest
    const visitor = this.visitors.get(request.source as object)
    if (visitor === undefined)
      return yield* new Unauthorized({
        message: "Log in to this application with an account that may use Mission Control."
      })
    if (!reading.has(request.method) && !isSameOrigin(request.headers)) return yield* new CrossSiteRefused()
    const end = (yield* Clock.currentTimeMillis) + streamLasts
    return {
      who: `app:${(visitor.user ?? visitor.role).slice(0, maxNameCharacters)}`,
      role: visitor.role,
      until: undefined,
      session: { secret: randomUUID(), lasts: Effect.map(Clock.currentTimeMillis, (now) => now < end) },
      reason: reasonOf(request)
    }
  })
}
