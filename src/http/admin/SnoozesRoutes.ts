import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { Clock, Duration, Effect, type Layer, Schema } from "effect"
import { Audit } from "../../access/Audit.js"
import { makeGenerator } from "../../core/Ids.js"
import type { Transactions } from "../../queue/Transactions.js"
import * as Audited from "../access/Audited.js"
import { Caller, withReason } from "../access/Caller.js"
import * as Body from "../Body.js"
import { about, apiOf, idPath } from "../Contract.js"
import * as Instant from "../Instant.js"
import * as ResponseFields from "../ResponseFields.js"
import * as WireDuration from "../WireDuration.js"
import * as WireText from "../WireText.js"
import * as Snoozes from "./Snoozes.js"

const text = (most: number, description: string) =>
  WireText.Text.pipe(
    Schema.filter((given) => given.trim() !== "" && given.length <= most, {
      message: () => ({ message: `must be text of 1 to ${most} characters`, override: true })
    })
  ).annotations({ jsonSchema: { type: "string", minLength: 1, maxLength: most, description } })

/** Body of `POST /api/v1/snoozes`. */
const SnoozeRequest = Schema.Struct({
  incident: text(600, "Key of the incident, for example `unserved`. Mission Control chooses the key."),
  text: text(1_000, "The incident in words."),
  jobs: WireText.optional(
    Schema.Int.pipe(Schema.greaterThanOrEqualTo(0)).annotations({
      ...WireText.withMessage("must be a whole number of 0 or more"),
      description:
        "How many jobs the incident affects. Mission Control shows the incident again when it affects more than twice as many."
    })
  ),
  for: WireDuration.field("How long to hide the incident, up to 7d.", {
    if: (millis) => millis >= 1_000 && millis <= Duration.toMillis(Snoozes.maxSnooze),
    message: "must be a duration from 1s to 7d, such as 1h, or milliseconds"
  }),
  reason: text(1_000, "Why the incident can wait. Stored in the audit log.")
}).annotations(WireText.body("SnoozeRequest"))

export const SnoozeView = Schema.Struct({
  id: Schema.String,
  incident: Schema.String,
  text: Schema.String,
  jobs: Schema.Int,
  at: Instant.Moment,
  until: Instant.Moment,
  who: Schema.String,
  reason: Schema.String
}).annotations({ identifier: "Snooze" })

export const group = HttpApiGroup.make("snoozes")
  .add(
    HttpApiEndpoint.get("list", "/snoozes")
      .addSuccess(Schema.Struct({ snoozes: Schema.Array(SnoozeView) }))
      .annotateContext(about("List incidents that operators have hidden for a while, newest first."))
  )
  .add(
    HttpApiEndpoint.post("create", "/snoozes")
      .setPayload(SnoozeRequest)
      .addSuccess(SnoozeView, { status: 201 })
      .annotateContext(about("Hide an incident from the overview of all operators for a while."))
  )
  .add(
    HttpApiEndpoint.del("end", "/snoozes/:id")
      .setPath(idPath)
      .addSuccess(SnoozeView)
      .annotateContext(about("Show a hidden incident again. Returns the ended snooze."))
  )

const maxBodyBytes = 16 * 1024

export const viewOf: (snooze: Snoozes.Snooze) => typeof SnoozeView.Type = ResponseFields.of(SnoozeView)

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "snoozes">,
  never,
  Audit | Transactions
> = HttpApiBuilder.group(apiOf(group), "snoozes", (handlers) =>
  Effect.gen(function* () {
    const audit = yield* Audit
    const audited = yield* Audited.make
    const ids = yield* makeGenerator
    const current = Snoozes.make(audit)

    return handlers
      .handle("list", () => Effect.map(current, (all) => ({ snoozes: all.map(viewOf) })))
      .handleRaw("create", ({ request }) =>
        Effect.gen(function* () {
          const {
            for: lasting,
            incident,
            jobs = 0,
            reason,
            text
          } = yield* Body.decoded(request, SnoozeRequest, maxBodyBytes)
          const at = yield* Clock.currentTimeMillis
          const { who } = yield* Caller
          const snooze = { id: ids.plain(at), incident, text, jobs, at, until: at + lasting, who, reason }
          yield* Effect.void.pipe(
            audited(Snoozes.acts.snooze, incident, () => ({
              id: snooze.id,
              after: { text, until: snooze.until, jobs } satisfies Snoozes.Snoozed
            })),
            withReason(reason)
          )
          return HttpServerResponse.unsafeJson(viewOf(snooze), { status: 201 })
        })
      )
      .handle("end", ({ path }) =>
        Effect.gen(function* () {
          const found = (yield* current).find(({ id }) => id === path.id)
          if (found === undefined) return yield* new Snoozes.SnoozeNotFound({ id: path.id })
          const { incident, jobs, text, until } = found
          yield* Effect.void.pipe(audited(Snoozes.acts.wake, incident, () => ({ before: { text, until, jobs } })))
          return viewOf(found)
        })
      )
  })
)
