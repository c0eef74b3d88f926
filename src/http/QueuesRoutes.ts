import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Effect, type Layer } from "effect"
import { JobSearch, type QueueCounts } from "../queue/JobSearch.js"
import { Api } from "./Api.js"
import * as Problem from "./Problem.js"

const viewOf = ({ approximate, counts, oldestDueAge, queue }: QueueCounts) => ({
  name: queue,
  counts,
  approximate,
  oldestDueAgeSeconds: oldestDueAge === undefined ? null : oldestDueAge / 1000
})

/** Queues: what waits in them and for how long. */
export const layer: Layer.Layer<HttpApiGroup.ApiGroup<"nightshift", "queues">, never, JobSearch> = HttpApiBuilder.group(
  Api,
  "queues",
  (handlers) =>
    Effect.map(JobSearch, (search) =>
      handlers.handle("list", () =>
        Problem.answered(Effect.map(search.counts, (queues) => ({ queues: queues.map(viewOf) })))
      )
    )
)
