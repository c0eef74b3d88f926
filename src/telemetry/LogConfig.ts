import { Config, LogLevel, Option } from "effect"
import * as Setting from "../core/Setting.js"

/** The levels of LOG_LEVEL. */
export const levels = {
  trace: LogLevel.Trace,
  debug: LogLevel.Debug,
  info: LogLevel.Info,
  warn: LogLevel.Warning,
  warning: LogLevel.Warning,
  error: LogLevel.Error,
  fatal: LogLevel.Fatal,
  none: LogLevel.None
}

export const settings = {
  level: Setting.choice(
    {
      key: "LOG_LEVEL",
      about: "Minimum log level: trace, debug, info, warn (or warning), error, fatal or none."
    },
    "info",
    ["trace", "debug", "info", "warn", "warning", "error", "fatal", "none"]
  ),
  format: Setting.choice(
    {
      key: "LOG_FORMAT",
      about: "`pretty`, `json`, or `auto`: pretty on a terminal and JSON elsewhere."
    },
    "auto",
    ["auto", "pretty", "json"]
  )
}

type Stream = NodeJS.WriteStream

/** Whether people read the stream, so that its text is for them and not JSON. */
export const isForPeople = (stream: Stream): Config.Config<boolean> =>
  Config.map(settings.format.config, (format) => format === "pretty" || (format === "auto" && stream.isTTY === true))

const variable = (name: string) => Config.option(Config.string(name)).pipe(Config.map(Option.getOrElse(() => "")))

/** Whether text on the stream has colours: as FORCE_COLOR or NO_COLOR say, otherwise on a terminal. */
export const isColoured = (stream: Stream): Config.Config<boolean> =>
  Config.map(Config.all([variable("FORCE_COLOR"), variable("NO_COLOR"), variable("TERM")]), ([force, no, terminal]) => {
    if (force !== "") return force !== "0" && force !== "false"
    return no === "" && terminal !== "dumb" && stream.isTTY === true
  })
