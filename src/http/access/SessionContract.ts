import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import { Schema } from "effect"
import { Role } from "../../access/Sessions.js"
import { Moment, problem } from "../Contract.js"
import * as WireText from "../WireText.js"

export const Login = Schema.Struct({ token: WireText.Text }).annotations({
  identifier: "Login",
  message: () => "must be an object with a token",
  ...WireText.strict
})

const SessionView = Schema.Struct({
  role: Role,
  until: Schema.NullOr(Moment).annotations({ description: "When an unused login expires; null for a token." })
}).annotations({ identifier: "Session" })

export const group = HttpApiGroup.make("session")
  .add(
    HttpApiEndpoint.post("login", "/session")
      .setPayload(Login)
      .addSuccess(SessionView)
      .addError(problem(400))
      .addError(problem(413))
      .addError(problem(415))
      .annotateContext(
        OpenApi.annotations({
          description: "Log in with a token. Sets a session cookie. Needs no Authorization header."
        })
      )
  )
  .add(
    HttpApiEndpoint.get("session", "/session")
      .addSuccess(SessionView)
      .annotateContext(OpenApi.annotations({ description: "Show the caller's role and when its login expires." }))
  )
  .add(
    HttpApiEndpoint.del("logout", "/session").annotateContext(
      OpenApi.annotations({ description: "Log out and end the session." })
    )
  )
