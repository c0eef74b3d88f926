import * as Command from "@effect/cli/Command"
import * as JobsCancelCommand from "./JobsCancelCommand.js"
import * as JobsDeleteCommand from "./JobsDeleteCommand.js"
import * as JobsListCommand from "./JobsListCommand.js"
import * as JobsRequeueCommand from "./JobsRequeueCommand.js"
import * as JobsShowCommand from "./JobsShowCommand.js"
import * as JobsWhyCommand from "./JobsWhyCommand.js"

export const command = Command.make("jobs").pipe(
  Command.withDescription("List, inspect and manage jobs."),
  Command.withSubcommands([
    JobsListCommand.command,
    JobsShowCommand.command,
    JobsWhyCommand.command,
    JobsCancelCommand.command,
    JobsRequeueCommand.command,
    JobsDeleteCommand.command
  ])
)
