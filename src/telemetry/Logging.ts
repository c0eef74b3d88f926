import { Effect, FiberRef, HashSet, Layer, Logger } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as Setting from "../core/Setting.js"
import { isColoured, isForPeople, levels, settings } from "./LogConfig.js"
import * as LogLine from "./LogLine.js"
import * as LogSink from "./LogSink.js"
import * as Masking from "./Masking.js"
import * as PrettyLine from "./PrettyLine.js"

const ours = new WeakSet<object>()

/** Replaces Effect's default logger, or the logger that this function has set before. */
const useOnly = (write: ((line: LogLine.LogLine) => void) | undefined, mask: ReadonlyArray<string>) => {
  const lineOf = LogLine.make(mask)
  const logger = write === undefined ? undefined : Logger.make<unknown, void>((options) => write(lineOf(options)))
  if (logger !== undefined) ours.add(logger)
  return Layer.scopedDiscard(
    Effect.locallyScopedWith(FiberRef.currentLoggers, (loggers) => {
      const others = HashSet.filter(loggers, (each) => each !== Logger.defaultLogger && !ours.has(each))
      return logger === undefined ? others : HashSet.add(others, logger)
    })
  )
}

/** Logs to the given logger, at the levels that already apply. Values of fields with the names in `mask` are hidden. */
export const to = (log: LogSink.Log, mask: ReadonlyArray<string>): Layer.Layer<never> =>
  useOnly(log === false ? undefined : LogSink.writer(log), mask)

/** On standard error, so that standard output has only the command's own output. */
const toStderr = Effect.gen(function* () {
  const forPeople = yield* isForPeople(process.stderr)
  const colour = yield* isColoured(process.stderr)
  const textOf = forPeople ? (line: LogLine.LogLine) => PrettyLine.of(line, colour) : LogLine.json
  return (line: LogLine.LogLine) => void process.stderr.write(`${textOf(line)}\n`)
})

/** Logs to the given logger, else to standard error in the format of LOG_FORMAT, as LOG_LEVEL and NIGHTSHIFT_MASK say. */
export const layerOf = (log: LogSink.Log | undefined): Layer.Layer<never, ConfigError> =>
  Layer.unwrapEffect(
    Effect.gen(function* () {
      const { level, mask } = yield* Setting.group({ level: settings.level, ...Masking.settings })
      const logger = log === undefined ? useOnly(yield* toStderr, mask) : to(log, mask)
      return Layer.merge(logger, Logger.minimumLogLevel(levels[level]))
    })
  )

/** Logs to standard error, as LOG_LEVEL, LOG_FORMAT and NIGHTSHIFT_MASK say. */
export const layer: Layer.Layer<never, ConfigError> = layerOf(undefined)
