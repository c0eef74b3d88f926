import { Effect, HashMap, Layer, Logger, LogLevel } from "effect"
import * as Setting from "../core/Setting.js"
import * as Masking from "./Masking.js"

export const settings = {
  level: Setting.choice(
    {
      key: "LOG_LEVEL",
      about: "The least severe level that is logged: trace, debug, info, warning, error, fatal or none."
    },
    "info",
    ["trace", "debug", "info", "warning", "error", "fatal", "none"]
  ),
  format: Setting.choice(
    {
      key: "LOG_FORMAT",
      about: "`pretty` for people, `json` for machines, `auto` is pretty on a terminal and JSON elsewhere."
    },
    "auto",
    ["auto", "pretty", "json"]
  )
}

const levels = {
  trace: LogLevel.Trace,
  debug: LogLevel.Debug,
  info: LogLevel.Info,
  warning: LogLevel.Warning,
  error: LogLevel.Error,
  fatal: LogLevel.Fatal,
  none: LogLevel.None
}

/** One JSON object a line. Logs leave by standard error, so that a command's own output stays clean. */
const json = Logger.map(Logger.jsonLogger, (line) => void process.stderr.write(`${line}\n`))

const pretty = Logger.prettyLogger({ stderr: true, colors: process.stderr.isTTY === true })

/** A logger that does not show what is masked, whether it was logged as data or as an annotation. */
export const masking = <Output>(
  logger: Logger.Logger<unknown, Output>,
  names: ReadonlyArray<string>
): Logger.Logger<unknown, Output> => {
  if (names.length === 0) return logger
  const mask = Masking.make(names)
  return Logger.mapInputOptions(logger, (options: Logger.Logger.Options<unknown>) => ({
    ...options,
    message: mask(options.message),
    annotations: HashMap.map(options.annotations, (value, name) =>
      Masking.touches(names, { [name]: 0 }) ? Masking.masked : mask(value)
    )
  }))
}

/** Logs as configured. */
export const layer = Layer.unwrapEffect(
  Effect.gen(function* () {
    const { format, level, mask } = yield* Setting.group({ ...settings, ...Masking.settings })
    const forPeople = format === "pretty" || (format === "auto" && process.stderr.isTTY === true)
    return Layer.merge(
      Logger.replace(Logger.defaultLogger, masking(forPeople ? pretty : json, mask)),
      Logger.minimumLogLevel(levels[level])
    )
  })
)
