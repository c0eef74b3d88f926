import * as Command from "@effect/cli/Command"
import * as SchedulesHistoryCommand from "./SchedulesHistoryCommand.js"
import * as SchedulesListCommand from "./SchedulesListCommand.js"
import * as SchedulesNextCommand from "./SchedulesNextCommand.js"
import * as SchedulesSwitchCommand from "./SchedulesSwitchCommand.js"
import * as SchedulesTriggerCommand from "./SchedulesTriggerCommand.js"

export const command = Command.make("schedules").pipe(
  Command.withDescription("List, inspect and manage schedules."),
  Command.withSubcommands([
    SchedulesListCommand.command,
    SchedulesNextCommand.command,
    SchedulesHistoryCommand.command,
    SchedulesTriggerCommand.command,
    SchedulesSwitchCommand.enable,
    SchedulesSwitchCommand.disable
  ])
)
