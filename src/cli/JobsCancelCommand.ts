import * as Command from "@effect/cli/Command"
import { Effect } from "effect"
import { JobDesk } from "../queue/JobDesk.js"
import * as JobActs from "./JobActs.js"

/** `nightshift jobs cancel` */
export const command = Command.make("cancel", JobActs.options, (given) =>
  JobActs.perform(
    given,
    (id) => Effect.flatMap(JobDesk, (desk) => desk.cancel(id)),
    ({ id, status }) => (status === "running" ? `asked to stop ${id}` : `cancelled ${id}`)
  )
).pipe(Command.withDescription("Cancel jobs: what waits ends at once, what runs is asked to stop."))
