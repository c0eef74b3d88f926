import { Console } from "node:console"
import { Predicate } from "effect"
import { joinOr } from "../core/Spelling.js"
import { shown } from "../core/Storable.js"
import * as LogLine from "./LogLine.js"
import * as PrettyLine from "./PrettyLine.js"

type Fields = Readonly<Record<string, unknown>>

/**
 * A logger with the methods of `console`: the message, then its fields. A logger of pino, which is recognized by its method
 * `bindings`, gets the fields first.
 */
export interface LogSink {
  /** Takes lines of the levels trace and debug. */
  debug(message: string, fields: Fields): void
  /** Takes lines about the normal course: starts, stops, what handlers log. */
  info(message: string, fields: Fields): void
  /** Takes failed attempts and what an operator should look at. */
  warn(message: string, fields: Fields): void
  /** Takes dead jobs and failures, of the levels error and fatal. */
  error(message: string, fields: Fields): void
}

/** Where log lines go: `console`, an object with the same methods, a logger of pino, or `false` for nowhere. */
export type Log = LogSink | false

const methods = ["debug", "info", "warn", "error"] as const

/** Why the value cannot be used as `log`. */
export const fault = (log: unknown): string | undefined => {
  const expected =
    "log must be false, console, a pino logger, or an object with the methods debug, info, warn and error"
  if (log === false) return undefined
  if (!Predicate.isObject(log)) return `${expected}, got ${shown(log)}.`
  const missing = methods.filter((name) => !Predicate.hasProperty(log, name) || !Predicate.isFunction(log[name]))
  return missing.length === 0 ? undefined : `${expected}. This one has no ${joinOr(missing)}.`
}

type PinoLogger = Readonly<Record<LogLine.Level, (fields: Fields, message: string) => void>>

/** In the types of pino, the order of a console is allowed too, but its fields would be lost. */
const isPino = (log: object): log is PinoLogger => "bindings" in log && Predicate.isFunction(log.bindings)

/** The method for a level. `console.trace` would print a stack trace. */
const methodOf = (level: LogLine.Level): (typeof methods)[number] =>
  level === "trace" ? "debug" : level === "fatal" ? "error" : level

const pass = (log: LogSink, line: LogLine.LogLine): unknown => {
  const { level, msg, time, ...fields } = line
  if (isPino(log)) return log[level](fields, msg)
  // A console would print fields and the stack trace as an object on many lines.
  if (log instanceof Console) return log[methodOf(level)](PrettyLine.body(line))
  return log[methodOf(level)](msg, fields)
}

/** Writes a line that the logger of the program did not take. */
const rescue = (line: LogLine.LogLine) => process.stderr.write(`${LogLine.json(line)}\n`)

/** Passes lines to a logger. What the logger throws has no effect, and its line goes to standard error. @internal */
export const writer =
  (log: LogSink) =>
  (line: LogLine.LogLine): void => {
    try {
      const passed = pass(log, line)
      if (passed instanceof Promise) passed.catch(() => rescue(line))
    } catch {
      rescue(line)
    }
  }
