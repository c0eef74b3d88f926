import * as Command from "@effect/cli/Command"
import { Effect } from "effect"
import { trigger } from "../../crew/loops/Trigger.js"
import { Caller } from "../../http/access/Caller.js"
import * as ScheduleActs from "./ScheduleActs.js"

export const command = Command.make("trigger", ScheduleActs.options, (given) =>
  ScheduleActs.perform(given, {
    name: "trigger",
    act: (name) => Effect.flatMap(Caller, ({ who }) => trigger(name, who)),
    said: ({ lastJobId, name }) => `triggered ${name}: ${lastJobId}`
  })
).pipe(Command.withDescription("Enqueue a job of each schedule now."))
