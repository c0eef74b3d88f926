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

/** Characters that break the line or change the direction of text. */
const unsafeCharacters = /[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/u

const faultOfName = (name: string): string | undefined =>
  faultOfText(name, limits.nameCharacters) ??
  (unsafeCharacters.test(name) ? "must be a single line without control characters" : undefined)

/** Trims the name. */
const Name = Schema.transform(Schema.String.annotations({ message: () => "must be text" }), Schema.String, {
  strict: true,
  decode: (name) => name.trim(),
  encode: (name) => name
})
  .pipe(Schema.filter(faultOfName))
  .annotations({
    jsonSchema: { type: "string", minLength: 1, maxLength: limits.nameCharacters, description: "Must be unique." }
  })

const Page = Schema.Literal(...pages).annotations({
  ...WireText.withMessage(`must be one of ${pages.join(", ")}`),
  description: "The job list that the view opens."
})

/** A job filter with an optional time range relative to now. */
const Filter = Schema.Struct({
  ...JobsFilter.Body.fields,
  within: WireText.optional(
    Schema.Int.pipe(Schema.between(1, 315_360_000)).annotations({
      ...WireText.withMessage("must be a whole number of seconds from 1 to ten years"),
      jsonSchema: { type: "integer", minimum: 1, maximum: 315_360_000 },
      description:
        "Enqueued within this many seconds before the view is opened. Cannot be combined with since or until."
    })
  )
}).annotations({
  identifier: "ViewFilter",
  message: () => "must be an object with filter fields",
  ...WireText.strict
})

const object = { message: () => "must be an object", ...WireText.strict }

/** Body of `POST /api/v1/views`. */
export const ViewRequest = Schema.Struct({ name: Name, page: Page, filter: Filter }).annotations({
  identifier: "ViewRequest",
  ...object
})

/** Body of `PATCH /api/v1/views/{id}`. */
export const ViewPatch = Schema.Struct({
  name: WireText.optional(Name),
  page: WireText.optional(Page),
  filter: WireText.optional(Filter)
}).annotations({ identifier: "ViewPatch", ...object })

/** Encodes a filter in the request format, in which it is also stored. */
export const encodeFilter = Schema.encodeSync(Filter)

export const View = Schema.Struct({
  id: ViewId,
  name: Schema.String,
  page: Schema.Literal(...pages),
  filter: Schema.Record({ key: Schema.String, value: Schema.Unknown }),
  createdAt: Moment
}).annotations({ identifier: "View" })
export type View = typeof View.Type

export const group = HttpApiGroup.make("views")
  .add(
    HttpApiEndpoint.get("list", "/views")
      .addSuccess(Schema.Struct({ views: Schema.Array(View) }))
      .annotateContext(
        OpenApi.annotations({ description: "List saved views, oldest first. All operators share them." })
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
      .annotateContext(
        OpenApi.annotations({ description: `Save a filter as a view. At most ${limits.views} views can be saved.` })
      )
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
      .annotateContext(OpenApi.annotations({ description: "Change the name, page or filter of a view." }))
  )
  .add(
    HttpApiEndpoint.del("delete", "/views/:id")
      .setPath(idPath)
      .addSuccess(View)
      .addError(problem(404))
      .annotateContext(
        OpenApi.annotations({ description: "Delete a view. Jobs are not affected. Returns the deleted view." })
      )
  )
