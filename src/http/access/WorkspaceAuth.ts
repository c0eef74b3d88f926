import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import { Effect, Option, Schema } from "effect"
import { prefixOf } from "../../access/TokenSecret.js"
import { Tokens } from "../../access/Tokens.js"
import { Workspace } from "../../core/Workspace.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { type TooManyRequests, Unauthorized } from "../RequestErrors.js"
import { Attempts } from "./Attempts.js"
import { tokenOf } from "./Bearer.js"

/** A workspace whose token the request bears. */
export interface Bearer {
  readonly workspace: Workspace
  /** Asks again: a token may be revoked while a request goes on. */
  readonly stillMay: Effect.Effect<void, Unauthorized | DatabaseError>
}

const readWorkspace = Schema.decodeUnknownOption(Workspace)

const refused = () =>
  new Unauthorized({ message: "Send a token of this workspace as `Authorization: Bearer <token>`." })

/** Lets a request pass that bears a token of the workspace in its path. One that cannot exist is like one that does not. */
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
  const given = tokenOf(request.headers.authorization)
  // What does not have the form of a token is not looked up.
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
