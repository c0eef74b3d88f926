import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { Effect, type Layer, Schema } from "effect"
import type { Audit } from "../../access/Audit.js"
import { JobId } from "../../core/Ids.js"
import { State } from "../../core/StoredJob.js"
import { digestOf, shortOf } from "../../database/SubjectText.js"
import * as Eraser from "../../erasure/Eraser.js"
import { Caller } from "../access/Caller.js"
import * as Body from "../Body.js"
import { about, apiOf } from "../Contract.js"
import * as WireText from "../WireText.js"

/** Body of `POST /api/v1/erase`. */
const EraseRequest = Schema.Struct({
  subject: WireText.Text.annotations({ description: "Whose data to erase, such as customer:42." }),
  dryRun: WireText.flag("Change nothing; return what is stored of the subject."),
  running: WireText.optional(
    Eraser.WhenRunning.annotations({
      ...WireText.withMessage("must be cancel or skip"),
      description:
        "Jobs that have not ended: cancel them, and erase them when they have ended, or leave them alone. [cancel]"
    })
  ),
  reason: WireText.optional(WireText.Text.annotations({ description: "Recorded in the audit log." }))
}).annotations(WireText.body("EraseRequest", "must be an object with the field subject"))

const counts = {
  events: Schema.Int,
  batches: Schema.Int.annotations({ description: "Batches whose name and follow-up are erased." }),
  schedules: Schema.Int,
  uploads: Schema.Int,
  copies: Schema.Int.annotations({ description: "Copies of jobs that are kept for an undo." }),
  quotes: Schema.Int.annotations({
    description: "Audit entries, operations and saved views that quote the subject."
  })
}

const subject = Schema.String.annotations({ description: "The start of the SHA-256 digest of the subject." })

const FoundView = Schema.Struct({
  subject,
  found: Schema.Struct({
    states: Schema.Record({ key: State, value: Schema.Int }).annotations({ description: "Jobs by state." }),
    executions: Schema.Int.annotations({ description: "How many of the jobs are executions." }),
    logs: Schema.Int.annotations({ description: "Attempts with logs." }),
    steps: Schema.Int,
    streams: Schema.Int,
    waits: Schema.Int.annotations({ description: "Signals, asks and other waits of executions." }),
    tags: Schema.Int,
    ...counts
  })
}).annotations({ identifier: "Found" })

const UnfinishedView = Schema.Struct({
  id: JobId,
  kind: Schema.String,
  execution: Schema.NullOr(Schema.String),
  running: Schema.Boolean,
  asked: Schema.Boolean.annotations({ description: "Whether the job was asked to stop." })
})

const ErasedView = Schema.Struct({
  subject,
  erased: Schema.Struct({ jobs: Schema.Int.annotations({ description: "Jobs and executions." }), ...counts }),
  unfinished: Schema.Array(UnfinishedView).annotations({
    description: "Up to 20 jobs that have not ended. Their data is still stored."
  }),
  done: Schema.Boolean.annotations({
    description: "Whether nothing is left but jobs that were to be skipped. If false, repeat the request."
  })
}).annotations({ identifier: "Erased" })

export const group = HttpApiGroup.make("erase").add(
  HttpApiEndpoint.post("erase", "/erase")
    .setPayload(EraseRequest)
    .addSuccess(Schema.Union(ErasedView, FoundView))
    .annotateContext(
      about(
        "Erase the data of a subject from jobs, executions, events, batches, schedules and uploads. States, counts and times of jobs stay. A request ends after some seconds: repeat it until `done` is true. A dry run counts what is stored."
      )
    )
)

const maxBodyBytes = 16 * 1024

/** What is stored of a subject, as its caller sees it. */
export const foundView = (given: string, found: Eraser.Found): typeof FoundView.Type => ({
  subject: shortOf(digestOf(given)),
  found
})

export const erasedView = (given: string, { done, erased, unfinished }: Eraser.Pass): typeof ErasedView.Type => ({
  subject: shortOf(digestOf(given)),
  erased,
  unfinished: unfinished.map((each) => ({ ...each, execution: each.execution ?? null })),
  done
})

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "erase">,
  never,
  Eraser.Ports | Audit
> = HttpApiBuilder.group(apiOf(group), "erase", (handlers) =>
  Effect.gen(function* () {
    const ports = yield* Effect.context<Eraser.Ports | Audit>()
    return handlers.handleRaw("erase", ({ request }) =>
      Effect.gen(function* () {
        const { dryRun, reason, running = "cancel", subject } = yield* Body.decoded(request, EraseRequest, maxBodyBytes)
        if (dryRun === true) return HttpServerResponse.unsafeJson(foundView(subject, yield* Eraser.find(subject)))
        const caller = yield* Caller
        const options = { running, who: caller.who, reason: reason ?? caller.reason }
        return HttpServerResponse.unsafeJson(erasedView(subject, yield* Eraser.erase(subject, options)))
      }).pipe(Effect.provide(ports))
    )
  })
)
