import * as Command from "@effect/cli/Command"
import * as UploadsPullCommand from "./UploadsPullCommand.js"
import * as UploadsTokensCommand from "./UploadsTokensCommand.js"

export const command = Command.make("uploads").pipe(
  Command.withDescription("Fetch uploaded files and manage workspace tokens."),
  Command.withSubcommands([UploadsPullCommand.command, UploadsTokensCommand.command])
)
