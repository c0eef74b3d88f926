import { Cause, Predicate } from "effect"
import * as Issues from "./Issues.js"
import { limits } from "./StoredJob.js"
import * as Thrown from "./Thrown.js"

// The stored text of a failure: its message, then its stack trace. A trace consists of the lines of `Error.stack` and of
// "Caused by:" lines. It holds whole lines only: secrets are masked later, and half of one would not be recognized.

const maxFrames = 10
const maxCauses = 5

const frame = /^ {4}at /
/** Where the trace begins. */
const traceStart = /\n(?= {4}at |Caused by: )/

/** Frames of Node, Effect and Nightshift say nothing about the code that failed. */
const foreign =
  /\bnode:internal\/|[\\/]node_modules[\\/](?:nightshift|effect|@effect[\\/][^\\/]+)[\\/]|[ (](?:file:\/\/)?\/nightshift\/dist\/|\(<anonymous>\)$/

const hasTag = (error: unknown): error is { readonly _tag: string } =>
  Predicate.hasProperty(error, "_tag") && typeof error._tag === "string"

/** The error of a validator. Its own message may be JSON on many lines. */
const hasIssues = (error: unknown): error is Error & { readonly issues: ReadonlyArray<Issues.RawIssue> } =>
  error instanceof Error &&
  Predicate.hasProperty(error, "issues") &&
  Array.isArray(error.issues) &&
  error.issues.length > 0 &&
  error.issues.every((issue) => Predicate.hasProperty(issue, "message") && typeof issue.message === "string")

/** Longer messages are cut before they are searched for secrets; only their start is stored. */
const maxMessageCharacters = 64 * 1024

/** The message of anything that was thrown. Never throws. */
export const messageOf = (error: unknown): string => {
  try {
    return readMessage(Thrown.plain(error)).slice(0, maxMessageCharacters)
  } catch {
    return Thrown.unreadable
  }
}

const readMessage = (error: unknown): string => {
  if (typeof error === "string") return error
  if (hasIssues(error)) return `${error.name}: ${Issues.issuesText("", error.issues.map(Issues.issueOf))}`
  if (Predicate.hasProperty(error, "message") && typeof error.message === "string" && error.message !== "") {
    return hasTag(error) ? `${error._tag}: ${error.message}` : error.message
  }
  if (hasTag(error)) return error._tag
  try {
    return JSON.stringify(error) ?? String(error)
  } catch {
    return String(error)
  }
}

/** The lines of `Error.stack` that point to the program. */
const framesOf = ({ message, stack }: Error): ReadonlyArray<string> => {
  if (typeof stack !== "string") return []
  // The message may contain lines that look like frames.
  const start = stack.indexOf(message)
  const lines = (start < 0 ? stack : stack.slice(start + message.length)).split("\n")
  return lines.filter((line) => frame.test(line) && !foreign.test(line)).slice(0, maxFrames)
}

/** The errors that an error directly wraps: its cause, and the errors of an AggregateError. */
const below = (error: unknown): ReadonlyArray<unknown> => {
  const cause = Predicate.hasProperty(error, "cause") && error.cause !== undefined ? [error.cause] : []
  return Predicate.hasProperty(error, "errors") && Array.isArray(error.errors) ? [...error.errors, ...cause] : cause
}

const causesOf = (error: unknown): ReadonlyArray<unknown> => {
  const found = new Set<unknown>([error])
  for (const each of found) {
    for (const cause of below(each)) if (found.size <= maxCauses) found.add(cause)
  }
  return [...found].slice(1)
}

const causeLines = (cause: unknown): ReadonlyArray<string> => {
  const name = cause instanceof Error && !hasTag(cause) ? `${cause.name}: ` : ""
  return [`Caused by: ${name}${messageOf(cause)}`, ...(cause instanceof Error ? framesOf(cause) : [])]
}

/** The stack frames of an error and of its causes. Empty if there are none. */
export const traceOf = (error: unknown): string => {
  try {
    // A tagged error is an expected failure: its tag says what happened, so only the trace of its causes is stored.
    const own = error instanceof Error && !hasTag(error) ? framesOf(error) : []
    let trace = ""
    for (const line of [...own, ...causesOf(error).flatMap(causeLines)]) {
      if (trace.length + line.length > limits.traceCharacters) break
      trace += `\n${line}`
    }
    return trace.slice(1)
  } catch {
    // Getters of the error threw.
    return ""
  }
}

/** The trace without causes. It has stack frames only, no text of the error. */
export const framesText = (error: unknown): string => {
  try {
    return error instanceof Error ? framesOf(error).join("\n").slice(0, limits.traceCharacters) : ""
  } catch {
    return ""
  }
}

/** Joins a message and a trace, which may be empty. */
export const joined = (message: string, trace: string): string => (trace === "" ? message : `${message}\n${trace}`)

/** The text of a failure that the handler threw, or failed with. */
export const ofFailure = (error: unknown): string => joined(messageOf(error), traceOf(error))

/** The text of a cause without a failure: defects, with the spans in which they happened. Never throws. */
export const ofDefects = (cause: Cause.Cause<unknown>): string =>
  Thrown.readCause(cause, readDefects, () => Thrown.unreadable)

const readDefects = (cause: Cause.Cause<unknown>): string => {
  const [first, ...rest] = Cause.prettyErrors(cause)
  if (first === undefined) return Cause.pretty(cause)
  const text = (error: Error) =>
    joined(error.message === "" ? error.name : `${error.name}: ${messageOf(error.message)}`, traceOf(error))
  return [text(first), ...rest.map((error) => `Caused by: ${text(error)}`)].join("\n")
}

/** Divides a text into its message and its trace. */
export const split = (text: string): { readonly message: string; readonly trace: string | undefined } => {
  const start = text.search(traceStart)
  return start < 0
    ? { message: text, trace: undefined }
    : { message: text.slice(0, start), trace: text.slice(start + 1) }
}

/** The text without its trace, for lists. */
export const withoutTrace = (text: string): string => split(text).message

const brackets = /^[[\]{}(), ]*$/

/** One line for lists and sentences: the first line, or all lines joined if the first is only a bracket of JSON. */
export const headline = (text: string): string => {
  const [first = ""] = text.split("\n", 1)
  return brackets.test(first)
    ? withoutTrace(text)
        .replace(/[ \n\r\t]+/g, " ")
        .trim()
    : first
}

/** Adds a line to the message. */
export const withLine = (text: string, line: string): string => {
  const { message, trace = "" } = split(text)
  return joined(`${message}\n${line}`, trace)
}

/** Shortens message and trace to the stored length. May split a surrogate pair. */
export const shortened = (text: string): string => {
  if (text.length <= limits.errorCharacters) return text
  const { message, trace = "" } = split(text)
  return joined(message.slice(0, limits.errorCharacters), trace.slice(0, limits.traceCharacters))
}
