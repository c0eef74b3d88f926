import { Array, Cause, Effect, HashMap, Inspectable, Layer, Logger, LogLevel, Predicate } from "effect"
import * as Setting from "../core/Setting.js"
import * as Masking from "./Masking.js"

export const settings = {
  level: Setting.choice(
    {
      key: "LOG_LEVEL",
      about: "Minimum log level: trace, debug, info, warning, error, fatal or none."
    },
    "info",
    ["trace", "debug", "info", "warning", "error", "fatal", "none"]
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

const levels = {
  trace: LogLevel.Trace,
  debug: LogLevel.Debug,
  info: LogLevel.Info,
  warning: LogLevel.Warning,
  error: LogLevel.Error,
  fatal: LogLevel.Fatal,
  none: LogLevel.None
}

/** Fields of every line, and of lines about a job. An annotation with one of these names is moved to `fields`. */
const reserved = new Set(["level", "time", "msg", "job", "kind", "queue", "attempt", "error", "spans", "fields"])

const textOf = (value: unknown): string =>
  typeof value === "string" ? value : value instanceof Error ? String(value.stack ?? value) : stringify(value)

const stringify = (value: unknown): string => Inspectable.stringifyCircular(value)

/** The job that a line is about: its id, kind, queue and attempt at the top of the line. */
const factsOf = (job: unknown) => {
  if (!Predicate.isRecord(job)) return {}
  const { id, ...facts } = job
  return { job: id, ...facts }
}

/** One JSON object per line: level, time and text first, then the job, then the annotations. */
export const jsonLine: Logger.Logger<unknown, string> = Logger.map(
  Logger.structuredLogger,
  ({ annotations, cause, logLevel, message, spans, timestamp }) => {
    const [text, ...details] = Array.isArray(message) ? message : [message]
    const error = [...details.map(textOf), ...(cause === undefined ? [] : [cause])].join("\n")
    const { job, ...others } = annotations
    const [taken, free] = Array.partition(Object.entries(others), ([name]) => !reserved.has(name))
    return stringify({
      level: logLevel.toLowerCase(),
      time: timestamp,
      msg: textOf(text),
      ...factsOf(job),
      ...Object.fromEntries(free),
      ...(taken.length === 0 ? {} : { fields: Object.fromEntries(taken) }),
      ...(error === "" ? {} : { error }),
      ...(Object.keys(spans).length === 0 ? {} : { spans })
    })
  }
)

/** On standard error, so that standard output has only the command's own output. */
const json = Logger.map(jsonLine, (line) => void process.stderr.write(`${line}\n`))

const pretty = Logger.prettyLogger({ stderr: true, colors: process.stderr.isTTY === true })

/** Returns the data that the annotations attach to the log line. */
const dataIn = (annotations: HashMap.HashMap<string, unknown>): unknown => {
  for (const value of HashMap.values(annotations)) {
    if (Predicate.hasProperty(value, Masking.dataOf)) return value[Masking.dataOf]
  }
  return undefined
}

/** Wraps a logger so that masked fields are hidden in data, text, errors and annotations. */
export const masking = <Output>(
  logger: Logger.Logger<unknown, Output>,
  names: ReadonlyArray<string>
): Logger.Logger<unknown, Output> => {
  if (names.length === 0) return logger
  const mask = Masking.make(names)
  const maskText = Masking.makeText(names)
  return Logger.mapInputOptions(logger, (options: Logger.Logger.Options<unknown>) => {
    const data = dataIn(options.annotations)
    const hide = (value: unknown): unknown => {
      if (typeof value === "string") return maskText(value, data)
      if (Array.isArray(value)) return value.map(hide)
      if (!(value instanceof Error)) return mask(value)
      const text = String(value.stack ?? value)
      const hidden = maskText(text, data)
      return hidden === text ? value : hidden
    }
    const cause = Cause.pretty(options.cause, { renderErrorCause: true })
    const hiddenCause = maskText(cause, data)
    return {
      ...options,
      message: hide(options.message),
      cause: hiddenCause === cause ? options.cause : Cause.fail(hiddenCause),
      annotations: HashMap.map(options.annotations, (value, name) =>
        Masking.touches(names, { [name]: 0 }) ? Masking.masked : hide(value)
      )
    }
  })
}

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
