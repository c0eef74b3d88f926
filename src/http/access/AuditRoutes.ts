import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Effect, type Layer } from "effect"
import { Audit, type AuditEntry } from "../../access/Audit.js"
import { Api } from "../Api.js"
import { pageLimits } from "../Contract.js"
import * as Instant from "../Instant.js"
import * as Problem from "../Problem.js"
import * as Views from "../Views.js"
import type { AccessConfig } from "./AccessConfig.js"

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "audit">,
  never,
  Audit | AccessConfig
> = HttpApiBuilder.group(Api, "audit", (handlers) =>
  Effect.gen(function* () {
    const audit = yield* Audit
    const views = yield* Views.make

    const shown = ({ act, after, at, before, id, reason, target, who }: AuditEntry) =>
      Effect.map(Effect.all([views.json(before ?? null), views.json(after ?? null)]), ([before, after]) => ({
        id,
        at: Instant.format(at),
        who,
        act,
        target,
        reason: reason ?? null,
        before,
        after
      }))

    return handlers.handle("list", ({ urlParams: { cursor, limit = pageLimits.default, ...filter } }) =>
      Effect.gen(function* () {
        const page = yield* audit.list(filter, { limit, cursor })
        return { entries: yield* Effect.forEach(page.entries, shown), next: page.next ?? null }
      }).pipe(Problem.catchErrors)
    )
  })
)
