import { Schema } from "effect"
import { Reason, type Why } from "../../queue/why/Why.js"
import * as Instant from "../Instant.js"

/** Why a job is in its current state, in API responses. */
export const WhyView = Schema.Struct({
  reason: Reason.annotations({ description: "For programs." }),
  detail: Schema.String.annotations({ description: "The cause and what to do about it, for people." }),
  until: Schema.optional(
    Instant.Moment.annotations({ description: "When this condition ends by itself; omitted if unknown or never." })
  )
}).annotations({ identifier: "Why" })
export type WhyView = typeof WhyView.Type

export const of = ({ until, ...why }: Why): WhyView =>
  until === undefined ? why : { ...why, until: Instant.format(until) }
