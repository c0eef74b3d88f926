import * as HttpApi from "@effect/platform/HttpApi"
import type * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import { Schema } from "effect"
import { isExpected } from "../core/ExpectedError.js"
import { pageLimits } from "../queue/search/JobSearch.js"
import * as WireText from "./WireText.js"

// Shared parts of the contract. Each resource has a file with its contract and its handlers; ApiRoutes.ts combines them.

/** The prefix of all routes of the contract. */
export const apiPrefix = "/api/v1"

/**
 * The part of the API that has the routes of one group, for the group's handlers. They may fail with any expected error,
 * which the whole API converts to its response.
 */
export const apiOf = <Group extends HttpApiGroup.HttpApiGroup.Any>(group: Group) =>
  HttpApi.make("nightshift").add(group).prefix(apiPrefix).addError(Schema.declare(isExpected))

export { pageLimits }

const errorResponse = (status: number) => ({
  description: status === 400 ? "The request did not match the expected schema" : "Error",
  content: { "application/json": { schema: { $ref: "#/components/schemas/Problem" } } }
})

/** The error responses with these statuses in the OpenAPI document. */
export const errorResponses = (statuses: ReadonlyArray<number>) =>
  Object.fromEntries(statuses.map((status) => [status, errorResponse(status)]))

/** Describes a route. The statuses are those of its errors that do not follow from its parameters and its body. */
export const about = (description: string, ...statuses: ReadonlyArray<number>) =>
  OpenApi.annotations({
    description,
    transform: (route) => ({ ...route, responses: { ...Object(route.responses), ...errorResponses(statuses) } })
  })

/** Query parameters of every list: the page size, and the cursor returned by the previous page. */
export const pageQuery = {
  limit: WireText.optional(
    Schema.NumberFromString.pipe(Schema.int(), Schema.between(1, pageLimits.max)).annotations({
      ...WireText.withMessage(`must be a whole number from 1 to ${pageLimits.max}`),
      jsonSchema: { type: "integer", minimum: 1, maximum: pageLimits.max, description: "Page size." }
    })
  ),
  cursor: WireText.optional(WireText.Text.annotations({ description: "The `next` of the previous page." }))
}

export const idPath = Schema.Struct({ id: Schema.String })
