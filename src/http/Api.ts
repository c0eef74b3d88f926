import * as HttpApi from "@effect/platform/HttpApi"
import * as OpenApi from "@effect/platform/OpenApi"
import { problem } from "./Contract.js"
import * as JobsContract from "./JobsContract.js"
import * as QueuesContract from "./QueuesContract.js"

/** The contract of the doors: what goes in, what comes out, and nothing of how. */
export const Api = HttpApi.make("nightshift")
  .add(JobsContract.group)
  .add(QueuesContract.group)
  .prefix("/api/v1")
  .addError(problem(401))
  .addError(problem(403))
  .addError(problem(503))
  .annotateContext(
    OpenApi.annotations({
      title: "Nightshift",
      version: "v1",
      description: "Instants are RFC 3339, durations are seconds.",
      transform: (specification) => ({
        ...specification,
        components: {
          ...specification.components,
          securitySchemes: { token: { type: "http", scheme: "bearer" } }
        },
        security: [{ token: [] }]
      })
    })
  )
