import * as Command from "@effect/cli/Command"
import { trigger } from "../../crew/duties/Trigger.js"
import * as ScheduleActs from "./ScheduleActs.js"

/** `nightshift schedules trigger` */
export const command = Command.make("trigger", ScheduleActs.options, (given) =>
  ScheduleActs.perform(given, {
    name: "trigger",
    act: trigger,
    said: ({ lastJobId, name }) => `triggered ${name}: ${lastJobId}`
  })
).pipe(Command.withDescription("Store a job of each schedule now, whatever its next time is."))
