import * as Command from "@effect/cli/Command"
import { Clock, Console, DateTime, Effect, Option } from "effect"
import * as HistoryView from "../../http/admin/HistoryView.js"
import * as Age from "../Age.js"
import * as CommonOptions from "../CommonOptions.js"
import * as QueueLayer from "../QueueLayer.js"
import * as Running from "../Running.js"
import * as Table from "../Table.js"
import { printable } from "../Terminal.js"
import * as LocalTime from "./LocalTime.js"
import * as ScheduleActs from "./ScheduleActs.js"

const said: Readonly<Record<HistoryView.RunView["outcome"], string>> = {
  fired: "fired",
  caughtUp: "caught up",
  triggered: "triggered",
  skipped: "skipped",
  missed: "missed"
}

const millisOf = (instant: string) =>
  Option.getOrElse(Option.map(DateTime.make(instant), DateTime.toEpochMillis), () => 0)

const rowOf = (timezone: string, now: number) => (run: HistoryView.RunView) => {
  const [at, since] = [millisOf(run.at), millisOf(run.since)]
  const last = LocalTime.format(at, timezone)
  return [
    at === since ? last : `${LocalTime.format(since, timezone)} to ${last}`,
    Age.describe(at, now),
    run.by === null ? said[run.outcome] : `${said[run.outcome]} by ${printable(run.by)}`,
    run.jobId ?? "-",
    run.jobId === null ? "-" : (run.jobState ?? "deleted")
  ]
}

export const command = Command.make("history", ScheduleActs.oneOptions, (given) =>
  Effect.gen(function* () {
    const history = yield* HistoryView.read(given.name)
    if (given.json) return yield* Console.log(JSON.stringify(history, null, 2))
    if (history.runs.length === 0) return yield* Console.log(`${given.name} has no runs yet.`)
    const { runs, timezone } = history
    const rows = runs.map(rowOf(timezone, yield* Clock.currentTimeMillis))
    yield* Console.log(Table.render([`IN ${timezone.toUpperCase()}`, "WHEN", "OUTCOME", "JOB", "STATE"], rows))
  }).pipe(Effect.provide(QueueLayer.layerForCommand), Running.configured(CommonOptions.databaseFlags(given)))
).pipe(Command.withDescription("Show the last runs of a schedule, newest first."))
