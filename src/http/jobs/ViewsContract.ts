import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import { Schema } from "effect"
import { limits, pages } from "../../access/SavedViews.js"
import { ViewId } from "../../core/Ids.js"
import { faultOfText } from "../../core/Storable.js"
import { idPath, Moment, problem } from "../Contract.js"
import * as WireText from "../WireText.js"
import * as JobsFilter from "./JobsFilter.js"

/** What would break the line, or turn round the names beside it. */
const disorderly = /[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/u

const faultOfName = (name: string): string | undefined =>
  faultOfText(name, limits.nameCharacters) ??
  (disorderly.test(name) ? "must stand in one line, without control characters" : undefined)

/** The blanks around a name are nobody's wish. */
const Name = Schema.transform(Schema.String.annotations({ message: () => "must be text" }), Schema.String, {
  strict: true,
  decode: (name) => name.trim(),
  encode: (name) => name
})
  .pipe(Schema.filter(faultOfName))
  .annotations({
    jsonSchema: { type: "string", minLength: 1, maxLength: limits.nameCharacters, description: "No two have the same." }
  })

const Page = Schema.Literal(...pages).annotations({
  ...WireText.said(`must be one of ${pages.join(", ")}`),
  description: "The list of jobs that it opens."
})

/** A filter of jobs, which may also say how far back it looks from whenever it is opened. */
const Filter = Schema.Struct({
  ...JobsFilter.Body.fields,
  within: WireText.optional(
    Schema.Int.pipe(Schema.between(1, 315_360_000)).annotations({
      ...WireText.said("must be a whole number of seconds, at least 1 and at most ten years"),
      jsonSchema: { type: "integer", minimum: 1, maximum: 315_360_000 },
      description: "Stored within so many seconds before somebody looks; instead of since and until."
    })
  )
}).annotations({
  identifier: "ViewFilter",
  message: () => "must be an object with fields of a filter",
  ...WireText.strict
})

const object = { message: () => "must be an object", ...WireText.strict }

/** What `POST /api/v1/views` takes. */
export const ViewRequest = Schema.Struct({ name: Name, page: Page, filter: Filter }).annotations({
  identifier: "ViewRequest",
  ...object
})

/** What `PATCH /api/v1/views/{id}` takes. */
export const ViewPatch = Schema.Struct({
  name: WireText.optional(Name),
  page: WireText.optional(Page),
  filter: WireText.optional(Filter)
}).annotations({ identifier: "ViewPatch", ...object })

/** The filter as it is stored and shown: as it would be sent. */
export const encodeFilter = Schema.encodeSync(Filter)

const View = Schema.Struct({
  id: ViewId,
  name: Schema.String,
  page: Schema.Literal(...pages),
  filter: Schema.Record({ key: Schema.String, value: Schema.Unknown }),
  createdAt: Moment
}).annotations({ identifier: "View" })
export type View = typeof View.Type

/** Filters of jobs that somebody gave a name. */
export const group = HttpApiGroup.make("views")
  .add(
    HttpApiEndpoint.get("list", "/views")
      .addSuccess(Schema.Struct({ views: Schema.Array(View) }))
      .annotateContext(
        OpenApi.annotations({ description: "Filters of jobs that somebody gave a name, oldest first. Everybody's." })
      )
  )
  .add(
    HttpApiEndpoint.post("create", "/views")
      .setPayload(ViewRequest)
      .addSuccess(View, { status: 201 })
      .addError(problem(400))
      .addError(problem(409))
      .addError(problem(413))
      .addError(problem(415))
      .annotateContext(OpenApi.annotations({ description: `Give a filter a name. At most ${limits.views} have one.` }))
  )
  .add(
    HttpApiEndpoint.patch("change", "/views/:id")
      .setPath(idPath)
      .setPayload(ViewPatch)
      .addSuccess(View)
      .addError(problem(400))
      .addError(problem(404))
      .addError(problem(409))
      .addError(problem(413))
      .addError(problem(415))
      .annotateContext(OpenApi.annotations({ description: "Rename a view, or let it look for something else." }))
  )
  .add(
    HttpApiEndpoint.del("delete", "/views/:id")
      .setPath(idPath)
      .addSuccess(View)
      .addError(problem(404))
      .annotateContext(OpenApi.annotations({ description: "Forget a view; no job changes. Answers what it was." }))
  )
