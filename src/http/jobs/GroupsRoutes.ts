import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Effect, type Layer } from "effect"
import type { DeadGroup } from "../../queue/search/JobOverview.js"
import { Api } from "../Api.js"
import * as Instant from "../Instant.js"
import * as Problem from "../Problem.js"
import { ListCache } from "./ListCache.js"

const viewOf =
  (queue: string | undefined) =>
  ({ count, deadReason, firstAt, kind, lastAt, sample, shape }: DeadGroup) => ({
    kind,
    deadReason,
    shape,
    count,
    firstAt: Instant.format(firstAt),
    lastAt: Instant.format(lastAt),
    sample: { id: sample.id, error: sample.error ?? null },
    filter: { ...(queue === undefined ? {} : { queue }), kind, state: "dead", deadReason, shape }
  })

export const layer: Layer.Layer<HttpApiGroup.ApiGroup<"nightshift", "groups">, never, ListCache> = HttpApiBuilder.group(
  Api,
  "groups",
  (handlers) =>
    Effect.map(ListCache, (lists) =>
      handlers.handle("dead", ({ urlParams: { queue } }) =>
        lists.deadGroups(queue).pipe(
          Effect.map(({ groups, looked, sampled }) => ({ groups: groups.map(viewOf(queue)), looked, sampled })),
          Problem.catchErrors
        )
      )
    )
)
