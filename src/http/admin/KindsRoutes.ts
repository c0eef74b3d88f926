import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Effect, type Layer } from "effect"
import { Kinds, type RegisteredKind } from "../../queue/Kinds.js"
import { Api } from "../Api.js"
import * as Problem from "../Problem.js"
import { KindNotFound } from "../RequestErrors.js"

const viewOf = ({ maxAttempts, name, queue, version }: RegisteredKind) => ({ name, queue, version, maxAttempts })

export const layer: Layer.Layer<HttpApiGroup.ApiGroup<"nightshift", "kinds">, never, Kinds> = HttpApiBuilder.group(
  Api,
  "kinds",
  (handlers) =>
    Effect.map(Kinds, (kinds) =>
      handlers
        .handle("list", () => Effect.map(kinds.all, (all) => ({ kinds: all.map(viewOf) })).pipe(Problem.catchErrors))
        .handle("get", ({ path }) =>
          kinds.find(path.name).pipe(
            Effect.map((kind) => ({
              ...viewOf(kind),
              schema: kind.schema === undefined ? null : (JSON.parse(kind.schema) as unknown)
            })),
            Effect.catchTag("UnknownKind", ({ kind }) => new KindNotFound({ kind })),
            Problem.catchErrors
          )
        )
    )
)
