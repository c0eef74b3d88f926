import { Schema } from "effect"
import { BatchId } from "../../core/Ids.js"
import { DeadReason, State } from "../../core/StoredJob.js"
import { descriptions, type JobFilter } from "../../queue/search/JobFilter.js"
import * as Instant from "../Instant.js"
import * as WireText from "../WireText.js"

const text = (field: keyof JobFilter) =>
  WireText.optional(WireText.Text.annotations({ description: descriptions[field] }))

const instant = (field: keyof JobFilter) => WireText.optional(Instant.described(descriptions[field]))

/** Fields that have the same form in a query and in a body. */
const common = {
  since: instant("since"),
  until: instant("until"),
  diedBefore: instant("diedBefore"),
  dedupe: text("dedupe"),
  key: text("key"),
  pod: text("pod"),
  text: text("text"),
  search: text("search"),
  shape: text("shape"),
  batch: WireText.optional(
    BatchId.annotations({ ...WireText.withMessage("must be a batch id"), description: descriptions.batch })
  )
}

const anyOf = "A repeated parameter matches any of its values."
const anyOfList = "Repeat the parameter, or separate values with commas, to match any of them."

/** Job filter as query parameters. */
export const query = {
  queue: WireText.optional(WireText.names(`${descriptions.queue} ${anyOfList}`)),
  kind: WireText.optional(WireText.texts(`${descriptions.kind} ${anyOf}`)),
  state: WireText.optional(WireText.anyOf(State.literals, `${descriptions.state} ${anyOfList}`)),
  reason: WireText.optional(WireText.anyOf(DeadReason.literals, `${descriptions.reason} ${anyOfList}`)),
  payload: WireText.optional(
    WireText.JsonText.annotations({
      jsonSchema: { type: "string", contentMediaType: "application/json", description: descriptions.payload }
    })
  ),
  ...common
} satisfies Record<keyof JobFilter, unknown>

const oneOrMany = <A, I>(field: keyof JobFilter, value: Schema.Schema<A, I>, expected: string) =>
  WireText.optional(
    Schema.Union(value, Schema.Array(value).pipe(Schema.minItems(1), Schema.maxItems(50))).annotations({
      ...WireText.withMessage(expected),
      description: `${descriptions[field]} A list matches any of its values.`
    })
  )

const mustBeOneOf = (words: ReadonlyArray<string>) => `must be one of ${words.join(", ")}, or a list of them`

/** Job filter as a JSON body, and in programs. A field has one value or a list; the payload is plain JSON. */
export const Body = Schema.Struct({
  queue: oneOrMany("queue", WireText.Text, "must be a string or a list of strings"),
  kind: oneOrMany("kind", WireText.Text, "must be a string or a list of strings"),
  state: oneOrMany("state", State, mustBeOneOf(State.literals)),
  reason: oneOrMany("reason", DeadReason, mustBeOneOf(DeadReason.literals)),
  payload: WireText.optional(Schema.Unknown.annotations({ description: descriptions.payload })),
  ...common
} satisfies Record<keyof JobFilter, unknown>).annotations({
  identifier: "JobFilter",
  message: () => "must be an object with filter fields"
})

const moment = (millis: number | undefined) => (millis === undefined ? undefined : Instant.format(millis))

/** Formats a filter as in a request, without unset fields. */
export const view = (filter: JobFilter): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    Object.entries({
      ...filter,
      since: moment(filter.since),
      until: moment(filter.until),
      diedBefore: moment(filter.diedBefore)
    }).filter(([, value]) => value !== undefined)
  )
