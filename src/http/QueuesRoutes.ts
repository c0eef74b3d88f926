import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Effect, type Layer, ParseResult, Schema } from "effect"
import { JobSearch } from "../queue/JobSearch.js"
import { Queues } from "../queue/QueueSettings.js"
import { Api } from "./Api.js"
import * as Body from "./Body.js"
import * as Problem from "./Problem.js"
import { QueuePatchRequest, toPatch } from "./QueuePatchRequest.js"
import * as QueueView from "./QueueView.js"
import * as RequestFault from "./RequestFault.js"

const mostBodyBytes = 64 * 1024

const decode = Schema.decodeUnknown(QueuePatchRequest)

/** Queues: what waits in them and for how long, and what operators want of them. */
export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "queues">,
  never,
  JobSearch | Queues
> = HttpApiBuilder.group(Api, "queues", (handlers) =>
  Effect.gen(function* () {
    const search = yield* JobSearch
    const queues = yield* Queues

    const list = Effect.zipWith(search.counts, queues.all, (counts, settings) => ({
      queues: QueueView.ofAll(counts, settings)
    }))

    return handlers
      .handle("list", () => Problem.answered(list))
      .handleRaw("change", ({ path, request }) =>
        Effect.gen(function* () {
          const body = yield* Body.json(request, mostBodyBytes)
          const patch = yield* Effect.mapError(decode(body), (error) =>
            RequestFault.ofIssues(ParseResult.ArrayFormatter.formatErrorSync(error))
          )
          const { after } = yield* queues.change(path.name, toPatch(patch))
          const counted = (yield* search.counts).find(({ queue }) => queue === path.name)
          return QueueView.of(path.name, counted, after)
        }).pipe(Problem.answered)
      )
  })
)
