import * as HttpApiSchema from "@effect/platform/HttpApiSchema"
import * as OpenApi from "@effect/platform/OpenApi"
import { Schema } from "effect"
import * as Problem from "./Problem.js"
import * as WireText from "./WireText.js"

// What the parts of the contract have in common. Each group of routes has its part in a file beside its routes, and Api.ts
// puts them together.

/** How many of anything a page may hold. */
export const pageLimits = { usual: 50, most: 1000 } as const

/** An answer that says no. */
export const problem = (status: number) => Problem.Body.annotations(HttpApiSchema.annotations({ status }))

/** Answers that say no, each in its own way. */
export const problems = (...statuses: ReadonlyArray<number>) => Schema.Union(...statuses.map(problem))

/** What a route is for. */
export const about = (description: string) => OpenApi.annotations({ description })

/** What every list takes: how many at most, and where the page before ended. */
export const pageQuery = {
  limit: WireText.optional(
    Schema.NumberFromString.pipe(Schema.int(), Schema.between(1, pageLimits.most)).annotations({
      ...WireText.said(`must be a whole number from 1 to ${pageLimits.most}`),
      jsonSchema: { type: "integer", minimum: 1, maximum: pageLimits.most }
    })
  ),
  cursor: WireText.optional(WireText.Text)
}

/** An instant in an answer. */
export const Moment = Schema.String.annotations({ jsonSchema: { type: "string", format: "date-time" } })

/** The place of an id in a path. */
export const idPath = Schema.Struct({ id: Schema.String })

/** How many there are; at least so many when it is not exact. */
export const Total = Schema.Struct({ count: Schema.Int, exact: Schema.Boolean })
