import { Schema } from "effect"
import { DeadReason, State } from "../../core/StoredJob.js"
import type { JobFilter } from "../../queue/search/JobFilter.js"
import * as Instant from "../Instant.js"
import * as WireText from "../WireText.js"

const text = (description: string) => WireText.optional(WireText.Text.annotations({ description }))

const instant = (description: string) =>
  WireText.optional(Instant.Instant.annotations({ jsonSchema: { type: "string", format: "date-time", description } }))

/** Which jobs, in the query of a request. A parameter given several times means any of its values. */
export const query = {
  queue: WireText.optional(WireText.names("Any of these queues: separated by commas, or repeat the parameter.")),
  kind: WireText.optional(WireText.texts("Any of these kinds: repeat the parameter.")),
  state: WireText.optional(WireText.someOf(State.literals, "Any of these states.")),
  deadReason: WireText.optional(WireText.someOf(DeadReason.literals, "Dead for any of these reasons.")),
  since: instant("Stored at or after this instant."),
  until: instant("Stored before this instant."),
  payload: WireText.optional(
    WireText.JsonText.annotations({
      jsonSchema: {
        type: "string",
        contentMediaType: "application/json",
        description: "JSON that the payload must contain."
      }
    })
  ),
  dedupe: text("The dedupe key, whole."),
  text: text("Text in the last error, in whatever case."),
  shape: text("The shape of the last error, as groups of jobs give it.")
}

const oneOrMany = <A, I>(value: Schema.Schema<A, I>, expected: string) =>
  WireText.optional(
    Schema.Union(value, Schema.Array(value).pipe(Schema.minItems(1), Schema.maxItems(50))).annotations(
      WireText.said(expected)
    )
  )

const oneOf = (words: ReadonlyArray<string>) => `must be one of ${words.join(", ")}, or a list of them`

/** The same in the body of a request: a field holds one value or a list, and the payload is JSON as it is. */
export const Body = Schema.Struct({
  queue: oneOrMany(WireText.Text, "must be text or a list of texts"),
  kind: oneOrMany(WireText.Text, "must be text or a list of texts"),
  state: oneOrMany(State, oneOf(State.literals)),
  deadReason: oneOrMany(DeadReason, oneOf(DeadReason.literals)),
  since: WireText.optional(Instant.Instant),
  until: WireText.optional(Instant.Instant),
  payload: WireText.optional(Schema.Unknown),
  dedupe: WireText.optional(WireText.Text),
  text: WireText.optional(WireText.Text),
  shape: WireText.optional(WireText.Text)
}).annotations({ identifier: "JobFilter", message: () => "must be an object with fields of a filter" })

const moment = (millis: number | undefined) => (millis === undefined ? undefined : Instant.format(millis))

/** A filter as it would be sent; what it does not say is left out. */
export const view = (filter: JobFilter): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    Object.entries({ ...filter, since: moment(filter.since), until: moment(filter.until) }).filter(
      ([, value]) => value !== undefined
    )
  )
