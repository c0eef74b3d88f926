import { type ConfigError, Effect, Option } from "effect"
import * as Setting from "../../core/Setting.js"
import { DatabaseConfig } from "../../database/DatabaseConfig.js"
import * as CmdExecConfig from "../../handlers/CmdExecConfig.js"
import * as AdminToken from "../../http/access/AdminToken.js"
import * as ClientAddress from "../../http/ClientAddress.js"
import { ServerConfig } from "../../http/ServerConfig.js"
import { ClusterConfig } from "../../worker/ClusterConfig.js"
import type { Environment } from "../Environment.js"
import * as Settings from "../Settings.js"
import { type Finding, fail, ok, warn } from "./Check.js"

const name = "config"
const listThem = "`nightshift config` lists all settings."

const ofBadKeys = (error: ConfigError.ConfigError) =>
  [...new Set(Setting.problems(error))].map((problem) => fail(`${problem}.`, `Fix the value. ${listThem}`))

/** Reports unknown NIGHTSHIFT_ variables. The service itself ignores them, so a typo would go unnoticed. */
const ofUnknownKeys = (environment: Environment) => {
  const known = new Set(Settings.all.map(({ key }) => key))
  return environment.names
    .filter((variable) => variable.startsWith("NIGHTSHIFT_") && !known.has(variable))
    .map((variable) => warn(`${variable} is set, but there is no such setting.`, `Fix or remove it. ${listThem}`))
}

/** Reports variables of `cmd_exec` that are valid but dangerous. */
const ofCommands = Effect.map(CmdExecConfig.settings.env.config, (names) => {
  const warning = CmdExecConfig.warningOf(names)
  return warning === undefined
    ? []
    : [
        warn(
          warning,
          "Remove such variables from CMD_EXEC_ENV unless you know what every allowed program does with them."
        )
      ]
})

/** Reports settings that are valid but leave the API unusable or unprotected. */
const ofExposure = Effect.gen(function* () {
  const { adminToken, trustProxy, viewerToken } = yield* ServerConfig
  const { directory, embedded, url } = yield* DatabaseConfig
  const proxies = ClientAddress.trustsEveryone(trustProxy)
    ? [warn(ClientAddress.trustsEveryoneText, ClientAddress.trustsEveryoneRemedy)]
    : []
  if (Option.isSome(adminToken) || Option.isSome(viewerToken) || embedded) return proxies
  // Without DATABASE_URL, commands use the embedded service of this directory, which generates a token.
  return Option.isSome(url) || !(yield* AdminToken.exists(directory))
    ? [
        ...proxies,
        warn(
          "No access token is set: a service that starts with these settings rejects all requests to its API.",
          "Set NIGHTSHIFT_ADMIN_TOKEN for the service. A service with --embedded creates its own token."
        )
      ]
    : proxies
}).pipe(
  Effect.provide([ServerConfig.layer, DatabaseConfig.layer, ClusterConfig.layer]),
  Effect.catchTag("UnprotectedAddress", (error) =>
    Effect.succeed([fail(error.message, "Set NIGHTSHIFT_ADMIN_TOKEN, or HOST to a loopback address.")])
  )
)

/** Checks whether the service would start with these settings. */
export const run = (environment: Environment): Effect.Effect<ReadonlyArray<Finding>> =>
  Settings.validate.pipe(
    Effect.zipRight(Effect.zipWith(ofExposure, ofCommands, (exposed, commands) => [...exposed, ...commands])),
    Effect.catchAll((error) => Effect.succeed(ofBadKeys(error))),
    Effect.map((found) => [...found, ...ofUnknownKeys(environment)]),
    Effect.map((found) => {
      const given = Settings.all.filter(({ key }) => environment.lookUp(key) !== undefined).length
      return found.length === 0 ? [ok(`${given} of ${Settings.all.length} settings are set, all valid.`)] : found
    }),
    Effect.map((found) => found.map((each) => ({ check: name, ...each })))
  )
