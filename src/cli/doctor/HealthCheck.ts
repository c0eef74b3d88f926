import { Duration, Effect, Predicate } from "effect"
import { type Finding, fail, ok } from "./Check.js"

/** Timeout of each request. */
const responseTimeout = Duration.seconds(5)

interface Answer {
  readonly status: number
  readonly body: unknown
}

const reasonOf = (error: unknown): string => {
  const cause = Predicate.hasProperty(error, "cause") ? error.cause : error
  if (Predicate.hasProperty(cause, "code") && typeof cause.code === "string") return cause.code
  return cause instanceof Error ? cause.message : String(cause)
}

const ask = (base: URL, path: string): Effect.Effect<Answer, string> =>
  Effect.tryPromise({
    try: async (signal): Promise<Answer> => {
      const response = await fetch(new URL(path, base), { signal, redirect: "manual" })
      const text = await response.text()
      const isJson = response.headers.get("content-type")?.startsWith("application/json") === true
      return { status: response.status, body: isJson ? JSON.parse(text) : undefined }
    },
    catch: reasonOf
  }).pipe(
    Effect.timeoutFail({
      duration: responseTimeout,
      onTimeout: () => `no response within ${Duration.toSeconds(responseTimeout)} seconds`
    })
  )

const texts = (body: unknown, field: string): ReadonlyArray<string> => {
  const value = Predicate.hasProperty(body, field) ? body[field] : undefined
  return Array.isArray(value) ? value.map(String) : []
}

const ofHealth = ({ body, status }: Answer) => {
  const delay = Predicate.hasProperty(body, "eventLoopDelaySeconds") ? ` (${body.eventLoopDelaySeconds} s)` : ""
  if (status === 200) return ok(`Alive; the event loop is not blocked${delay}.`)
  if (status === 503) {
    return fail(
      `The event loop was blocked${delay}.`,
      "Find the handler that blocks the event loop, then restart the process."
    )
  }
  return fail(`/healthz returned ${status}.`, "Check that --url points to a Nightshift process.")
}

const ofReadiness = ({ body, status }: Answer) => {
  const off = texts(body, "off")
  if (status === 200) return ok(off.length === 0 ? "Ready." : `Ready, without ${off.join(", ")}.`)
  const reasons = texts(body, "reasons")
  if (status === 503) {
    return fail(`Not ready: ${reasons.join("; ")}.`, "Fix these problems, or wait if the process is shutting down.")
  }
  return fail(`/readyz returned ${status}.`, "Check that --url points to a Nightshift process.")
}

/** Checks a running process over HTTP, for use as a container health check. */
export const run = (url: URL): Effect.Effect<ReadonlyArray<Finding>> => {
  const base = new URL(url.href.endsWith("/") ? url : `${url.href}/`)
  const unreachable = (reason: string) =>
    Effect.succeed(fail(`${base.origin} is not reachable (${reason}).`, "Start the process, or fix --url."))
  const about = (check: string, path: string, judge: (answer: Answer) => Omit<Finding, "check">) =>
    ask(base, path).pipe(
      Effect.map(judge),
      Effect.catchAll(unreachable),
      Effect.map((found): Finding => ({ check, ...found }))
    )
  return Effect.all([about("health", "healthz", ofHealth), about("ready", "readyz", ofReadiness)])
}
