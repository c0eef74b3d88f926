import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import type { HttpServerRequest } from "@effect/platform/HttpServerRequest"
import { Effect, type Layer, ParseResult, Redacted, Schema } from "effect"
import type { Audit } from "../../access/Audit.js"
import { type Token, TokenNotFound, Tokens, tokenSummary } from "../../access/Tokens.js"
import { TokenId, Workspace, workspaceRule } from "../../core/Ids.js"
import type { Transactions } from "../../queue/Transactions.js"
import { Api } from "../Api.js"
import * as Body from "../Body.js"
import * as Instant from "../Instant.js"
import * as Problem from "../Problem.js"
import { BadRequest, faultOfIssues } from "../RequestErrors.js"
import * as Audited from "./Audited.js"
import { TokenRequest } from "./TokensContract.js"

const mostBodyBytes = 16 * 1024

const viewOf = ({ createdAt, id, label, prefix }: Token) => ({
  id,
  prefix,
  label,
  createdAt: Instant.format(createdAt)
})

const readWorkspace = Schema.decodeUnknown(Workspace)
const readId = Schema.decodeUnknown(TokenId)
const readRequest = Schema.decodeUnknown(TokenRequest)

const workspaceOf = (text: string) =>
  Effect.mapError(
    readWorkspace(text),
    () => new BadRequest({ message: `A workspace's name ${workspaceRule}.`, field: "workspace" })
  )

/** The body is optional. */
const bodyOf = (request: HttpServerRequest) =>
  Effect.gen(function* () {
    const { "content-length": length, "transfer-encoding": coding } = request.headers
    if (coding === undefined && Number(length ?? 0) === 0) return {}
    const body = yield* Body.json(request, mostBodyBytes)
    return yield* Effect.mapError(readRequest(body), (error) =>
      faultOfIssues(ParseResult.ArrayFormatter.formatErrorSync(error))
    )
  })

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "tokens">,
  never,
  Tokens | Transactions | Audit
> = HttpApiBuilder.group(Api, "tokens", (handlers) =>
  Effect.gen(function* () {
    const tokens = yield* Tokens
    const audited = yield* Audited.make
    return handlers
      .handleRaw("create", ({ path, request }) =>
        Effect.gen(function* () {
          const workspace = yield* workspaceOf(path.workspace)
          const { label } = yield* bodyOf(request)
          const { id, secret } = yield* tokens.create(workspace, label).pipe(
            audited(
              "token.create",
              ({ id }) => id,
              (made) => ({ after: tokenSummary(made) })
            )
          )
          return { id, token: Redacted.value(secret) }
        }).pipe(Problem.catchErrors)
      )
      .handle("list", ({ path }) =>
        Effect.gen(function* () {
          const found = yield* tokens.list(yield* workspaceOf(path.workspace))
          return { tokens: found.map(viewOf) }
        }).pipe(Problem.catchErrors)
      )
      .handle("revoke", ({ path }) =>
        Effect.gen(function* () {
          const workspace = yield* workspaceOf(path.workspace)
          const id = yield* Effect.mapError(
            readId(path.id.toLowerCase()),
            () => new TokenNotFound({ id: path.id.slice(0, 64) })
          )
          const revoked = yield* tokens
            .revoke(workspace, id)
            .pipe(audited("token.revoke", id, (token) => ({ before: tokenSummary(token) })))
          return viewOf(revoked)
        }).pipe(Problem.catchErrors)
      )
  })
)
