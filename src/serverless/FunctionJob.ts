import { type Handler, recipe } from "../client/Recipe.js"
import type { Outcome } from "../core/Outcome.js"
import type { StandardSchema } from "../core/StandardSchema.js"
import type { PromiseContext } from "../handlers/PromiseContext.js"

/** Validators of a kind of job. Its queue, attempts and timeout are those of the worker that sends the jobs. */
export interface FunctionJobOptions<In, Out, R> {
  /** Validates payloads before the handler: zod, valibot, arktype, or any other Standard Schema. */
  readonly payload: StandardSchema<In, Out>
  /** Types what handlers return. The function does not run it. */
  readonly result?: StandardSchema<R, unknown> | undefined
  /** Payload version, as in the worker. Jobs of another version wait. [1] */
  readonly version?: number | undefined
}

/** The job as passed to a function. */
export interface FunctionContext
  extends Pick<
    PromiseContext,
    "id" | "kind" | "queue" | "key" | "attempt" | "attempts" | "meta" | "signal" | "now" | "log"
  > {}

/** A kind of job whose handler runs in a function. `Out` is what the handler gets, `R` what it returns. */
export interface FunctionJob<out Out, in R> {
  /** Name that is stored with every job and selects its handler. */
  readonly name: string
  /** Runs jobs of this kind with an async function. A job whose handler throws is retried. */
  handle(run: (payload: Out, context: FunctionContext) => Promise<R | Outcome> | R | Outcome): Handler
}

/**
 * Declares a kind of job for a function.
 *
 * @example
 * ```ts
 * import { handle, job } from "nightshift/serverless"
 * import { z } from "zod"
 *
 * const resize = job("resize", { payload: z.object({ file: z.string() }) })
 * export default handle({
 *   secret: (env: { readonly PUSH_SECRET: string }) => env.PUSH_SECRET,
 *   jobs: [resize.handle(async ({ file }) => ({ resized: file }))]
 * })
 * ```
 */
export const job = <In, Out = In, R = unknown>(
  name: string,
  options: FunctionJobOptions<In, Out, R>
): FunctionJob<Out, R> => ({
  name,
  handle: (run) => ({
    kind: { name, version: options.version ?? 1, queue: "default", routed: true, attempts: 5 },
    [recipe]: { call: "handle", name, options, run }
  })
})
