import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { Effect, Either, type Layer, Schema } from "effect"
import type { Audit } from "../../access/Audit.js"
import { type SavedView, SavedViews, ViewNotFound } from "../../access/SavedViews.js"
import { ViewId } from "../../core/Ids.js"
import { jsonText } from "../../core/Storable.js"
import type { Transactions } from "../../queue/Transactions.js"
import { Api } from "../Api.js"
import type { AccessConfig } from "../access/AccessConfig.js"
import * as Audited from "../access/Audited.js"
import * as Body from "../Body.js"
import * as Instant from "../Instant.js"
import * as Problem from "../Problem.js"
import { BadRequest } from "../RequestErrors.js"
import * as Views from "../Views.js"
import { encodeFilter, type View, ViewPatch, ViewRequest } from "./ViewsContract.js"

const mostBodyBytes = 16 * 1024
/** A filter must fit in a URL that can be shared. */
const mostFilterBytes = 4 * 1024

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
      jsonText(encoded, mostFilterBytes),
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
> = HttpApiBuilder.group(Api, "views", (handlers) =>
  Effect.gen(function* () {
    const saved = yield* SavedViews
    const views = yield* Views.make
    const audited = yield* Audited.make

    /** Mask the filter: its payload condition may contain values hidden from viewers. */
    const shown = ({ createdAt, filter, id, name, page }: SavedView): Effect.Effect<View> =>
      Effect.gen(function* () {
        const payload = filter.payload === undefined ? {} : { payload: yield* views.json(filter.payload) }
        return { id, name, page, filter: { ...filter, ...payload }, createdAt: Instant.format(createdAt) }
      })

    return handlers
      .handle("list", () =>
        Effect.gen(function* () {
          return { views: yield* Effect.forEach(yield* saved.list, shown) }
        }).pipe(Problem.catchErrors)
      )
      .handleRaw("create", ({ request }) =>
        Effect.gen(function* () {
          const { filter, ...view } = yield* Body.decoded(request, ViewRequest, mostBodyBytes)
          const made = yield* saved.create({ ...view, filter: yield* storable(filter) }).pipe(
            audited(
              "view.create",
              ({ name }) => name,
              (view) => ({ after: summaryOf(view) })
            )
          )
          return HttpServerResponse.unsafeJson(yield* shown(made), { status: 201 })
        }).pipe(Problem.catchErrors)
      )
      .handleRaw("change", ({ path, request }) =>
        Effect.gen(function* () {
          const id = yield* idOf(path.id)
          const { filter, ...patch } = yield* Body.decoded(request, ViewPatch, mostBodyBytes)
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
        }).pipe(Problem.catchErrors)
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
        }).pipe(Problem.catchErrors)
      )
  })
)
