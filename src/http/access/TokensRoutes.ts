import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Effect, type Layer, Redacted, Schema } from "effect"
import type { Audit } from "../../access/Audit.js"
import { maxLabelCharacters, TokenNotFound, Tokens, tokenSummary } from "../../access/Tokens.js"
import { TokenId, Workspace, workspaceRule } from "../../core/Ids.js"
import type { Transactions } from "../../queue/Transactions.js"
import * as Body from "../Body.js"
import { about, apiOf } from "../Contract.js"
import * as Instant from "../Instant.js"
import { BadRequest } from "../RequestErrors.js"
import * as ResponseFields from "../ResponseFields.js"
import * as WireText from "../WireText.js"
import * as Audited from "./Audited.js"

/** Body of `POST /api/v1/workspaces/{workspace}/tokens`. May be omitted. */
const TokenRequest = Schema.Struct({
  label: WireText.optional(
    WireText.Text.pipe(
      Schema.maxLength(maxLabelCharacters, { message: () => `must be at most ${maxLabelCharacters} characters long` })
    ).annotations({ description: "Name of the token, for people." })
  )
}).annotations(WireText.body("TokenRequest"))

const TokenView = Schema.Struct({
  id: TokenId,
  prefix: Schema.String.annotations({ description: "First characters of the token." }),
  label: Schema.String,
  createdAt: Instant.Moment
}).annotations({ identifier: "Token" })

const workspacePath = Schema.Struct({ workspace: Schema.String })

export const group = HttpApiGroup.make("tokens")
  .add(
    HttpApiEndpoint.post("create", "/workspaces/:workspace/tokens")
      .setPath(workspacePath)
      .setPayload(TokenRequest)
      .addSuccess(Schema.Struct({ id: TokenId, token: Schema.String }), { status: 201 })
      .annotateContext(about("Create a token for a workspace. The secret is returned only here."))
  )
  .add(
    HttpApiEndpoint.get("list", "/workspaces/:workspace/tokens")
      .setPath(workspacePath)
      .addSuccess(Schema.Struct({ tokens: Schema.Array(TokenView) }))
      .annotateContext(about("List a workspace's tokens without their secrets, oldest first."))
  )
  .add(
    HttpApiEndpoint.del("revoke", "/workspaces/:workspace/tokens/:id")
      .setPath(Schema.Struct({ workspace: Schema.String, id: Schema.String }))
      .addSuccess(TokenView)
      .annotateContext(about("Revoke a token, effective immediately. Returns the revoked token."))
  )

const maxBodyBytes = 16 * 1024

const viewOf = ResponseFields.of(TokenView)

const readWorkspace = Schema.decodeUnknown(Workspace)
const readId = Schema.decodeUnknown(TokenId)

const workspaceOf = (text: string) =>
  Effect.mapError(
    readWorkspace(text),
    () => new BadRequest({ message: `A workspace's name ${workspaceRule}.`, field: "workspace" })
  )

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "tokens">,
  never,
  Tokens | Transactions | Audit
> = HttpApiBuilder.group(apiOf(group), "tokens", (handlers) =>
  Effect.gen(function* () {
    const tokens = yield* Tokens
    const audited = yield* Audited.make
    return handlers
      .handleRaw("create", ({ path, request }) =>
        Effect.gen(function* () {
          const workspace = yield* workspaceOf(path.workspace)
          const { label } = yield* Body.decodedIfAny(request, TokenRequest, maxBodyBytes)
          const { id, secret } = yield* tokens.create(workspace, label).pipe(
            audited(
              "token.create",
              ({ id }) => id,
              (made) => ({ after: tokenSummary(made) })
            )
          )
          return { id, token: Redacted.value(secret) }
        })
      )
      .handle("list", ({ path }) =>
        Effect.gen(function* () {
          const found = yield* tokens.list(yield* workspaceOf(path.workspace))
          return { tokens: found.map(viewOf) }
        })
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
        })
      )
  })
)
