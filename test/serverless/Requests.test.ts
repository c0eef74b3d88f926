import { describe, expect, it, vi } from "vitest"
import { z } from "zod"
import * as client from "../../src/client/index.js"
import { keyOf, signed } from "../../src/gateway/SignedSources.js"
import { type HandleOptions, handle, job, Outcome } from "../../src/serverless/index.js"
import { secretOf } from "../gateway/PushEndpoint.js"

const secret = secretOf("s")

const about = { id: "j1", queue: "q", key: null, attempt: 1, attempts: 5, meta: null, version: 1, timeoutSeconds: 60 }

const bodyOf = (data: unknown, more: object = {}) => JSON.stringify({ type: "act", data, job: about, ...more })

interface Sent {
  readonly body?: string
  readonly secret?: string
  readonly now?: number
  readonly headers?: Record<string, string>
}

const request = ({ body = bodyOf({ do: "ok" }), headers, now = Date.now(), secret: by = secret }: Sent = {}) => {
  const made = signed([keyOf("standard", by) ?? Buffer.alloc(0)], "j1", body, now)
  return new Request("https://functions.example.org/", { method: "POST", body, headers: { ...made, ...headers } })
}

const act = job("act", { payload: z.object({ do: z.string() }) }).handle(async ({ do: what }) => {
  if (what === "throw") throw new TypeError("thrown")
  if (what === "nothing") return undefined
  if (what === "circle") return { big: 1n }
  if (what === "throw an outcome") throw Outcome.snooze("90s")
  const outcomes: Readonly<Record<string, Outcome.Outcome>> = {
    retry: Outcome.retry("busy", "1500ms"),
    dead: Outcome.dead("never"),
    throttled: Outcome.throttled({ after: "2 minutes", scope: "key" }),
    cancelled: Outcome.cancelled,
    done: Outcome.done([1])
  }
  return outcomes[what] ?? { did: what }
})

const options: HandleOptions = { secret, jobs: [act] }

const told = async (response: Response) => {
  const headers = ["nightshift-outcome", "nightshift-scope", "retry-after"].map((name) => response.headers.get(name))
  return [response.status, await response.text(), ...headers.filter((value) => value !== null)]
}

const answer = async (sent: Sent, given: Partial<HandleOptions> = {}) =>
  told(await handle({ ...options, ...given }).fetch(request(sent)))

describe("a function", () => {
  it("answers with the result, or with how the attempt ended", async () => {
    vi.spyOn(console, "error").mockImplementation(() => {})
    const doing = (what: string) => answer({ body: bodyOf({ do: what }) })
    expect(await doing("ok")).toEqual([200, '{"did":"ok"}'])
    expect(await doing("nothing")).toEqual([204, ""])
    expect(await doing("done")).toEqual([200, "[1]"])
    expect(await doing("throw")).toEqual([500, "TypeError: thrown", "retry"])
    expect(await doing("throw an outcome")).toEqual([503, "snoozed", "snooze", "90"])
    expect(await doing("retry")).toEqual([500, "busy", "retry", "2"])
    expect(await doing("dead")).toEqual([422, "never", "dead"])
    expect(await doing("throttled")).toEqual([429, "throttled", "throttled", "key", "120"])
    expect(await doing("cancelled")).toEqual([409, "cancelled", "cancelled"])
    expect((await doing("circle"))[1]).toMatch(/^its result cannot be stored as JSON/)
    vi.restoreAllMocks()
  })

  it("refuses payloads that the schema does not accept, other versions and unknown kinds", async () => {
    const [status, text, outcome] = await answer({ body: bodyOf({ do: 1 }) })
    expect([status, outcome]).toEqual([422, "dead"])
    expect(text).toMatch(/^the payload is invalid: payload\.do: /)
    expect(await answer({ body: bodyOf({ do: "ok" }, { job: { ...about, version: 2 } }) })).toEqual([
      503,
      'the job has version 2 of "act", and the function has version 1',
      "snooze",
      "30"
    ])
    expect(await answer({ body: bodyOf({}, { type: "other" }) })).toEqual([
      404,
      'The function has no handler for the kind "other".'
    ])
    expect(await answer({ body: "[]" })).toEqual([400, "The request is not a job of Nightshift."])
  })

  it("runs no request that the service did not sign, or not lately", async () => {
    const ran = vi.fn()
    const jobs = [job("act", { payload: z.unknown() }).handle(ran)]
    const refused = async (sent: Sent) => (await answer(sent, { jobs }))[1]
    const mismatch = "The signature does not match the body."
    const late = "The timestamp differs from this machine's clock by more than 300 seconds."
    expect(await refused({ secret: secretOf("x") })).toBe(mismatch)
    expect(await refused({ headers: { "webhook-id": "j2" } })).toBe(mismatch)
    expect(await refused({ headers: { "webhook-timestamp": String(Math.floor(Date.now() / 1000) + 5) } })).toBe(
      mismatch
    )
    expect(await refused({ headers: { "webhook-signature": "v1,AAAA v2,BBBB nonsense" } })).toBe(mismatch)
    expect(await refused({ now: Date.now() - 301_000 })).toBe(late)
    expect(await refused({ now: Date.now() + 302_000 })).toBe(late)
    expect(await refused({ headers: { "webhook-timestamp": "soon" } })).toBe(late)
    expect(await refused({ headers: { "webhook-signature": "" } })).toBe("The signature headers are incomplete.")
    expect(await refused({ headers: { "webhook-signature": "v1,AA ".repeat(17) } })).toContain("more than 16")
    expect(ran).not.toHaveBeenCalled()
    expect((await handle(options).fetch(new Request("https://example.org/"))).status).toBe(405)
  })

  it("answers although its handler throws a value that cannot be shown, or its runtime has no signal", async () => {
    vi.spyOn(console, "error").mockImplementation(() => {})
    const circle: Record<string, unknown> = {}
    circle.self = circle
    for (const thrown of [circle, 1n]) {
      const jobs = [
        job("act", { payload: z.unknown() }).handle(() => {
          throw thrown
        })
      ]
      expect(await answer({}, { jobs })).toEqual([500, "the handler threw a value that cannot be shown", "retry"])
    }
    const bare = Object.defineProperty(request(), "signal", { value: undefined })
    expect((await handle(options).fetch(bare)).status).toBe(200)
    vi.restoreAllMocks()
  })

  it("accepts several secrets, and secrets of the request's environment", async () => {
    expect(await answer({}, { secret: [secretOf("new"), secret] })).toEqual([200, '{"did":"ok"}'])
    const byEnv = handle({ ...options, secret: (env: { PUSH: string }) => env.PUSH })
    expect((await byEnv.fetch(request(), { PUSH: secret })).status).toBe(200)
    for (const wrong of [undefined, "", "hunter2", [secret, "hunter2"]]) {
      const [status, text] = await answer({}, { secret: wrong })
      expect(status).toBe(500)
      expect(text).toMatch(/^The secret of this function is missing or malformed(?!.*hunter2)/)
    }
  })

  it("runs handlers that nightshift/client made, without what needs a database", async () => {
    vi.spyOn(console, "error").mockImplementation(() => {})
    const made = client.job("act", { payload: z.object({ do: z.string() }) })
    for (const name of ["progress", "enqueue", "publish", "acquire", "refused"] as const) {
      const jobs = [made.handle(async (_, context) => (context[name] as () => unknown)())]
      expect((await answer({}, { jobs }))[1]).toContain(`${name}() is not available in a function`)
    }
    expect(() => handle({ secret, jobs: [made.handle(() => {}), act] })).toThrow('jobs has two handlers for "act"')
    expect(() => handle({ secret, jobs: [made.handleInTransaction(async () => {})] })).toThrow("handleInTransaction")
    expect(() => handle({ secret, jobs: [made as never] })).toThrow("jobs[0] is not a handler")
    vi.restoreAllMocks()
  })

  it("answers events of both formats of an API Gateway", async () => {
    const body = bodyOf({ do: "ok" })
    const headers = Object.fromEntries(request({ body }).headers)
    const capital = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toUpperCase(), value]))
    const { lambda } = handle(options)
    const ok = { statusCode: 200, body: '{"did":"ok"}', headers: { "content-type": "application/json" } }
    expect(await lambda({ headers: capital, body, httpMethod: "POST" })).toEqual(ok)
    expect(await lambda({ headers, body, requestContext: { http: { method: "POST" } } })).toEqual(ok)
    expect(await lambda({ headers, body, httpMethod: "GET" })).toMatchObject({ statusCode: 405 })
    expect(await lambda({})).toMatchObject({ statusCode: 401 })
  })

  it("aborts the signal before Lambda ends the function, and at the timeout of the job", async () => {
    const aborted = job("act", { payload: z.unknown() }).handle(async (_, { signal }) => {
      if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve))
      return "stopped"
    })
    const { fetch, lambda } = handle({ secret, jobs: [aborted] })
    const body = bodyOf({}, { job: { ...about, timeoutSeconds: 0.05 } })
    expect(await (await fetch(request({ body }))).json()).toBe("stopped")
    const event = { headers: Object.fromEntries(request().headers), body: bodyOf({ do: "ok" }) }
    expect(await lambda(event, { getRemainingTimeInMillis: () => 520 })).toMatchObject({ body: '"stopped"' })
  })
})
