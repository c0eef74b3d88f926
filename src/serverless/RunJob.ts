import type { Recipe } from "../client/Recipe.js"
import { issuesText } from "../core/Issues.js"
import * as Outcome from "../core/Outcome.js"
import { check } from "../core/StandardSchema.js"
import type { HandlerLog, LogLine } from "../handlers/PromiseContext.js"
import type { FunctionJobOptions } from "./FunctionJob.js"

/** A request of a service, after its signature was verified. */
export interface Pushed {
  readonly type: string
  readonly data: unknown
  readonly job: {
    readonly id: string
    readonly queue: string
    readonly key: string | null
    readonly attempt: number
    readonly attempts: number
    readonly meta: unknown
    readonly version: number
    readonly timeoutSeconds: number
  }
}

/** Whether a value has the form of a request. */
export const isPushed = (value: unknown): value is Pushed => {
  const { job, type } = Object(value) as Partial<Pushed>
  return typeof type === "string" && typeof job === "object" && typeof job?.id === "string"
}

/** Longest delay of a timer. */
const maxTimer = 2 ** 31 - 1

/** A function redeployed before or after its service may get the other version; both have the same one soon. */
const otherVersionSeconds = 30

/** Anything can be thrown, also what JSON cannot express or what cannot be read. */
const text = (error: unknown): string => {
  try {
    if (error instanceof Error) return `${error.name}: ${error.message}`
    return typeof error === "string" ? error : (JSON.stringify(error) ?? String(error))
  } catch {
    return "the handler threw a value that cannot be shown"
  }
}

const answer = (status: number, body: string | null, headers: Readonly<Record<string, string>> = {}): Response =>
  new Response(body, { status, headers: { "content-type": "text/plain; charset=utf-8", ...headers } })

const retryAfter = (millis: number | undefined): Readonly<Record<string, string>> =>
  millis === undefined ? {} : { "retry-after": String(Math.ceil(millis / 1_000)) }

/** A response whose headers say how the attempt ended. */
const stated = (status: number, outcome: string, error: string, headers: Readonly<Record<string, string>> = {}) =>
  answer(status, error, { ...headers, "nightshift-outcome": outcome })

const ofResult = (result: unknown): Response => {
  try {
    const json = JSON.stringify(result)
    return json === undefined
      ? new Response(null, { status: 204 })
      : answer(200, json, { "content-type": "application/json" })
  } catch (error) {
    return stated(422, "dead", `its result cannot be stored as JSON: ${text(error)}`)
  }
}

const ofOutcome = (outcome: Outcome.Outcome): Response => {
  switch (outcome._tag) {
    case "Done":
      return ofResult(outcome.result)
    case "Retry":
      return stated(500, "retry", outcome.error, retryAfter(outcome.after))
    case "Dead":
      return stated(422, "dead", outcome.error)
    case "Snooze":
      return stated(503, "snooze", "snoozed", retryAfter(outcome.after))
    case "Throttled":
      return stated(429, "throttled", "throttled", { ...retryAfter(outcome.after), "nightshift-scope": outcome.scope })
    case "Cancelled":
      return stated(409, "cancelled", "cancelled")
  }
}

const logOf = (fields: object): HandlerLog => {
  const at =
    (level: "debug" | "info" | "warn" | "error"): LogLine =>
    (message, more) =>
      console[level](message, { ...fields, ...more })
  return { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") }
}

/** Handlers of `nightshift/client` may call these, which need a connection to the database. */
const absent = Object.fromEntries(
  ["progress", "enqueue", "publish", "acquire", "refused"].map((name) => [
    name,
    () => Promise.reject(new Error(`${name}() is not available in a function: it needs a connection to the database.`))
  ])
)

/** Runs an attempt and returns the response for its service. `ends` is aborted when the runtime stops the function. */
export const run = async ({ options, run: handler }: Recipe, pushed: Pushed, ends: AbortSignal): Promise<Response> => {
  const { data, job, type } = pushed
  const { payload: schema, version = 1 } = options as FunctionJobOptions<unknown, unknown, unknown>
  if (job.version !== version) {
    const reason = `the job has version ${job.version} of "${type}", and the function has version ${version}`
    return stated(503, "snooze", reason, retryAfter(otherVersionSeconds * 1_000))
  }
  const stop = new AbortController()
  const abort = () => stop.abort()
  if (ends.aborted) abort()
  ends.addEventListener("abort", abort)
  const timer = setTimeout(abort, Math.min(job.timeoutSeconds * 1_000, maxTimer))
  try {
    const checked = await check(schema, data)
    if (checked.issues !== undefined)
      return stated(422, "dead", `the payload is invalid: ${issuesText("payload", checked.issues)}`)
    const { attempt, attempts, id, key, meta, queue } = job
    const context = {
      ...absent,
      ...{ id, kind: type, queue, key: key ?? undefined, attempt, attempts, meta: meta ?? undefined },
      signal: stop.signal,
      now: () => new Date(),
      log: logOf({ job: id, kind: type, queue, attempt })
    }
    const result: unknown = await (handler as (payload: unknown, context: unknown) => unknown)(checked.value, context)
    return Outcome.isOutcome(result) ? ofOutcome(result) : ofResult(result)
  } catch (error) {
    if (Outcome.isOutcome(error) && error._tag !== "Done") return ofOutcome(error)
    console.error(`job ${job.id} of ${type} failed`, error)
    return stated(500, "retry", text(error))
  } finally {
    clearTimeout(timer)
    ends.removeEventListener("abort", abort)
  }
}
