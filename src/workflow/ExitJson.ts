import type * as Workflow from "@effect/workflow/Workflow"
import { Cause, Effect, Either, Exit, ParseResult, Predicate, Schema } from "effect"
import { withoutTrace } from "../core/ErrorText.js"
import type { Execution } from "../queue/workflow/Execution.js"

// Exits as the journal stores them: JSON in the encoded form of Effect's Exit schema.

const ExitOfJson = Schema.Exit({ success: Schema.Unknown, failure: Schema.Unknown, defect: Schema.Defect })

/** Encodes an exit whose value and error are JSON. */
export const encode = Schema.encodeSync(ExitOfJson)

/** Decodes an exit. Any other JSON is a success: the value of a signal sent by the API or the command line. */
export const decode = (json: unknown): Exit.Exit<unknown, unknown> =>
  Either.getOrElse(Schema.decodeUnknownEither(ExitOfJson)(json), () => Exit.succeed(json))

/** The exit that JSON stands for, with values where exits have them: those are sealed. */
export const asExit = (json: unknown): unknown =>
  Either.isRight(Schema.decodeUnknownEither(ExitOfJson)(json)) ? json : { _tag: "Success", value: json }

/** The exit of an activity that the code itself interrupted: a timeout, a lost race, a failure beside it. */
export const abandoned = { _tag: "Failure", cause: { _tag: "Interrupt", fiberId: { _tag: "None" } } }

export const isAbandoned = (json: unknown): boolean =>
  Predicate.hasProperty(json, "cause") && Predicate.isTagged(json.cause, "Interrupt")

/** The name of the step that holds the error of a failed execution. */
export const failureStep = "Workflow/failure"

const schemaOf = (workflow: Workflow.Any) =>
  Schema.Exit({
    success: workflow.successSchema as Schema.Schema<unknown, unknown>,
    failure: workflow.errorSchema as Schema.Schema<unknown, unknown>,
    defect: Schema.Defect
  })

/** Encodes the exit of a workflow. Dies if the exit does not match the workflow's schemas. */
export const encodeOf = (workflow: Workflow.Any, exit: Exit.Exit<unknown, unknown>) =>
  Effect.orDie(Schema.encode(schemaOf(workflow))(exit))

/** Decodes the exit of a workflow. A missing value is undefined, or null if the schema requires it. */
export const decodeOf = (workflow: Workflow.Any, json: unknown): Effect.Effect<Exit.Exit<unknown, unknown>> => {
  const decoder = ParseResult.decodeUnknown(schemaOf(workflow))
  return Effect.orDie(Effect.orElse(decoder(json), () => decoder({ value: null, ...(json as object) })))
}

/** The exit of an execution that has ended, as JSON; undefined before that. */
export const ofExecution = ({ lastError, result, state, steps }: Execution): unknown => {
  if (state === "done")
    return result === undefined || result === null ? { _tag: "Success" } : { _tag: "Success", value: result }
  if (state === "cancelled") return { _tag: "Failure", cause: { _tag: "Interrupt", fiberId: { _tag: "None" } } }
  if (state !== "failed") return undefined
  const recorded = steps.find(({ name, reopenedAt }) => name === failureStep && reopenedAt === undefined)
  const defect = { name: "Error", message: lastError === undefined ? "the execution failed" : withoutTrace(lastError) }
  return recorded?.exit ?? { _tag: "Failure", cause: { _tag: "Die", defect } }
}

/** The messages of a cause on one line. */
export const textOf = (cause: Cause.Cause<unknown>): string => {
  const messages = Cause.prettyErrors(cause).map(({ message }) => message)
  return messages.length === 0 ? "interrupted" : messages.join("; ")
}
