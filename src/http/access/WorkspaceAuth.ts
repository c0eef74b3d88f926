import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import { Effect, Option, Schema } from "effect"
import { Tokens } from "../../access/Tokens.js"
import { Workspace } from "../../core/Workspace.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { Unauthorized } from "../RequestErrors.js"
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
  Unauthorized | DatabaseError,
  Tokens | HttpServerRequest.HttpServerRequest | HttpRouter.RouteContext
> = Effect.gen(function* () {
  const tokens = yield* Tokens
  const { headers } = yield* HttpServerRequest.HttpServerRequest
  const { workspace } = yield* HttpRouter.params
  const known = readWorkspace(workspace)
  const given = tokenOf(headers.authorization)
  if (Option.isNone(known) || given === undefined) return yield* refused()
  const stillMay = Effect.flatMap(tokens.verify(known.value, given), (may) => (may ? Effect.void : refused()))
  yield* stillMay
  return { workspace: known.value, stillMay }
})
