import { Config, ConfigError, Effect, Either, Option } from "effect"
import * as Setting from "../core/Setting.js"
import { cleanPath } from "./ChildProcess.js"
import * as CmdExec from "./CmdExec.js"
import type { Handler } from "./Handler.js"

/** Variables by which common programs find or load code. Only some of the allowed programs may read them. */
const loading =
  /^(?:PATH|IFS|GCONV_PATH|BASH_FUNC_.*|NODE_(?:OPTIONS|PATH)|PYTHON.*|PERL.*|RUBY(?:OPT|LIB)|PHPRC|CLASSPATH|_?JAVA_(?:TOOL_)?OPTIONS|JDK_JAVA_OPTIONS|GIT_.*|EDITOR|VISUAL|PAGER)$/i

const readEnv = (names: ReadonlyArray<string>) => {
  const found = names.find((name) => CmdExec.neverAllowed.test(name.toUpperCase()))
  return found === undefined
    ? Either.right(names)
    : Either.left(`names other than ${found}, which the loader, a shell or Nightshift acts on`)
}

/** A warning if jobs may set variables that make some programs run any code. */
export const warningOf = (names: ReadonlyArray<string>): string | undefined => {
  const found = names.filter((name) => loading.test(name))
  return found.length === 0
    ? undefined
    : `CMD_EXEC_ENV allows ${found.join(", ")}: with such a variable, a job can make some programs run any code.`
}

export const settings = {
  allow: Setting.list({
    key: "CMD_EXEC_ALLOW",
    about:
      "Comma-separated names or absolute paths of the executables that `cmd_exec` jobs may run. Empty disables the kind."
  }),
  root: Setting.optionalText({
    key: "CMD_EXEC_ROOT",
    about:
      "Directory that contains the working directory and stdin file of every `cmd_exec` job. Required with CMD_EXEC_ALLOW."
  }),
  env: Setting.list(
    {
      key: "CMD_EXEC_ENV",
      about:
        "Comma-separated names of the environment variables that `cmd_exec` jobs may set. None by default. Variables of the loader and the shell, such as LD_PRELOAD, are refused."
    },
    readEnv
  ),
  timeout: Setting.positiveDuration(
    { key: "CMD_EXEC_TIMEOUT", about: "Timeout of a command, and the maximum that a job may request." },
    "600s"
  )
}

/** The `cmd_exec` handler if CMD_EXEC_ALLOW is set; otherwise none. */
export const handlers: Effect.Effect<ReadonlyArray<Handler<never>>, ConfigError.ConfigError> = Effect.gen(function* () {
  const { allow, env, root, timeout } = yield* Setting.group(settings)
  if (allow.length === 0) return []
  if (Option.isNone(root)) {
    const message = "is required with CMD_EXEC_ALLOW: set it to the directory that commands run in"
    return yield* Effect.fail(ConfigError.MissingData([settings.root.key], message))
  }
  const warning = warningOf(env)
  if (warning !== undefined) yield* Effect.logWarning(warning)
  const path = yield* Config.withDefault(Config.string("PATH"), cleanPath)
  const handler = yield* Effect.mapError(
    CmdExec.make({ allow, root: root.value, env, timeout, path }),
    ({ option, reason }) => ConfigError.InvalidData([settings[option].key], reason)
  )
  return [handler]
})
