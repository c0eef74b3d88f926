import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import { Schema } from "effect"
import { mostLabelCharacters } from "../../access/Tokens.js"
import { TokenId } from "../../core/Ids.js"
import { problem } from "../Contract.js"
import * as WireText from "../WireText.js"

/** Body of `POST /api/v1/workspaces/{workspace}/tokens`. May be omitted. */
export const TokenRequest = Schema.Struct({
  label: WireText.optional(
    WireText.Text.pipe(
      Schema.maxLength(
        mostLabelCharacters,
        WireText.withMessage(`must be at most ${mostLabelCharacters} characters long`)
      )
    ).annotations({ description: "Name of the token, for people." })
  )
}).annotations({ identifier: "TokenRequest", message: () => "must be an object", ...WireText.strict })

const TokenView = Schema.Struct({
  id: TokenId,
  prefix: Schema.String.annotations({ description: "First characters of the token." }),
  label: Schema.String,
  createdAt: Schema.String.annotations({ jsonSchema: { type: "string", format: "date-time" } })
}).annotations({ identifier: "Token" })

const workspacePath = Schema.Struct({ workspace: Schema.String })

export const group = HttpApiGroup.make("tokens")
  .add(
    HttpApiEndpoint.post("create", "/workspaces/:workspace/tokens")
      .setPath(workspacePath)
      .setPayload(TokenRequest)
      .addSuccess(Schema.Struct({ id: TokenId, token: Schema.String }), { status: 201 })
      .addError(problem(400))
      .addError(problem(413))
      .addError(problem(415))
      .annotateContext(
        OpenApi.annotations({ description: "Create a token for a workspace. The secret is returned only here." })
      )
  )
  .add(
    HttpApiEndpoint.get("list", "/workspaces/:workspace/tokens")
      .setPath(workspacePath)
      .addSuccess(Schema.Struct({ tokens: Schema.Array(TokenView) }))
      .addError(problem(400))
      .annotateContext(
        OpenApi.annotations({ description: "List a workspace's tokens without their secrets, oldest first." })
      )
  )
  .add(
    HttpApiEndpoint.del("revoke", "/workspaces/:workspace/tokens/:id")
      .setPath(Schema.Struct({ workspace: Schema.String, id: Schema.String }))
      .addSuccess(TokenView)
      .addError(problem(400))
      .addError(problem(404))
      .annotateContext(
        OpenApi.annotations({ description: "Revoke a token, effective immediately. Returns the revoked token." })
      )
  )
