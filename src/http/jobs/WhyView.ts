import { Schema } from "effect"
import { Reason, type Why } from "../../crew/why/Why.js"
import { Moment } from "../Contract.js"
import * as Instant from "../Instant.js"

/** Why a job stands where it stands, as programs outside see it. */
export const WhyView = Schema.Struct({
  reason: Reason.annotations({ description: "For programs." }),
  detail: Schema.String.annotations({ description: "For people: what is so, and what to do about it." }),
  until: Schema.optional(
    Moment.annotations({ description: "When this ends by itself; absent where nobody knows, or where it does not." })
  )
}).annotations({ identifier: "Why" })
export type WhyView = typeof WhyView.Type

export const of = ({ until, ...why }: Why): WhyView =>
  until === undefined ? why : { ...why, until: Instant.format(until) }
