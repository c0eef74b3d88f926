import { Chunk, Clock, Console, DateTime, Effect, Either, Option, Stream } from "effect"
import * as HistoryView from "../../http/admin/HistoryView.js"
import * as ScheduleView from "../../http/admin/ScheduleView.js"
import { pageLimits } from "../../http/Contract.js"
import * as Instant from "../../http/Instant.js"
import * as CronDescription from "../../schedule/CronDescription.js"
import { expressionOf } from "../../schedule/ScheduleDefinition.js"
import { Schedules } from "../../schedule/Schedules.js"
import type { StoredSchedule } from "../../schedule/StoredSchedule.js"
import * as Command from "../kit/Command.js"
import * as Input from "../kit/Input.js"
import * as QueueCommand from "../QueueCommand.js"
import { age, printable, printJson, printText, table } from "../Terminal.js"
import * as ScheduleActs from "./ScheduleActs.js"

/** Formats an instant in a time zone with its UTC offset, or in UTC if the zone is unknown. */
const localTime = (millis: number, timeZone: string): string =>
  Option.match(DateTime.makeZoned(millis, { timeZone }), {
    onNone: () => DateTime.formatIso(DateTime.unsafeMake(millis)),
    onSome: DateTime.formatIsoOffset
  }).replace(/\.\d{3}/, "")

const outcomeNames: Readonly<Record<HistoryView.RunView["outcome"], string>> = {
  fired: "fired",
  caughtUp: "caught up",
  triggered: "triggered",
  skipped: "skipped",
  missed: "missed"
}

const millisOf = (instant: string) =>
  Option.getOrElse(Option.map(DateTime.make(instant), DateTime.toEpochMillis), () => 0)

const runRow = (timezone: string, now: number) => (run: HistoryView.RunView) => {
  const [at, since] = [millisOf(run.at), millisOf(run.since)]
  const last = localTime(at, timezone)
  return [
    at === since ? last : `${localTime(since, timezone)} to ${last}`,
    age(at, now),
    run.by === null ? outcomeNames[run.outcome] : `${outcomeNames[run.outcome]} by ${printable(run.by)}`,
    run.jobId ?? "-",
    run.jobId === null ? "-" : (run.jobState ?? "deleted")
  ]
}

const name = Input.required(Input.text, "The schedule's name.")

const history = QueueCommand.make({
  about: "Show the last runs of a schedule, newest first.",
  args: { name },
  examples: {
    "nightshift schedules history nightly_report": "show its last runs and their jobs",
    "nightshift schedules history nightly_report --json": "print JSON"
  },
  run: ({ json, name }) =>
    Effect.gen(function* () {
      const history = yield* HistoryView.read(name)
      if (json) return yield* printJson(history)
      if (history.runs.length === 0) return yield* Console.log(`${name} has no runs yet.`)
      const { runs, timezone } = history
      const rows = runs.map(runRow(timezone, yield* Clock.currentTimeMillis))
      yield* printText(table([`IN ${timezone.toUpperCase()}`, "WHEN", "OUTCOME", "JOB", "STATE"], rows))
    })
})

const all = Effect.gen(function* () {
  const schedules = yield* Schedules
  const pages = Stream.paginateChunkEffect("", (after) =>
    Effect.map(schedules.list({ limit: pageLimits.max, after }), (page) => [
      Chunk.fromIterable(page),
      page.length < pageLimits.max
        ? Option.none<string>()
        : Option.map(Option.fromNullable(page.at(-1)), ({ name }) => name)
    ])
  )
  return Chunk.toReadonlyArray(yield* Stream.runCollect(pages))
})

const stateOf = ({ lastError, paused }: StoredSchedule) => {
  if (!paused) return "on"
  return lastError === undefined ? "paused" : "broken"
}

const scheduleRow = (now: number) => (schedule: StoredSchedule) => {
  const when = (millis: number | undefined) => (millis === undefined ? "-" : age(millis, now))
  return [
    schedule.name,
    stateOf(schedule),
    printable(schedule.cron),
    printable(schedule.timezone),
    printable(schedule.kind),
    when(schedule.lastFireAt),
    schedule.paused ? "-" : when(schedule.nextFireAt),
    Either.getOrElse(CronDescription.of(schedule.cron, schedule.timezone), () => "-")
  ]
}

const list = QueueCommand.make({
  about: "List schedules by name.",
  examples: {
    "nightshift schedules list": "list schedules and their next runs",
    "nightshift schedules list --json": "print JSON as in the HTTP API"
  },
  run: ({ json }) =>
    Effect.gen(function* () {
      const schedules = yield* all
      if (json) return yield* printJson({ schedules: schedules.map(ScheduleView.of) })
      if (schedules.length === 0) return yield* Console.log("No schedules.")
      const now = yield* Clock.currentTimeMillis
      const heading = ["NAME", "STATE", "CRON", "TIMEZONE", "KIND", "LAST", "NEXT", "DESCRIPTION"]
      yield* printText(table(heading, schedules.map(scheduleRow(now))))
      const broken = schedules.filter((schedule) => stateOf(schedule) === "broken")
      for (const { lastError = "", name } of broken)
        yield* Console.log(`\n${name} cannot fire: ${printable(lastError)}`)
    })
})

const next = QueueCommand.make({
  about: "Show the next runs of a schedule.",
  args: { name },
  options: {
    count: Input.withDefault(
      Input.integer({ min: 1, max: ScheduleView.previewLimits.max }),
      ScheduleView.previewLimits.default,
      `Number of runs, up to ${ScheduleView.previewLimits.max} (default ${ScheduleView.previewLimits.default}).`
    )
  },
  examples: {
    "nightshift schedules next nightly_report": "show its next ten runs, in its time zone and in UTC"
  },
  run: (given) =>
    Effect.gen(function* () {
      const schedules = yield* Schedules
      const schedule = yield* schedules.get(given.name)
      const { name, paused, timezone } = schedule
      const expression = yield* expressionOf(schedule)
      const now = yield* Clock.currentTimeMillis
      const next = expression.preview(now, given.count)
      const { words } = ScheduleView.of(schedule)
      if (given.json) {
        return yield* printJson({ name, timezone, words, next: next.map(Instant.format) })
      }
      const rows = next.map((at) => [localTime(at, timezone), Instant.format(at), age(at, now)])
      yield* Console.log(`${words}\n`)
      yield* printText(table([`IN ${timezone.toUpperCase()}`, "IN UTC", "WHEN"], rows))
      if (paused) yield* Console.log("\nThe schedule is paused and will not fire.")
    })
})

export const command = Command.group("List, inspect and manage schedules.", {
  list,
  next,
  history,
  trigger: ScheduleActs.triggerNow,
  pause: ScheduleActs.pause,
  resume: ScheduleActs.resume
})
