import { Schema } from "effect"
import { BatchId } from "../../core/Ids.js"
import { DeadReason, State } from "../../core/StoredJob.js"
import type { JobFilter } from "../../queue/search/JobFilter.js"
import * as Instant from "../Instant.js"
import * as WireText from "../WireText.js"

const text = (description: string) => WireText.optional(WireText.Text.annotations({ description }))

const instant = (description: string) =>
  WireText.optional(Instant.Instant.annotations({ jsonSchema: { type: "string", format: "date-time", description } }))

const batch = BatchId.annotations(WireText.withMessage("must be a batch id"))

/** Job filter as query parameters. A repeated parameter matches any of its values. */
export const query = {
  queue: WireText.optional(WireText.names("Any of these queues. Separate them with commas or repeat the parameter.")),
  kind: WireText.optional(WireText.texts("Any of these kinds. Repeat the parameter for several.")),
  state: WireText.optional(WireText.anyOf(State.literals, "Any of these states.")),
  reason: WireText.optional(WireText.anyOf(DeadReason.literals, "Dead for any of these reasons.")),
  since: instant("Enqueued at or after this time."),
  until: instant("Enqueued before this time."),
  payload: WireText.optional(
    WireText.JsonText.annotations({
      jsonSchema: {
        type: "string",
        contentMediaType: "application/json",
        description: "JSON that the payload must contain."
      }
    })
  ),
  dedupe: text("The exact dedupe key."),
  pod: text("The id of the process that runs the job, or that completed it."),
  text: text("Text in the last error, case-insensitive."),
  search: text("Text in the id, the kind or the last error, or the whole dedupe key or key."),
  shape: text("Shape of the last error, as returned by groups."),
  batch: WireText.optional(batch.annotations({ description: "Jobs of this batch." }))
}

const oneOrMany = <A, I>(value: Schema.Schema<A, I>, expected: string) =>
  WireText.optional(
    Schema.Union(value, Schema.Array(value).pipe(Schema.minItems(1), Schema.maxItems(50))).annotations(
      WireText.withMessage(expected)
    )
  )

const mustBeOneOf = (words: ReadonlyArray<string>) => `must be one of ${words.join(", ")}, or a list of them`

/** Job filter as a JSON body. A field has one value or a list; the payload is plain JSON. */
export const Body = Schema.Struct({
  queue: oneOrMany(WireText.Text, "must be a string or a list of strings"),
  kind: oneOrMany(WireText.Text, "must be a string or a list of strings"),
  state: oneOrMany(State, mustBeOneOf(State.literals)),
  reason: oneOrMany(DeadReason, mustBeOneOf(DeadReason.literals)),
  since: WireText.optional(Instant.Instant),
  until: WireText.optional(Instant.Instant),
  payload: WireText.optional(Schema.Unknown),
  dedupe: WireText.optional(WireText.Text),
  pod: WireText.optional(WireText.Text),
  text: WireText.optional(WireText.Text),
  search: WireText.optional(WireText.Text),
  shape: WireText.optional(WireText.Text),
  batch: WireText.optional(batch)
}).annotations({ identifier: "JobFilter", message: () => "must be an object with filter fields" })

const moment = (millis: number | undefined) => (millis === undefined ? undefined : Instant.format(millis))

/** Formats a filter as in a request, without unset fields. */
export const view = (filter: JobFilter): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    Object.entries({ ...filter, since: moment(filter.since), until: moment(filter.until) }).filter(
      ([, value]) => value !== undefined
    )
  )
