import { Cause, ConfigError, Effect, Predicate, Schema } from "effect"
import { Expected, isExpected } from "../core/ExpectedError.js"
import * as Setting from "../core/Setting.js"
import { forceAdvice } from "../queue/JobErrors.js"

/** The command line is invalid. */
export class UsageError extends Expected<UsageError>(400, { exit: 2 })("UsageError", { message: Schema.String }) {}

/** Rejects two options that exclude each other if both are given. */
export const notBoth = (first: string, second: string, areGiven: boolean): Effect.Effect<void, UsageError> =>
  areGiven ? new UsageError({ message: `Use ${first} or ${second}, not both.` }) : Effect.void

/** Some actions of a command failed; `reasons` has one line for each. */
export class SomeFailed extends Schema.TaggedError<SomeFailed>()("SomeFailed", {
  reasons: Schema.Array(Schema.String)
}) {
  override get message(): string {
    return this.reasons.join("\n")
  }
}

/** Exit codes of the CLI. */
export const ExitCode = { done: 0, failed: 1, misused: 2, broken: 70 } as const

/** What a failed command prints to stderr, and its exit code. */
export interface Failure {
  readonly lines: ReadonlyArray<string>
  readonly code: number
}

const configFailure = (error: ConfigError.ConfigError): Failure => {
  const problems = Setting.problems(error)
  const title = problems.length === 1 ? "1 setting is invalid:" : `${problems.length} settings are invalid:`
  return { lines: [`${title} ${problems.join("; ")}`], code: ExitCode.misused }
}

/** Describes an expected error in one sentence. Only a defect, which is a bug in Nightshift, prints its stack trace. */
export const describe = (cause: Cause.Cause<unknown>): Failure => {
  const failure = Cause.failureOption(cause)
  if (failure._tag === "None") {
    return { lines: ["This is a bug in Nightshift. Please report it.", Cause.pretty(cause)], code: ExitCode.broken }
  }
  const error = failure.value
  if (ConfigError.isConfigError(error)) return configFailure(error)
  if (error instanceof SomeFailed) return { lines: error.reasons, code: ExitCode.failed }
  const message = Predicate.hasProperty(error, "message") ? String(error.message) : String(error)
  const code = (isExpected(error) ? error.answer.exit : undefined) ?? ExitCode.failed
  return { lines: [message.replace(forceAdvice, "add --force")], code }
}
