import * as Command from "@effect/cli/Command"
import { Chunk, Clock, Console, Effect, Either, Option, Stream } from "effect"
import * as ScheduleView from "../../http/admin/ScheduleView.js"
import { pageLimits } from "../../http/Contract.js"
import * as CronDescription from "../../schedule/CronDescription.js"
import { Schedules } from "../../schedule/Schedules.js"
import type { StoredSchedule } from "../../schedule/StoredSchedule.js"
import * as Age from "../Age.js"
import * as CommonOptions from "../CommonOptions.js"
import * as QueueLayer from "../QueueLayer.js"
import * as Running from "../Running.js"
import * as Table from "../Table.js"
import { printable } from "../Terminal.js"

const all = Effect.gen(function* () {
  const schedules = yield* Schedules
  const pages = Stream.paginateChunkEffect("", (after) =>
    Effect.map(schedules.list({ limit: pageLimits.most, after }), (page) => [
      Chunk.fromIterable(page),
      page.length < pageLimits.most
        ? Option.none<string>()
        : Option.map(Option.fromNullable(page.at(-1)), ({ name }) => name)
    ])
  )
  return Chunk.toReadonlyArray(yield* Stream.runCollect(pages))
})

const stateOf = ({ enabled, lastError }: StoredSchedule) => {
  if (enabled) return "on"
  return lastError === undefined ? "off" : "broken"
}

const rowOf = (now: number) => (schedule: StoredSchedule) => {
  const when = (millis: number | undefined) => (millis === undefined ? "-" : Age.describe(millis, now))
  return [
    schedule.name,
    stateOf(schedule),
    printable(schedule.cron),
    printable(schedule.timezone),
    printable(schedule.kind),
    when(schedule.lastFireAt),
    schedule.enabled ? when(schedule.nextFireAt) : "-",
    Either.getOrElse(CronDescription.of(schedule.cron, schedule.timezone), () => "-")
  ]
}

export const command = Command.make("list", { ...CommonOptions.database, json: CommonOptions.json }, (given) =>
  Effect.gen(function* () {
    const schedules = yield* all
    if (given.json) {
      return yield* Console.log(JSON.stringify({ schedules: schedules.map(ScheduleView.of) }, null, 2))
    }
    if (schedules.length === 0) return yield* Console.log("No schedules.")
    const now = yield* Clock.currentTimeMillis
    const heading = ["NAME", "STATE", "CRON", "TIMEZONE", "KIND", "LAST", "NEXT", "DESCRIPTION"]
    yield* Console.log(Table.render(heading, schedules.map(rowOf(now))))
    const broken = schedules.filter((schedule) => stateOf(schedule) === "broken")
    for (const { lastError = "", name } of broken) yield* Console.log(`\n${name} cannot fire: ${printable(lastError)}`)
  }).pipe(Effect.provide(QueueLayer.layerForCommand), Running.configured(CommonOptions.databaseFlags(given)))
).pipe(Command.withDescription("List schedules by name."))
