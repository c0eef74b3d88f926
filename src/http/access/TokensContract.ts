import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import { Schema } from "effect"
import { mostLabelCharacters } from "../../access/Tokens.js"
import { TokenId } from "../../core/Ids.js"
import { problem } from "../Contract.js"
import * as WireText from "../WireText.js"

/** What `POST /api/v1/workspaces/{workspace}/tokens` takes; no body is the same as an empty one. */
export const TokenRequest = Schema.Struct({
  label: WireText.optional(
    WireText.Text.pipe(
      Schema.maxLength(mostLabelCharacters, WireText.said(`must be at most ${mostLabelCharacters} characters long`))
    ).annotations({ description: "What people are to recognize the token by." })
  )
}).annotations({ identifier: "TokenRequest", message: () => "must be an object", ...WireText.strict })

const TokenView = Schema.Struct({
  id: TokenId,
  prefix: Schema.String.annotations({ description: "The token's first characters." }),
  label: Schema.String,
  createdAt: Schema.String.annotations({ jsonSchema: { type: "string", format: "date-time" } })
}).annotations({ identifier: "Token" })

const workspacePath = Schema.Struct({ workspace: Schema.String })

/** Tokens of workspaces: make, list, revoke. */
export const group = HttpApiGroup.make("tokens")
  .add(
    HttpApiEndpoint.post("create", "/workspaces/:workspace/tokens")
      .setPath(workspacePath)
      .setPayload(TokenRequest)
      .addSuccess(Schema.Struct({ id: TokenId, token: Schema.String }), { status: 201 })
      .addError(problem(400))
      .addError(problem(413))
      .addError(problem(415))
      .annotateContext(OpenApi.annotations({ description: "Make a token for a workspace. It is shown this once." }))
  )
  .add(
    HttpApiEndpoint.get("list", "/workspaces/:workspace/tokens")
      .setPath(workspacePath)
      .addSuccess(Schema.Struct({ tokens: Schema.Array(TokenView) }))
      .addError(problem(400))
      .annotateContext(
        OpenApi.annotations({ description: "A workspace's tokens without their secrets, oldest first." })
      )
  )
  .add(
    HttpApiEndpoint.del("revoke", "/workspaces/:workspace/tokens/:id")
      .setPath(Schema.Struct({ workspace: Schema.String, id: Schema.String }))
      .addSuccess(TokenView)
      .addError(problem(400))
      .addError(problem(404))
      .annotateContext(OpenApi.annotations({ description: "From now on it lets nobody in. Answers what it was." }))
  )
