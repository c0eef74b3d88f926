import * as Command from "@effect/cli/Command"
import { Effect } from "effect"
import * as Instant from "../../http/Instant.js"
import { Schedules } from "../../schedule/Schedules.js"
import type { StoredSchedule } from "../../schedule/StoredSchedule.js"
import * as ScheduleActs from "./ScheduleActs.js"

const switching = (enabled: boolean) => (name: string) =>
  Effect.flatMap(Schedules, (schedules) => Effect.map(schedules.edit(name, { enabled }), ({ after }) => after))

const saidEnabled = ({ name, nextFireAt }: StoredSchedule) =>
  `enabled ${name}${nextFireAt === undefined ? "" : `, next at ${Instant.format(nextFireAt)}`}`

export const enable = Command.make("enable", ScheduleActs.options, (given) =>
  ScheduleActs.perform(given, { name: "edit", act: switching(true), said: saidEnabled })
).pipe(Command.withDescription("Enable schedules. They fire again from their next run on."))

export const disable = Command.make("disable", ScheduleActs.options, (given) =>
  ScheduleActs.perform(given, { name: "edit", act: switching(false), said: ({ name }) => `disabled ${name}` })
).pipe(Command.withDescription("Disable schedules. They stay disabled even if code declares them again."))
