import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Effect, type Layer, Schema } from "effect"
import { Kinds, type RegisteredKind } from "../../queue/Kinds.js"
import { about, apiOf } from "../Contract.js"
import { KindNotFound } from "../RequestErrors.js"

const fields = {
  name: Schema.String,
  queue: Schema.String.annotations({ description: "Where its jobs are enqueued by default." }),
  version: Schema.Int,
  attempts: Schema.Int
}

/** A registered kind in API responses. */
export const KindView = Schema.Struct({
  ...fields,
  schema: Schema.Unknown.annotations({ description: "The payload as JSON Schema; null if its code declares none." })
}).annotations({ identifier: "Kind" })

export const KindsView = Schema.Struct({ kinds: Schema.Array(Schema.Struct(fields)) })

export const group = HttpApiGroup.make("kinds")
  .add(
    HttpApiEndpoint.get("list", "/kinds").addSuccess(KindsView).annotateContext(about("List registered kinds by name."))
  )
  .add(
    HttpApiEndpoint.get("get", "/kinds/:name")
      .setPath(Schema.Struct({ name: Schema.String }))
      .addSuccess(KindView)
      .annotateContext(about("Get a registered kind with the schema of its payload."))
  )

const viewOf = ({ attempts, name, queue, version }: RegisteredKind) => ({ name, queue, version, attempts })

export const layer: Layer.Layer<HttpApiGroup.ApiGroup<"nightshift", "kinds">, never, Kinds> = HttpApiBuilder.group(
  apiOf(group),
  "kinds",
  (handlers) =>
    Effect.map(Kinds, (kinds) =>
      handlers
        .handle("list", () => Effect.map(kinds.all, (all) => ({ kinds: all.map(viewOf) })))
        .handle("get", ({ path }) =>
          kinds.find(path.name).pipe(
            Effect.map((kind) => ({
              ...viewOf(kind),
              schema: kind.schema === undefined ? null : (JSON.parse(kind.schema) as unknown)
            })),
            Effect.catchTag("UnknownKind", ({ kind }) => new KindNotFound({ kind }))
          )
        )
    )
)
