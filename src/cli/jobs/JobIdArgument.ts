import * as Args from "@effect/cli/Args"
import * as HelpDoc from "@effect/cli/HelpDoc"
import { Effect, Schema } from "effect"
import { JobId } from "../../core/Ids.js"

const read = Schema.decode(JobId)

/** `<id>` on the command line. */
export const argument: Args.Args<JobId> = Args.text({ name: "id" }).pipe(
  Args.withDescription("The job's id."),
  Args.mapEffect((text) =>
    Effect.mapError(read(text.toLowerCase()), () => HelpDoc.p(`A job id must be a UUID, got ${JSON.stringify(text)}.`))
  )
)
