import { Effect, Layer, Logger, LogLevel } from "effect"
import * as Setting from "../core/Setting.js"

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

/** Logs as configured. */
export const layer = Layer.unwrapEffect(
  Effect.gen(function* () {
    const { format, level } = yield* Setting.group(settings)
    const forPeople = format === "pretty" || (format === "auto" && process.stderr.isTTY === true)
    return Layer.merge(
      Logger.replace(Logger.defaultLogger, forPeople ? pretty : json),
      Logger.minimumLogLevel(levels[level])
    )
  })
)
