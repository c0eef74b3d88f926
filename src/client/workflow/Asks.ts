import { Predicate } from "effect"
import type { DurationInput } from "../../core/DurationInput.js"
import { issuesText } from "../../core/Issues.js"
import { joinOr, suggestion } from "../../core/Spelling.js"
import { shown } from "../../core/Storable.js"
import { InvalidAskError } from "../ExecutionErrors.js"
import { InvalidOptionError } from "../ShiftErrors.js"
import * as StandardSchema from "../StandardSchema.js"
import { storedForm } from "../StoredForm.js"

// Asks that a workflow declares: what a caller passes, and what it gets.

/** Validators of an ask. */
export interface AskSchema {
  /** Validates what the caller passes, where it asks and in the execution. [any JSON value] */
  readonly payload?: StandardSchema.StandardSchema | undefined
  /** Validates the answer where it is read. [any JSON value] */
  readonly result?: StandardSchema.StandardSchema | undefined
}

/** Validators of asks, by the names of the asks. */
export type AskSchemas = Readonly<Record<string, AskSchema>>

/** The names of the asks that a workflow answers. Without declared asks, every name. */
export type AskName<Asks> = keyof Asks & string

/** The validator that a workflow declares for a part of an ask. */
type Declared<Asks, Name, Part extends keyof AskSchema> = Name extends keyof Asks
  ? Asks[Name] extends Readonly<Record<Part, infer Schema extends StandardSchema.StandardSchema>>
    ? Schema
    : StandardSchema.StandardSchema<unknown, unknown>
  : never

/** What the caller of an ask passes. */
export type AskInput<Asks, Name> = StandardSchema.InputOf<Declared<Asks, Name, "payload">>

/** How to ask an execution. */
export interface AskOptions {
  /** Maximum time to wait for the answer. Then the call rejects with AskTimeoutError. [30s] */
  readonly timeout?: DurationInput | undefined
  /**
   * Names the ask: asking again with the same id waits for the same answer and does not call the handler again. Pass one if you
   * repeat an ask that timed out. At most 128 characters. [random]
   */
  readonly id?: string | undefined
}

/** The value of an ask as an argument, which is optional if it may be `null`, and the options. */
export type AskValue<Asks, Name> =
  null extends AskInput<Asks, Name>
    ? [value?: AskInput<Asks, Name>, options?: AskOptions]
    : [value: AskInput<Asks, Name>, options?: AskOptions]

/** What the handler of an ask gets. */
export type AskPayload<Asks, Name> = StandardSchema.OutputOf<Declared<Asks, Name, "payload">>

/** What the handler of an ask returns. */
export type AskReturn<Asks, Name> = StandardSchema.InputOf<Declared<Asks, Name, "result">>

/** What the caller of an ask gets. */
export type AskAnswer<Asks, Name> = StandardSchema.OutputOf<Declared<Asks, Name, "result">>

/** Throws InvalidOptionError unless each declared ask has validators. */
export const checkAsks = (workflow: string, asks: unknown): void => {
  if (asks === undefined) return
  if (!Predicate.isRecord(asks))
    throw new InvalidOptionError(
      "asks",
      `asks of "${workflow}" must be an object like { addItem: { payload: schema } }, got ${shown(asks)}.`
    )
  for (const [name, ask] of Object.entries(asks)) {
    if (!Predicate.isRecord(ask) || "~standard" in ask)
      throw new InvalidOptionError(
        `asks.${name}`,
        `asks.${name} of "${workflow}" must be an object like { payload: schema, result: schema }, got ${shown(ask)}.`
      )
    for (const [part, schema] of Object.entries(ask)) {
      if (part !== "payload" && part !== "result")
        throw new InvalidOptionError(
          `asks.${name}.${part}`,
          `asks.${name} of "${workflow}" has an unknown part "${part}": use payload and result.`
        )
      const fault = schema === undefined ? undefined : StandardSchema.faultOf(schema)
      if (fault !== undefined)
        throw new InvalidOptionError(`asks.${name}.${part}`, `asks.${name}.${part} of "${workflow}" ${fault}.`)
    }
  }
}

/** The validators of an ask; none if the workflow declares no asks. Throws InvalidOptionError for a name it does not declare. */
export const askSchemaOf = (workflow: string, asks: AskSchemas | undefined, name: string): AskSchema => {
  if (asks === undefined) return {}
  const found = Object.hasOwn(asks, name) ? asks[name] : undefined
  if (found !== undefined) return found
  const names = Object.keys(asks)
  const declared = names.length === 0 ? "it declares none" : `it declares ${joinOr(names)}`
  throw new InvalidOptionError(
    "name",
    `${shown(name)} is not an ask of the workflow "${workflow}": ${declared}.${suggestion(String(name), names)}`
  )
}

const invalid = (
  workflow: string,
  ask: string,
  what: "value" | "answer",
  issues: StandardSchema.Checked<unknown>["issues"],
  advice: string
) =>
  new InvalidAskError(
    { workflow, ask, issues: issues ?? [] },
    `The ${what} of the ask "${ask}" of the workflow "${workflow}" is invalid: ${issuesText(what, issues ?? [])}. ${advice}`
  )

/** The value of an ask as it is stored. Rejects with InvalidAskError if it is invalid. */
export const storedAsk = async (
  workflow: string,
  name: string,
  { payload }: AskSchema,
  value: unknown
): Promise<unknown> => {
  const given = value === undefined ? null : value
  if (payload === undefined) return given
  const json = storedForm(given)
  const checked = await StandardSchema.check(payload, json)
  if (checked.issues === undefined) return json
  throw invalid(workflow, name, "value", checked.issues, "Nothing was sent.")
}

/** The answer as the caller gets it. Rejects with InvalidAskError if it is invalid. */
export const readAnswer = async (
  workflow: string,
  name: string,
  { result }: AskSchema,
  value: unknown
): Promise<unknown> => {
  if (result === undefined) return value
  const checked: StandardSchema.Checked<unknown> = await StandardSchema.check(result, value)
  if (checked.issues === undefined) return checked.value
  throw invalid(workflow, name, "answer", checked.issues, "The execution has handled the ask.")
}
