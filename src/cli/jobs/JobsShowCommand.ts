import * as Command from "@effect/cli/Command"
import { Clock, Console, Effect, Option } from "effect"
import { showable } from "../../core/Nesting.js"
import type { StoredJob } from "../../core/StoredJob.js"
import * as Instant from "../../http/Instant.js"
import * as JobView from "../../http/jobs/JobView.js"
import { JobSearch } from "../../queue/search/JobSearch.js"
import * as TraceParent from "../../telemetry/tracing/TraceParent.js"
import * as Age from "../Age.js"
import * as CommonOptions from "../CommonOptions.js"
import * as QueueLayer from "../QueueLayer.js"
import * as Running from "../Running.js"
import { printable, printableLines } from "../Terminal.js"
import * as JobIdArgument from "./JobIdArgument.js"

const describe = (job: StoredJob, now: number): string => {
  const when = (millis: number | undefined) =>
    millis === undefined ? undefined : `${Instant.format(millis)} (${Age.describe(millis, now)})`
  const facts: ReadonlyArray<readonly [name: string, value: string | undefined]> = [
    ["id", job.id],
    [
      "state",
      job.deadReason === undefined || job.state === "cancelled" ? job.state : `${job.state} (${job.deadReason})`
    ],
    ["kind", `${printable(job.kind)}, version ${job.version}`],
    ["queue", job.queue],
    ["key", job.key],
    ["dedupe", job.dedupe && `${job.dedupe.key} (${job.dedupe.scope})`],
    ["attempt", `${job.attempt} of ${job.maxAttempts}`],
    ["priority", String(job.priority)],
    ["created", when(job.createdAt)],
    ["due", job.status === "pending" ? when(job.runAt) : undefined],
    ["started", when(job.startedAt)],
    ["cancelling", when(job.cancelRequestedAt)],
    ["finished", when(job.finishedAt)],
    ["pod", job.pod],
    ["trace", Option.getOrUndefined(TraceParent.ofMeta(job.meta))?.traceId],
    ["payload", JSON.stringify(showable(job.payload))],
    ["progress", JSON.stringify(job.progress)],
    ["result", JSON.stringify(job.result)],
    ["last error", job.lastError]
  ]
  const history = job.history.map(
    ({ attempt, endedAt, message, outcome }) =>
      `  attempt ${attempt}: ${outcome}, ${when(endedAt)}${message === undefined ? "" : `: ${printableLines(message, 4)}`}`
  )
  const lines = facts.flatMap(([name, value]) =>
    value === undefined ? [] : [`${name.padEnd(14)} ${printableLines(value, 15)}`]
  )
  return [...lines, ...(history.length === 0 ? [] : ["history"]), ...history].join("\n")
}

export const command = Command.make(
  "show",
  { id: JobIdArgument.argument, ...CommonOptions.database, json: CommonOptions.json },
  (given) =>
    Effect.gen(function* () {
      const search = yield* JobSearch
      const job = yield* search.get(given.id)
      const now = yield* Clock.currentTimeMillis
      yield* Console.log(given.json ? JSON.stringify(JobView.of(job), null, 2) : describe(job, now))
    }).pipe(Effect.provide(QueueLayer.layerForCommand), Running.configured(CommonOptions.databaseFlags(given)))
).pipe(Command.withDescription("Show all details of a job."))
