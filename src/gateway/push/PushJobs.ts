import { Schema } from "effect"
import type { Handler } from "../../handlers/Handler.js"
import * as Job from "../../queue/Job.js"
import type { PushDeclaration } from "../config/Declarations.js"
import * as Push from "./Push.js"

/** Makes the handlers of the kinds that the file sends to URLs. They have no schema: the endpoint validates payloads. */
export const handlers = (declared: ReadonlyArray<PushDeclaration>): ReadonlyArray<Handler<never>> =>
  declared.map(({ kind, secrets, throttles, url, ...settings }) =>
    Push.make(Job.make(kind, { payload: Schema.Unknown, ...settings }), { url, secret: secrets, throttles })
  )
