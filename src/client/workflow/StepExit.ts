import { Either, Predicate } from "effect"
import { inStoredOrder } from "../../core/CanonicalJson.js"
import * as ErrorText from "../../core/ErrorText.js"
import * as Outcome from "../../core/Outcome.js"
import { jsonText, storableText } from "../../core/Storable.js"
import { limits } from "../../core/StoredJob.js"
import * as Undos from "../../queue/workflow/Undo.js"
import { ChildrenFailedError, StepFailedError } from "../ExecutionErrors.js"
import { InvalidPayloadError, type ShiftError } from "../ShiftErrors.js"
import type { Stored } from "./Replay.js"

// The results of steps as JSON: { value } of a success, { error } of a failure, { timedOut } of a signal that did not arrive.
// { unstored } and { unstarted } beside an error say why a step with children failed.

interface StoredError {
  readonly name: string
  readonly message: string
  /** Where it was thrown. */
  readonly stack?: string
  readonly failures?: ChildrenFailedError["failures"]
}

/** Longer names of errors are cut. */
const maxNameCharacters = 256

/** A result that JSON cannot express. A retry would have the same result. */
export class Unstorable extends TypeError {}

/** The value after PostgreSQL has stored it as JSON, so that the first run sees the same value as a replay. */
export const ofValue = (value: unknown): Stored => {
  if (value === undefined) return { outcome: "done", exit: {} }
  // -0 is stored as 0.
  if (value === 0) return { outcome: "done", exit: { value: 0 } }
  const isSame = value === null || typeof value === "boolean" || typeof value === "string" || Number.isFinite(value)
  if (isSame) return { outcome: "done", exit: { value } }
  const text = Either.getOrThrowWith(
    jsonText(value, Number.POSITIVE_INFINITY),
    (reason) => new Unstorable(`The result ${reason}. Return a JSON value, or nothing.`)
  )
  return { outcome: "done", exit: { value: inStoredOrder(JSON.parse(text)) } }
}

export const ofError = (error: unknown, failures?: ChildrenFailedError["failures"]): Stored => {
  const stack = ErrorText.framesText(error)
  const stored: StoredError = {
    name:
      error instanceof Error && typeof error.name === "string" ? storableText(error.name, maxNameCharacters) : "Error",
    message: storableText(textOf(error), limits.errorCharacters),
    ...(stack === "" ? {} : { stack: storableText(stack) }),
    ...(failures === undefined ? {} : { failures })
  }
  return { outcome: "failed", exit: { error: stored } }
}

/** The failure of a step whose result cannot be stored. */
export const unstored = (error: unknown): Stored => marked(error, "unstored")

export const isUnstored = (exit: unknown): boolean => Predicate.hasProperty(exit, "unstored")

/** The failure of a step that has started no child. */
export const unstarted = (error: unknown): Stored => marked(error, "unstarted")

export const isUnstarted = (exit: unknown): boolean => Predicate.hasProperty(exit, "unstarted")

const marked = (error: unknown, mark: string): Stored => {
  const { exit, outcome } = ofError(error)
  return { outcome, exit: { ...(exit as object), [mark]: true } }
}

/** The failure of a payload that an async validator refused. */
export const ofInvalidPayload = (error: unknown): Stored => {
  const { exit, outcome } = ofError(error)
  if (!(error instanceof InvalidPayloadError)) return { outcome, exit }
  const { issues, kind } = error
  return { outcome, exit: { ...(exit as object), invalid: { kind, issues: JSON.parse(JSON.stringify(issues)) } } }
}

/** Throws the error that `ofInvalidPayload` recorded. */
export const throwInvalidPayload = ({ exit }: Stored): void => {
  if (!Predicate.hasProperty(exit, "invalid") || !Predicate.hasProperty(exit, "error")) return
  const { issues, kind } = exit.invalid as Pick<InvalidPayloadError, "issues" | "kind">
  throw new InvalidPayloadError(kind, issues, 0, (exit.error as StoredError).message)
}

export const timedOut: Stored = { outcome: "done", exit: { timedOut: true } }

export { isTimedOut } from "../../queue/workflow/SignalValues.js"

const asText = (message: unknown): string => (typeof message === "string" ? message : ErrorText.messageOf(message))

/** The message of a thrown value. */
export const textOf = (error: unknown): string => {
  if (!Outcome.isOutcome(error)) return asText(error instanceof Error ? error.message : error)
  if (error._tag === "Dead" || error._tag === "Retry") return asText(error.error)
  return `A step cannot end with the outcome ${error._tag}. Throw Outcome.retry or Outcome.dead instead.`
}

/** The value of a success. */
export const recordedValue = ({ exit }: Stored): unknown =>
  Predicate.hasProperty(exit, "value") ? exit.value : undefined

/** The error of a failure, as thrown to the code. */
export const errorOf = (step: string, { exit }: Stored): ShiftError => {
  const error = Predicate.hasProperty(exit, "error") ? (exit.error as StoredError) : undefined
  const message = error?.message ?? "the step failed"
  const thrown =
    error?.failures === undefined
      ? new StepFailedError(step, error?.name ?? "Error", message)
      : new ChildrenFailedError(step, error.failures, message)
  // The code of the step failed, perhaps in another process: point there.
  if (error?.stack !== undefined) thrown.stack = `${thrown.name}: ${message}\n${error.stack}`
  return thrown
}

/** The end of an execution that has undone its steps: it failed, or it was cancelled. `unknown`: could not be undone. */
export const outcomeOf = (
  failure: { readonly error: unknown } | undefined,
  undos: ReadonlyArray<Stored & { readonly name: string }>,
  unknown: ReadonlyArray<string>
): Outcome.Outcome => {
  const failed = undos
    .filter(({ outcome }) => outcome === "failed")
    .map((step) => Undos.failureText(step.name, errorOf(step.name, step).message))
  const mayHaveRun = unknown.map((name) => `${name} may have taken effect: its run was cut off before it was recorded`)
  const notUndone = [...failed, ...mayHaveRun]
  const text = failure && { message: textOf(failure.error), trace: ErrorText.traceOf(failure.error) }
  return Undos.outcomeOf(text, notUndone)
}
