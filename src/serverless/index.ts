export type { Handler } from "../client/Recipe.js"
/** What a handler can return or throw instead of a plain result: retry, dead, throttled, snooze or cancelled. */
export * as Outcome from "../core/Outcome.js"
export type { StandardSchema } from "../core/StandardSchema.js"
export { type FunctionContext, type FunctionJob, type FunctionJobOptions, job } from "./FunctionJob.js"
export { type Handled, type HandleOptions, handle } from "./Handle.js"
export type { LambdaContext, LambdaEvent, LambdaResponse } from "./Lambda.js"
