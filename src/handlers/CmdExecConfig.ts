import { Config, ConfigError, Effect, Option } from "effect"
import * as Setting from "../core/Setting.js"
import { cleanPath } from "./ChildProcess.js"
import * as CmdExec from "./CmdExec.js"
import type { Handler } from "./Handler.js"

export const settings = {
  allow: Setting.list({
    key: "CMD_EXEC_ALLOW",
    about:
      "The executables that jobs of the kind `cmd_exec` may run, by name or absolute path, separated by commas. None: the kind is off."
  }),
  root: Setting.optionalText({
    key: "CMD_EXEC_ROOT",
    about: "The directory that commands work in, and cannot be told to leave. Needed with CMD_EXEC_ALLOW."
  }),
  env: Setting.list({
    key: "CMD_EXEC_ENV",
    about:
      "The environment variables that jobs of the kind `cmd_exec` may set, by name, separated by commas. None by default."
  }),
  timeout: Setting.positiveDuration(
    { key: "CMD_EXEC_TIMEOUT", about: "How long a command may run, and the most that a job may ask for." },
    "600s"
  )
}

/** The handler of `cmd_exec` where the settings switch it on. */
export const handlers: Effect.Effect<ReadonlyArray<Handler<never>>, ConfigError.ConfigError> = Effect.gen(function* () {
  const { allow, env, root, timeout } = yield* Setting.group(settings)
  if (allow.length === 0) return []
  if (Option.isNone(root)) {
    const message = "is needed with CMD_EXEC_ALLOW: the directory that commands work in, and cannot be told to leave"
    return yield* Effect.fail(ConfigError.MissingData([settings.root.key], message))
  }
  const path = yield* Config.withDefault(Config.string("PATH"), cleanPath)
  const handler = yield* Effect.mapError(
    CmdExec.make({ allow, root: root.value, env, timeout, path }),
    ({ option, reason }) => ConfigError.InvalidData([settings[option].key], reason)
  )
  return [handler]
})
