import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { Duration, Effect, Either, type Layer, Schema } from "effect"
import type { Audit } from "../../access/Audit.js"
import { limits, pages, type SavedView, SavedViews, ViewNotFound } from "../../access/SavedViews.js"
import { ViewId } from "../../core/Ids.js"
import { faultOfText, jsonText } from "../../core/Storable.js"
import type { Transactions } from "../../queue/Transactions.js"
import type { AccessConfig } from "../access/AccessConfig.js"
import * as Audited from "../access/Audited.js"
import * as Masked from "../access/Masked.js"
import * as Body from "../Body.js"
import { about, apiOf, idPath } from "../Contract.js"
import * as Instant from "../Instant.js"
import { BadRequest } from "../RequestErrors.js"
import * as WireDuration from "../WireDuration.js"
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

const Page = WireText.oneOf(pages, "The job list that the view opens.")

const maxWithin = Duration.toMillis("3650 days")

/** A job filter with an optional time range relative to now. */
const Filter = Schema.Struct({
  ...JobsFilter.Body.fields,
  within: WireText.optional(
    WireDuration.field(
      "Enqueued within this duration before the view is opened: 15m, 7d, or milliseconds. Cannot be combined with since or until.",
      {
        if: (millis) => millis >= 1_000 && millis <= maxWithin,
        message: "must be a duration from 1s to 3650d, such as 15m, or milliseconds"
      }
    )
  )
}).annotations(WireText.body("ViewFilter", "must be an object with filter fields"))

/** Body of `POST /api/v1/views`. */
const ViewRequest = Schema.Struct({ name: Name, page: Page, filter: Filter }).annotations(WireText.body("ViewRequest"))

/** Body of `PATCH /api/v1/views/{id}`. */
const ViewPatch = Schema.Struct({
  name: WireText.optional(Name),
  page: WireText.optional(Page),
  filter: WireText.optional(Filter)
}).annotations(WireText.body("ViewPatch"))

/** Encodes a filter in the request format, in which it is also stored. */
const encodeFilter = Schema.encodeSync(Filter)

export const View = Schema.Struct({
  id: ViewId,
  name: Schema.String,
  page: Schema.Literal(...pages),
  filter: Schema.Record({ key: Schema.String, value: Schema.Unknown }),
  createdAt: Instant.Moment
}).annotations({ identifier: "View" })
export type View = typeof View.Type

export const group = HttpApiGroup.make("views")
  .add(
    HttpApiEndpoint.get("list", "/views")
      .addSuccess(Schema.Struct({ views: Schema.Array(View) }))
      .annotateContext(about("List saved views, oldest first. All operators share them."))
  )
  .add(
    HttpApiEndpoint.post("create", "/views")
      .setPayload(ViewRequest)
      .addSuccess(View, { status: 201 })
      .annotateContext(about(`Save a filter as a view. At most ${limits.views} views can be saved.`, 409))
  )
  .add(
    HttpApiEndpoint.patch("change", "/views/:id")
      .setPath(idPath)
      .setPayload(ViewPatch)
      .addSuccess(View)
      .annotateContext(about("Change the name, page or filter of a view.", 409))
  )
  .add(
    HttpApiEndpoint.del("delete", "/views/:id")
      .setPath(idPath)
      .addSuccess(View)
      .annotateContext(about("Delete a view. Jobs are not affected. Returns the deleted view."))
  )

const maxBodyBytes = 16 * 1024
/** A filter must fit in a URL that can be shared. */
const maxFilterBytes = 4 * 1024

const decodeId = Schema.decode(ViewId)
const idOf = (text: string) => Effect.mapError(decodeId(text.toLowerCase()), () => new ViewNotFound({ id: text }))

/** Validates and encodes a filter for storage. */
const storable = (filter: (typeof ViewRequest.Type)["filter"]) =>
  Effect.gen(function* () {
    const { since, until, within } = filter
    if (within !== undefined && (since !== undefined || until !== undefined)) {
      const message = "filter.within must not be combined with since or until."
      return yield* new BadRequest({ message, field: "filter.within" })
    }
    const encoded = encodeFilter(filter)
    yield* Either.mapLeft(
      jsonText(encoded, maxFilterBytes),
      (reason) => new BadRequest({ message: `filter ${reason}.`, field: "filter" })
    )
    return encoded
  })

/** A view as stored in the audit log. */
const summaryOf = ({ filter, name, page }: SavedView) => ({ name, page, filter })

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "views">,
  never,
  SavedViews | Transactions | Audit | AccessConfig
> = HttpApiBuilder.group(apiOf(group), "views", (handlers) =>
  Effect.gen(function* () {
    const saved = yield* SavedViews
    const masked = yield* Masked.make
    const audited = yield* Audited.make

    /** Mask the filter: its payload condition may contain values hidden from viewers. */
    const shown = ({ createdAt, filter, id, name, page }: SavedView): Effect.Effect<View> =>
      Effect.gen(function* () {
        const payload = filter.payload === undefined ? {} : { payload: yield* masked.json(filter.payload) }
        return { id, name, page, filter: { ...filter, ...payload }, createdAt: Instant.format(createdAt) }
      })

    return handlers
      .handle("list", () =>
        Effect.gen(function* () {
          return { views: yield* Effect.forEach(yield* saved.list, shown) }
        })
      )
      .handleRaw("create", ({ request }) =>
        Effect.gen(function* () {
          const { filter, ...view } = yield* Body.decoded(request, ViewRequest, maxBodyBytes)
          const made = yield* saved.create({ ...view, filter: yield* storable(filter) }).pipe(
            audited(
              "view.create",
              ({ name }) => name,
              (view) => ({ after: summaryOf(view) })
            )
          )
          return HttpServerResponse.unsafeJson(yield* shown(made), { status: 201 })
        })
      )
      .handleRaw("change", ({ path, request }) =>
        Effect.gen(function* () {
          const id = yield* idOf(path.id)
          const { filter, ...patch } = yield* Body.decoded(request, ViewPatch, maxBodyBytes)
          const { after } = yield* saved
            .change(id, filter === undefined ? patch : { ...patch, filter: yield* storable(filter) })
            .pipe(
              audited(
                "view.change",
                ({ before }) => before.name,
                ({ after, before }) => ({ before: summaryOf(before), after: summaryOf(after) })
              )
            )
          return yield* shown(after)
        })
      )
      .handle("delete", ({ path }) =>
        Effect.gen(function* () {
          const removed = yield* saved.remove(yield* idOf(path.id)).pipe(
            audited(
              "view.delete",
              ({ name }) => name,
              (view) => ({ before: summaryOf(view) })
            )
          )
          return yield* shown(removed)
        })
      )
  })
)
