import { issuesText } from "../../core/Issues.js"
import { joinOr, suggestion } from "../../core/Spelling.js"
import { shown } from "../../core/Storable.js"
import { isUndo } from "../../queue/workflow/Undo.js"
import { InvalidSignalError } from "../ExecutionErrors.js"
import { InvalidOptionError } from "../ShiftErrors.js"
import * as StandardSchema from "../StandardSchema.js"
import { storedForm } from "../StoredForm.js"

// Signals that a workflow declares. Their values are stored like payloads: what the validator accepts, as JSON. It runs where the
// signal is sent, and again where it is received.

/** Validators of signals, by the names of the signals. */
export type SignalSchemas = Readonly<Record<string, StandardSchema.StandardSchema<unknown, unknown>>>

/** The signals that a workflow receives, with any name if none are declared. A repeated wait has a number: `approval#2`. */
export type SignalName<Signals> = string extends keyof Signals
  ? string
  : Numbered<keyof Signals & string> | `undo:${string}/${Numbered<keyof Signals & string>}`

type Numbered<Name extends string> = Name | `${Name}#${number}`

type SchemaOf<Signals, Name> = Name extends keyof Signals
  ? Signals[Name]
  : Name extends `undo:${string}/${keyof Signals & string}`
    ? {
        [Base in keyof Signals & string]: Name extends `undo:${string}/${Base}` ? Signals[Base] : never
      }[keyof Signals & string]
    : Name extends `${infer Base}#${number}`
      ? SchemaOf<Signals, Base>
      : never

/** What the sender of a signal passes. */
export type SignalInput<Signals, Name> =
  SchemaOf<Signals, Name> extends infer Schema extends StandardSchema.StandardSchema
    ? StandardSchema.InputOf<Schema>
    : never

/** What `step.waitFor` and `step.next` return. */
export type SignalOutput<Signals, Name> =
  SchemaOf<Signals, Name> extends infer Schema extends StandardSchema.StandardSchema
    ? StandardSchema.OutputOf<Schema>
    : never

/** How to send a signal. */
export interface SignalOptions {
  /**
   * Names this value among those of the signal: a second value with the same id is not stored. Pass one if the sender may repeat
   * the call, for example the id of the event that it reports. [each call sends a new value]
   */
  readonly id?: string | undefined
}

/** The value of a signal as an argument, which is optional if the signal may be `null`, and the options. */
export type SignalValue<Signals, Name> =
  null extends SignalInput<Signals, Name>
    ? [value?: SignalInput<Signals, Name>, options?: SignalOptions]
    : [value: SignalInput<Signals, Name>, options?: SignalOptions]

/** Throws InvalidOptionError unless each declared signal has a validator. */
export const checkSignals = (workflow: string, signals: unknown): void => {
  if (signals === undefined) return
  if (typeof signals !== "object" || signals === null || Array.isArray(signals))
    throw new InvalidOptionError(
      "signals",
      `signals of "${workflow}" must be an object of validators by name, got ${shown(signals)}.`
    )
  for (const [name, schema] of Object.entries(signals)) {
    const fault = StandardSchema.faultOf(schema)
    if (fault !== undefined)
      throw new InvalidOptionError(`signals.${name}`, `signals.${name} of "${workflow}" ${fault}.`)
  }
}

/**
 * The validator of a signal; none if the workflow declares no signals. An undo that waits for `ok` gets it as
 * `undo:charge/ok`. Throws InvalidOptionError for a name it does not declare.
 */
export const schemaOf = (
  workflow: string,
  signals: SignalSchemas | undefined,
  name: string
): SignalSchemas[string] | undefined => {
  if (signals === undefined) return undefined
  const names = Object.keys(signals)
  const base = typeof name === "string" && !Object.hasOwn(signals, name) ? name.replace(/#\d+$/, "") : name
  if (Object.hasOwn(signals, base)) return signals[base]
  const awaited = isUndo(String(base)) ? names.find((declared) => base.endsWith(`/${declared}`)) : undefined
  if (awaited !== undefined) return signals[awaited]
  const declared = names.length === 0 ? "it declares none" : `it declares ${joinOr(names)}`
  throw new InvalidOptionError(
    "name",
    `${shown(name)} is not a signal of the workflow "${workflow}": ${declared}.${suggestion(String(name), names)}`
  )
}

/** The value of a signal as it is stored. Rejects with InvalidSignalError if the signal is declared and the value is invalid. */
export const stored = async (
  workflow: string,
  signals: SignalSchemas | undefined,
  name: string,
  value: unknown
): Promise<unknown> => {
  const schema = schemaOf(workflow, signals, name)
  const given = value === undefined ? null : value
  if (schema === undefined) return given
  const json = storedForm(given)
  const checked = await StandardSchema.check(schema, json)
  if (checked.issues === undefined) return json
  throw new InvalidSignalError(
    { workflow, signal: name, issues: checked.issues },
    `The value of the signal "${name}" of the workflow "${workflow}" is invalid: ${issuesText("value", checked.issues)}. Nothing was sent.`
  )
}
