import * as Command from "@effect/cli/Command"
import { Effect } from "effect"
import { JobDesk } from "../queue/JobDesk.js"
import * as JobActs from "./JobActs.js"

/** `nightshift jobs requeue` */
export const command = Command.make("requeue", JobActs.options, (given) =>
  JobActs.perform(
    given,
    (id) => Effect.flatMap(JobDesk, (desk) => desk.requeue(id)),
    ({ id }) => `requeued ${id}`
  )
).pipe(Command.withDescription("Run dead or done jobs again, from their first attempt."))
