import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Effect, type Layer, Predicate, Schema } from "effect"
import { Audit, type AuditEntry } from "../../access/Audit.js"
import * as HttpUrl from "../../core/HttpUrl.js"
import { reading } from "../../database/Replica.js"
import { about, apiOf, pageLimits, pageQuery } from "../Contract.js"
import * as Instant from "../Instant.js"
import * as ResponseFields from "../ResponseFields.js"
import * as WireText from "../WireText.js"
import type { AccessConfig } from "./AccessConfig.js"
import { Caller, seesAll } from "./Caller.js"
import * as Masked from "./Masked.js"

const EntryView = Schema.Struct({
  id: Schema.String,
  at: Instant.Moment,
  who: Schema.String.annotations({ description: "`api:`, `ui:`, `cli:` or `agent:` followed by the role or name." }),
  act: Schema.String,
  target: Schema.String,
  reason: Schema.NullOr(Schema.String),
  before: Schema.Unknown,
  after: Schema.Unknown
}).annotations({ identifier: "AuditEntry" })

const AuditPageView = Schema.Struct({ entries: Schema.Array(EntryView), next: Schema.NullOr(Schema.String) })
export type AuditPageView = typeof AuditPageView.Type

export const group = HttpApiGroup.make("audit").add(
  HttpApiEndpoint.get("list", "/audit")
    .setUrlParams(
      Schema.Struct({
        who: WireText.optional(WireText.Text.annotations({ description: "Name of the operator or token." })),
        act: WireText.optional(
          WireText.Text.annotations({ description: "An action like `job.cancel`, or its prefix `job`." })
        ),
        target: WireText.optional(WireText.Text.annotations({ description: "Id or name of the changed object." })),
        since: WireText.optional(Instant.described("Only entries from this time on.")),
        until: WireText.optional(Instant.described("Only entries before this time.")),
        ...pageQuery
      }).annotations(WireText.strict)
    )
    .addSuccess(AuditPageView)
    .annotateContext(about("List changes made by operators, newest first."))
)

const fieldsOf = ResponseFields.of(EntryView)

/** Viewers see only the origin of an endpoint's URL, as in the list of endpoints. */
const withoutPath = (seen: unknown): unknown =>
  Predicate.hasProperty(seen, "url") && typeof seen.url === "string"
    ? { ...seen, url: HttpUrl.shownOrigin(seen.url) }
    : seen

/** State as viewers may see it. The error of a job may have been stored before NIGHTSHIFT_MASK was set. */
const hidden = (seen: unknown, { json, text }: Masked.Mask): unknown => {
  const shown = json(seen)
  if (!Predicate.isRecord(shown) || typeof shown.lastError !== "string") return shown
  return { ...shown, lastError: text(shown.lastError, (seen as { readonly payload?: unknown }).payload) }
}

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "audit">,
  never,
  Audit | AccessConfig
> = HttpApiBuilder.group(apiOf(group), "audit", (handlers) =>
  Effect.gen(function* () {
    const audit = yield* Audit
    const masked = yield* Masked.make

    const shown = (entry: AuditEntry) =>
      Effect.gen(function* () {
        const fields = fieldsOf(entry)
        const urlOf = seesAll(yield* Caller) ? (seen: unknown) => seen : withoutPath
        const before = urlOf(yield* masked.view(fields.before, hidden))
        return { ...fields, before, after: urlOf(yield* masked.view(fields.after, hidden)) }
      })

    return handlers.handle("list", ({ urlParams: { cursor, limit = pageLimits.default, ...filter } }) =>
      Effect.gen(function* () {
        const page = yield* reading(audit.list(filter, { limit, cursor }))
        return { entries: yield* Effect.forEach(page.entries, shown), next: page.next ?? null }
      })
    )
  })
)
