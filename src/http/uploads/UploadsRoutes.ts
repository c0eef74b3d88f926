import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Clock, Effect, type Layer } from "effect"
import { Storage, stuckAfter } from "../../uploads/Storage.js"
import { Api } from "../Api.js"
import { pageLimits } from "../Contract.js"
import * as Problem from "../Problem.js"
import { forOperators } from "./UploadsContract.js"

export const layer: Layer.Layer<HttpApiGroup.ApiGroup<"nightshift", "uploads">, never, Storage> = HttpApiBuilder.group(
  Api,
  "uploads",
  (handlers) =>
    Effect.map(Storage, (storage) =>
      handlers
        .handle("overview", () =>
          Effect.gen(function* () {
            const counts = yield* storage.counts
            const stuck = yield* storage.stuck(stuckAfter)
            const now = yield* Clock.currentTimeMillis
            return {
              counts,
              stuck: stuck.map(({ oldest, ...workspace }) => ({ ...workspace, waitingSeconds: (now - oldest) / 1000 }))
            }
          }).pipe(Problem.catchErrors)
        )
        .handle("files", ({ urlParams: { cursor, limit = pageLimits.default, ...filter } }) =>
          Effect.gen(function* () {
            const { next, uploads } = yield* storage.browse(filter, { limit, cursor })
            const now = yield* Clock.currentTimeMillis
            return { files: uploads.map((upload) => forOperators(upload, now)), next: next ?? null }
          }).pipe(Problem.catchErrors)
        )
    )
)
