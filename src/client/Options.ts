import type { Duration } from "effect"
import { type DurationInput, decode, expected } from "../core/DurationText.js"
import { suggestion } from "../core/Spelling.js"
import { shown } from "../core/Storable.js"
import * as LogSink from "../telemetry/LogSink.js"
import { InvalidOptionError } from "./ShiftErrors.js"

// Checks of options. Types prevent most mistakes; programs in JavaScript and options from configuration need these.

/** The names of all options of a type. @internal */
export const namesOf = <Options>(names: Readonly<Record<keyof Options, 0>>): ReadonlyArray<string> => Object.keys(names)

/** Throws InvalidOptionError for an option that does not exist. `prefix` is the path of the options, like `dedupe.`. @internal */
export const checkKnown = (given: object, known: ReadonlyArray<string>, what: string, prefix = ""): void => {
  if (given !== undefined && (typeof given !== "object" || given === null)) {
    const name = prefix.slice(0, -1) || "options"
    throw new InvalidOptionError(name, `${name} must be an object, got ${shown(given)}: use ${known.join(", ")}.`)
  }
  // Runs for every job: no list is built.
  for (const option in given) {
    if (known.includes(option) || (given as Readonly<Record<string, unknown>>)[option] === undefined) continue
    throw new InvalidOptionError(
      `${prefix}${option}`,
      `${prefix}${option} is not ${what}: use ${known.join(", ")}.${suggestion(option, known)}`
    )
  }
}

/** The text, such as a name or an id. Throws InvalidOptionError for anything else and for empty text. @internal */
export const textOf = (option: string, method: string, given: unknown): string => {
  if (typeof given === "string" && given !== "") return given
  const problem = given === "" ? "must not be empty" : `must be a string, got ${shown(given)}`
  throw new InvalidOptionError(option, `The ${option} that ${method} gets ${problem}.`)
}

/** A Date, an ISO 8601 string, or epoch milliseconds. */
export type InstantInput = Date | string | number

/** Epoch milliseconds of an instant. @internal */
export const instantOf = (option: string, instant: InstantInput): number => {
  if (typeof instant === "number") return instant
  const millis = typeof instant === "string" ? Date.parse(instant) : instant instanceof Date ? instant.getTime() : NaN
  if (!Number.isNaN(millis)) return millis
  const got = instant instanceof Date ? "an invalid Date" : shown(instant)
  throw new InvalidOptionError(
    option,
    `${option} must be a Date, an ISO 8601 string or epoch milliseconds, got ${got}.`
  )
}

/** Throws InvalidOptionError for an option `log` that is no logger. @internal */
export const checkLog = (log: unknown): void => {
  const fault = log === undefined ? undefined : LogSink.fault(log)
  if (fault !== undefined) throw new InvalidOptionError("log", fault)
}

/** Throws InvalidOptionError for an option `codec` that is no codec. @internal */
export const checkCodec = (codec: unknown): void => {
  if (codec === undefined) return
  const has = (name: string) => typeof (codec as Readonly<Record<string, unknown>> | null)?.[name] === "function"
  if (typeof codec === "object" && has("seal") && has("open")) return
  throw new InvalidOptionError(
    "codec",
    `codec must be an object with seal and open, such as seal({ keys }) of nightshift/codec, got ${shown(codec)}.`
  )
}

/** Throws InvalidOptionError for code that is not a function. `call` names what takes it, for the message. @internal */
export const checkCode = (call: string, code: unknown): void => {
  if (typeof code === "function") return
  throw new InvalidOptionError("handler", `${call} needs a function, as in async (payload) => …, got ${shown(code)}.`)
}

/** Decodes a duration. `of` names what has the option, for the message. @internal */
export const durationOf = (option: string, duration: DurationInput, of = ""): Duration.Duration => {
  try {
    return decode(duration)
  } catch {
    const reason = `must be ${expected}, or a number of milliseconds, got ${shown(duration)}`
    throw new InvalidOptionError(option, `${option}${of} ${reason}.`)
  }
}
