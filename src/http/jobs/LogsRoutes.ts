import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Effect, type Layer, Schema } from "effect"
import { JobLogs, type StoredLog } from "../../queue/logs/JobLogs.js"
import { JobSearch } from "../../queue/search/JobSearch.js"
import type { AccessConfig } from "../access/AccessConfig.js"
import * as Masked from "../access/Masked.js"
import { about, apiOf, idPath } from "../Contract.js"
import * as Instant from "../Instant.js"
import * as ResponseFields from "../ResponseFields.js"
import * as JobPath from "./JobPath.js"

export const LineView = Schema.Struct({
  at: Instant.Moment,
  level: Schema.Literal("trace", "debug", "info", "warn", "error", "fatal"),
  message: Schema.String,
  step: Schema.NullOr(Schema.String).annotations({ description: "The workflow step whose code logged the line." }),
  error: Schema.NullOr(Schema.String).annotations({
    description: "Message and stack trace of the error that was logged."
  }),
  fields: Schema.NullOr(Schema.Record({ key: Schema.String, value: Schema.Unknown }))
}).annotations({ identifier: "LogLine" })

export const LogsView = Schema.Struct({
  attempts: Schema.Array(
    Schema.Struct({
      attempt: Schema.Int,
      dropped: Schema.Int.annotations({
        description: "How many older lines were logged and are not stored."
      }),
      lines: Schema.Array(LineView)
    })
  ).annotations({ description: "Attempts whose handler has logged, oldest first." })
}).annotations({ identifier: "JobLogs" })

const lineOf = ResponseFields.of(LineView)

export const of = (logs: ReadonlyArray<StoredLog>): typeof LogsView.Type => ({
  attempts: logs.map(({ lines, ...log }) => ({ ...log, lines: lines.map((line) => lineOf(line)) }))
})

/** Lines are stored masked. Lines stored before NIGHTSHIFT_MASK was set are not, so viewers get them masked here. */
const hidden =
  (payload: unknown) =>
  ({ attempts }: typeof LogsView.Type, { json, text }: Masked.Mask): typeof LogsView.Type => ({
    attempts: attempts.map((log) => ({
      ...log,
      lines: log.lines.map((line) => ({
        ...line,
        message: text(line.message, payload) ?? "",
        error: text(line.error, payload),
        fields: json(line.fields) as typeof line.fields
      }))
    }))
  })

export const group = HttpApiGroup.make("logs").add(
  HttpApiEndpoint.get("read", "/jobs/:id/logs")
    .setPath(idPath)
    .addSuccess(LogsView)
    .annotateContext(
      about(
        "Read what the job's handler has logged, by attempt: the last lines of each. Lines of a running attempt appear after about a second."
      )
    )
)

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "logs">,
  never,
  JobLogs | JobSearch | AccessConfig
> = HttpApiBuilder.group(apiOf(group), "logs", (handlers) =>
  Effect.gen(function* () {
    const logs = yield* JobLogs
    const search = yield* JobSearch
    const { view } = yield* Masked.make
    return handlers.handle("read", ({ path }) =>
      Effect.gen(function* () {
        const { id, payload } = yield* Effect.flatMap(JobPath.read(path.id), search.get)
        return yield* view(of(yield* logs.read(id)), hidden(payload))
      })
    )
  })
)
