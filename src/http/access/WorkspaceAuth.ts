import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import { Effect, Option, Schema } from "effect"
import { prefixOf } from "../../access/Secrets.js"
import { Tokens } from "../../access/Tokens.js"
import { Workspace } from "../../core/Ids.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { type TooManyRequests, Unauthorized } from "../RequestErrors.js"
import { Attempts } from "./Attempts.js"
import { bearerOf } from "./Credentials.js"

/** The workspace that the request's token belongs to. */
export interface Bearer {
  readonly workspace: Workspace
  /** Verifies the token again, because it may be revoked during a long upload. */
  readonly stillMay: Effect.Effect<void, Unauthorized | DatabaseError>
}

const readWorkspace = Schema.decodeUnknownOption(Workspace)

const refused = () =>
  new Unauthorized({
    message:
      "Send a valid token of this workspace as `Authorization: Bearer <token>`. `nightshift uploads tokens create` makes one."
  })

/**
 * Authenticates a request with a token of the workspace in its path. A malformed workspace name fails like a wrong
 * token.
 */
export const check: Effect.Effect<
  Bearer,
  Unauthorized | TooManyRequests | DatabaseError,
  Tokens | Attempts | HttpServerRequest.HttpServerRequest | HttpRouter.RouteContext
> = Effect.gen(function* () {
  const tokens = yield* Tokens
  const attempts = yield* Attempts
  const request = yield* HttpServerRequest.HttpServerRequest
  const { workspace } = yield* HttpRouter.params
  const known = readWorkspace(workspace)
  const given = bearerOf(request.headers.authorization)
  // Do not query the database for a malformed token.
  if (Option.isNone(known) || given === undefined || prefixOf(given) === "") return yield* refused()
  const verified = tokens.verify(known.value, given)
  const stillMay = Effect.flatMap(verified, (may) => (may ? Effect.void : refused()))
  const found = yield* attempts.lookUp(
    request,
    `${known.value} ${given}`,
    Effect.map(verified, (may) => (may ? Option.some(true) : Option.none()))
  )
  if (Option.isNone(found)) return yield* refused()
  return { workspace: known.value, stillMay }
})
