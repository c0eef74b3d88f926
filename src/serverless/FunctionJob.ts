import type { JobOptions } from "../client/JobDefinition.js"
import { type Handler, recipe } from "../client/Recipe.js"
import type { Outcome } from "../core/Outcome.js"
import type { PromiseContext } from "../handlers/PromiseContext.js"

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
 * Declares a kind of job for a function, with the options of `job` of `nightshift/client`. The function uses `payload` and
 * `version`; queue, attempts and timeout are those of the service that sends the jobs.
 *
 * @example
 * ```ts
 * import { handle, job } from "nightshift/serverless"
 * import { z } from "zod"
 *
 * const resize = job("resize", { payload: z.object({ file: z.string() }) })
 * export default handle({
 *   secret: process.env.PUSH_SECRET,
 *   jobs: [resize.handle(async ({ file }) => ({ resized: file }))]
 * })
 * ```
 */
export const job = <In, Out = In, R = unknown>(
  name: string,
  options: JobOptions<In, Out, R, unknown>
): FunctionJob<Out, R> => ({
  name,
  handle: (run) => ({
    kind: {
      name,
      version: options.version ?? 1,
      queue: options.queue ?? "default",
      routed: options.queue === undefined,
      attempts: options.attempts ?? 5
    },
    [recipe]: { call: "handle", name, options, run }
  })
})
