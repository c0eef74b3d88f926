import * as Command from "@effect/cli/Command"
import * as BotsInfoCommand from "./BotsInfoCommand.js"
import * as BotsSetWebhookCommand from "./BotsSetWebhookCommand.js"

export const command = Command.make("bots").pipe(
  Command.withDescription("Register bots with Telegram and inspect them."),
  Command.withSubcommands([BotsSetWebhookCommand.command, BotsInfoCommand.command])
)
