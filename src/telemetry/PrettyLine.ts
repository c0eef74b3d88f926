import { printable, printableLines } from "../core/PrintableText.js"
import type { Level, LogLine } from "./LogLine.js"

// A log line for people: time of day, level, message, fields, and below them the error. No text of others can start a line
// or send an escape sequence to the terminal.

const escape = (...codes: ReadonlyArray<number>) => `\u001b[${codes.join(";")}m`

const dim = escape(2)
const plain = escape(0)

const colours: Readonly<Record<Level, string>> = {
  trace: escape(90),
  debug: escape(34),
  info: escape(32),
  warn: escape(33),
  error: escape(31),
  fatal: escape(1, 97, 41)
}

/** These are the same on every line of a process, or mean nothing to people. */
const omitted = new Set(["process", "trace", "span"])

const word = /^[^\s"=]+$/

const valueText = (value: unknown): string =>
  typeof value === "string" && word.test(value) ? value : (JSON.stringify(value) ?? "undefined")

const fieldsText = (fields: Readonly<Record<string, unknown>>): string =>
  Object.entries(fields)
    .filter(([name]) => !omitted.has(name))
    .map(([name, value]) => printable(`${name}=${valueText(value)}`))
    .join(" ")

const errorIndent = 4

const indented = (error: unknown): string =>
  typeof error === "string" ? `\n${" ".repeat(errorIndent)}${printableLines(error, errorIndent)}` : ""

/** The message, the fields and the error, without time and level. */
export const body = ({ error, level, msg, time, ...fields }: LogLine, colour = false): string => {
  const text = fieldsText(fields)
  const shown = text === "" ? "" : colour ? `  ${dim}${text}${plain}` : `  ${text}`
  return `${printableLines(msg, errorIndent)}${shown}${indented(error)}`
}

const twoDigits = (value: number) => String(value).padStart(2, "0")

const timeOfDay = (time: string): string => {
  const date = new Date(time)
  const [hours, minutes, seconds] = [date.getHours(), date.getMinutes(), date.getSeconds()].map(twoDigits)
  return `${hours}:${minutes}:${seconds}.${String(date.getMilliseconds()).padStart(3, "0")}`
}

/** The whole line. */
export const of = (line: LogLine, colour: boolean): string => {
  const label = line.level.toUpperCase().padEnd(5)
  const time = timeOfDay(line.time)
  return colour
    ? `${dim}${time}${plain} ${colours[line.level]}${label}${plain} ${body(line, true)}`
    : `${time} ${label} ${body(line)}`
}
