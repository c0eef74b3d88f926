import { once } from "node:events"
import { createServer, type IncomingMessage, type RequestListener } from "node:http"
import type { AddressInfo } from "node:net"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { connect, type MissionControlAccess, missionControl, type Shift } from "../../src/client/index.js"
import { ask } from "../http/TestServer.js"
import { useDatabase } from "./ClientDatabase.js"

const database = useDatabase()
let shift: Shift
beforeAll(async () => {
  shift = await connect(database.url(), { log: false })
})
afterAll(() => shift.close())

/** What the login of an app says of a cookie. */
const accessOf = (cookie: string | null | undefined): MissionControlAccess => {
  if (cookie === "user=ada") return { role: "admin", user: "ada@example.org" }
  return cookie === "user=bob" ? "viewer" : "none"
}

const authorize = (request: Request) => accessOf(request.headers.get("cookie"))

const ownPage = { "sec-fetch-site": "same-origin" }
const ada = { cookie: "user=ada" }
const bob = { cookie: "user=bob" }

const json = (body: unknown, headers: Readonly<Record<string, string>>) => ({
  method: "POST",
  headers: { "content-type": "application/json", ...headers },
  body: JSON.stringify(body)
})

const jobs = { force: true, jobs: [{ kind: "greet", payload: {} }] }

/** A server of node at its own port, for as long as the body takes. */
const serving = async <A>(listener: RequestListener, body: (url: string) => Promise<A>): Promise<A> => {
  const server = createServer(listener).listen(0, "127.0.0.1")
  await once(server, "listening")
  try {
    return await body(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  } finally {
    server.close()
    server.closeAllConnections()
  }
}

describe("missionControl, as a handler of web standard requests", () => {
  it("leaves compression to the framework, which may remove Content-Encoding as Next.js does", async () => {
    await using control = missionControl(shift, { path: "/ops", authorize })
    const headers = { ...ada, "accept-encoding": "gzip" }
    const page = await control.fetch(new Request("http://app.test/ops/ui/", { headers }))
    expect([page.headers.get("content-encoding"), await page.text()]).toEqual([
      null,
      expect.stringContaining("Mission Control")
    ])
  })

  it("lets in whom the app lets in, with the role and the name that the app says", async () => {
    await using control = missionControl(shift, { path: "/ops", authorize })
    const get = (path: string, headers = {}) => control.fetch(new Request(`http://app.test${path}`, { headers }))
    const post = (body: unknown, headers: Readonly<Record<string, string>>) =>
      control.fetch(new Request("http://app.test/ops/api/v1/jobs", json(body, { ...ownPage, ...headers })))

    const stranger = await get("/ops/ui/")
    expect([stranger.status, await stranger.text()]).toEqual([401, expect.stringContaining("Log in to this app")])
    expect((await get("/ops/docs")).status).toBe(401)
    const refused = await get("/ops/api/v1/queues")
    expect(refused.status).toBe(401)
    expect(await refused.json()).toMatchObject({ error: { tag: "Unauthorized" } })
    expect((await get("/ops/api/v1/openapi.json")).status).toBe(401)
    expect((await post(jobs, {})).status).toBe(401)

    const page = await get("/ops/ui/", bob)
    expect([page.status, page.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"])
    expect(await page.text()).toContain('data-login=""')
    expect(await (await get("/ops/api/v1/session", bob)).json()).toMatchObject({ role: "viewer", until: null })
    expect((await post(jobs, bob)).status).toBe(403)

    expect((await post(jobs, ada)).status).toBe(201)
    const cause = await control.fetch(
      new Request("http://app.test/ops/api/v1/queues/mail", {
        ...json({ paused: true }, { ...ownPage, ...ada }),
        method: "PATCH"
      })
    )
    expect(cause.status).toBe(200)
    const audit = (await (await get("/ops/api/v1/audit?act=queue", bob)).json()) as { entries: ReadonlyArray<object> }
    expect(audit.entries).toMatchObject([{ who: "app:ada@example.org", target: "mail" }])
    // The tokens of `nightshift serve` mean nothing here.
    expect((await get("/ops/api/v1/queues", { authorization: "Bearer sesame" })).status).toBe(401)
  })

  it("makes changes only for its own pages", async () => {
    await using control = missionControl(shift, { path: "/ops", authorize })
    const from = async (headers: Readonly<Record<string, string>>) => {
      const sent = json(jobs, { host: "app.test", ...ada, ...headers })
      return (await control.fetch(new Request("http://app.test/ops/api/v1/jobs", sent))).status
    }
    expect(await from({ "sec-fetch-site": "cross-site", origin: "http://evil.test" })).toBe(403)
    expect(await from({ "sec-fetch-site": "same-site", origin: "http://blog.app.test" })).toBe(403)
    expect(await from({ origin: "http://evil.test" })).toBe(403)
    expect(await from({ origin: "null" })).toBe(403)
    expect(await from({})).toBe(403)
    expect(await from({ origin: "http://app.test" })).toBe(201)
    expect(await from({ ...ownPage, origin: "http://app.test" })).toBe(201)
  })

  it("finds its pages under the path of the app, also when a router or a proxy cut it off", async () => {
    await using control = missionControl(shift, { path: "/ops/", loginUrl: "/login?a=1&b", authorize })
    const toPages = async (path: string, headers: Readonly<Record<string, string>> = {}) => {
      const { headers: answer } = await control.fetch(
        new Request(`http://app.test${path}`, { headers: { ...ada, ...headers } })
      )
      return answer.get("location")
    }
    expect(await toPages("/ops")).toBe("/ops/ui/")
    expect(await toPages("/ops/")).toBe("/ops/ui/")
    expect(await toPages("/")).toBe("/ops/ui/")
    expect(await toPages("/ops", { "x-forwarded-prefix": "/tools/" })).toBe("/tools/ops/ui/")
    expect(await toPages("/ops", { "x-forwarded-prefix": "//evil.test" })).toBe("/ops/ui/")
    expect(await toPages("/ops/ui")).toBe("ui/")
    expect(await toPages("/ops/ui/", { cookie: "" })).toBe("/login?a=1&b")
    const page = await control.fetch(new Request("http://app.test/ops/ui/", { headers: ada }))
    expect(await page.text()).toContain('data-login="/login?a=1&#38;b"')
    expect((await control.fetch(new Request("http://app.test/opsy/ui/", { headers: ada }))).status).toBe(404)
  })

  it("may be framed only by sites that are named", async () => {
    const policies = async (frameAncestors?: ReadonlyArray<string>) => {
      await using control = missionControl(shift, { path: "/ops", authorize, frameAncestors })
      const { headers } = await control.fetch(new Request("http://app.test/ops/ui/", { headers: ada }))
      const policy = headers.get("content-security-policy")?.split("; ").at(-1)
      return [policy, headers.get("x-frame-options")]
    }
    expect(await policies()).toEqual(["frame-ancestors 'none'", "DENY"])
    expect(await policies([])).toEqual(["frame-ancestors 'none'", "DENY"])
    expect(await policies(["'self'", "https://admin.test"])).toEqual([
      "frame-ancestors 'self' https://admin.test",
      null
    ])
  })

  it("survives visitors who leave before they have read anything", async () => {
    await using control = missionControl(shift, { path: "/ops", authorize })
    const thrown: Array<unknown> = []
    const note = (error: unknown) => void thrown.push(error)
    process.on("uncaughtExceptionMonitor", note)
    for (let visit = 0; visit < 20; visit += 1) {
      const { body } = await control.fetch(new Request("http://app.test/ops/api/v1/events", { headers: bob }))
      await body?.cancel()
      // The events that were sent before are read in the next turn.
      await new Promise(setImmediate)
    }
    process.off("uncaughtExceptionMonitor", note)
    expect(thrown).toEqual([])
  })

  it("streams live events, and ends them when it is closed", async () => {
    const control = missionControl(shift, { path: "/ops", authorize })
    const open = () => control.fetch(new Request("http://app.test/ops/api/v1/events", { headers: bob }))
    const [{ body }, other] = [await open(), await open()]
    const reader = (body as ReadableStream<Uint8Array>).getReader()
    let text = ""
    while (!text.includes("event: heartbeat")) text += new TextDecoder().decode((await reader.read()).value)
    expect(text).toContain("event: snapshot\n")
    await other.body?.cancel()
    await control.close()
    while (!(await reader.read()).done);
    await control.close()

    const refused = await open()
    expect([refused.status, await refused.text()]).toEqual([503, expect.stringContaining("Mission Control is closed")])
    await serving(control.handler, async (url) => {
      expect((await fetch(`${url}/ops/ui/`, { headers: ada })).status).toBe(503)
    })
  })

  it("refuses wrong options, and lets nobody in because of a wrong answer", async () => {
    const make = (options: object) => () => missionControl(shift, { path: "/ops", authorize, ...options })
    expect(make({ path: "ops" })).toThrow('path must be a path like "/ops", got "ops".')
    expect(make({ authorize: "admin" })).toThrow("authorize must be a function")
    expect(make({ login: "/login" })).toThrow("login is not an option of missionControl")
    expect(make({ frameAncestors: ["'self'; script-src *"] })).toThrow("frameAncestors must be a list")
    expect(() => missionControl({} as Shift, { path: "/ops", authorize })).toThrow("a shift that connect() returned")
    for (const answer of [true, "owner", undefined, { role: "root", user: "ada" }]) {
      await using control = missionControl(shift, { path: "/ops", authorize: () => answer as never })
      await expect(control.fetch(new Request("http://app.test/ops/ui/"))).rejects.toThrow("authorize must return")
    }
  })
})

describe("missionControl, as a middleware of Node.js", () => {
  it("takes the requests under its path and passes the others on, with what authorize threw", async () => {
    await using control = missionControl(shift, {
      path: "/ops",
      authorize: ({ headers }: IncomingMessage) => {
        if (headers.cookie === "broken") throw new Error("the session store is down")
        return accessOf(headers.cookie)
      }
    })
    await serving(
      (request, response) => {
        const { url } = request
        control.handler(request, response, (error) => {
          response.writeHead(error === undefined ? 404 : 500).end(String(error ?? `no ${url}`))
        })
      },
      async (url) => {
        expect((await ask(`${url}/ops/api/v1/session`, "GET", { headers: ada })).json).toMatchObject({
          role: "admin",
          until: null
        })
        const stored = await ask(`${url}/ops/api/v1/jobs`, "POST", { json: jobs, headers: { ...ada, ...ownPage } })
        expect(stored.status).toBe(201)
        const script = /assets\/[\w-]+\.js/.exec((await ask(`${url}/ops/ui/`, "GET", { headers: bob })).text)?.[0]
        expect((await ask(`${url}/ops/ui/${script}`, "GET", { headers: bob })).status).toBe(200)
        expect((await ask(`${url}/elsewhere?a=1`, "GET", { headers: ada })).text).toBe("no /elsewhere?a=1")
        expect((await ask(`${url}/opsy`, "GET", { headers: ada })).text).toBe("no /opsy")
        expect((await ask(`${url}/ops/ui/`, "GET", { headers: { cookie: "broken" } })).text).toBe(
          "Error: the session store is down"
        )
      }
    )
  })

  it("says what to do if a body parser has read the body", async () => {
    await using control = missionControl(shift, { path: "/ops", authorize: () => "admin" })
    await serving(
      async (request, response) => {
        for await (const _ of request);
        control.handler(request, response)
      },
      async (url) => {
        const answer = await ask(`${url}/ops/api/v1/jobs`, "POST", { json: jobs, headers: ownPage })
        expect(answer).toMatchObject({
          status: 400,
          json: { error: { message: expect.stringContaining("in front of") } }
        })
        // There was nothing to read: it gets as far as the limit, which does not exist.
        const path = "/ops/api/v1/limits/none/drain"
        expect((await ask(`${url}${path}`, "POST", { headers: ownPage })).json).toMatchObject({
          error: { message: expect.not.stringContaining("in front of") }
        })
      }
    )
  })
})
