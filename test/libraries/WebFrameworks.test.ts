import "reflect-metadata"
import { Module } from "@nestjs/common"
import { NestFactory } from "@nestjs/core"
import fastify, { type FastifyRequest } from "fastify"
import { Kysely, PostgresDialect } from "kysely"
import { connect, missionControl, type Shift, worker } from "nightshift/client"
import pg from "pg"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { createApp as createFastify, type Database } from "../../examples/fastify-kysely/src/app.js"
import { resizeImage } from "../../examples/fastify-kysely/src/jobs.js"
import { createApp as createHono } from "../../examples/hono/src/app.js"
import { OrderHandlers, OrdersModule, OrdersService } from "../../examples/nestjs-module/src/orders.js"
import { SHIFT, ShiftModule } from "../../examples/nestjs-module/src/shift.module.js"
import { useDatabase } from "../client/ClientDatabase.js"

const database = useDatabase()
let shift: Shift
beforeAll(async () => {
  shift = await connect(database.url(), { log: false })
})
afterAll(() => shift.close())

// Next.js resolves imports without extensions, which this project's compiler settings refuse: examples/tsconfig.json allows them.
const routes = "../../examples/next-route-handler/app/api"
const { POST }: { POST: (request: Request) => Promise<Response> } = await import(`${routes}/signups/route.ts`)
type Get = (request: Request, context: { params: Promise<{ id: string }> }) => Promise<Response>
const { GET }: { GET: Get } = await import(`${routes}/jobs/[id]/route.ts`)

const json = (body: unknown) => ({
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify(body)
})

describe("Fastify and Kysely", () => {
  it("stores an image with a job for each size, and waits for a result", async () => {
    await database.pool().query("create table images (id serial primary key, url text not null)")
    const pool = new pg.Pool({ connectionString: database.url(), max: 2 })
    const db = new Kysely<Database>({ dialect: new PostgresDialect({ pool }) })
    const app = createFastify(db, shift)
    app.addHook("onClose", () => db.destroy())
    const answer = await app.inject({ method: "POST", url: "/images", payload: { url: "https://example.org/cat.jpg" } })
    expect(answer.statusCode).toBe(201)
    const { jobs } = answer.json<{ jobs: ReadonlyArray<string> }>()
    expect(await database.count("resize_image")).toBe(3)
    await using _ = await worker(shift, { handlers: [resizeImage.handle(({ width }) => ({ bytes: width }))] })
    const results = await Promise.all(jobs.map((job) => app.inject(`/results/${job}`)))
    expect(results.map((each) => each.json())).toEqual([{ bytes: 200 }, { bytes: 800 }, { bytes: 1600 }])
    expect((await app.inject({ method: "POST", url: "/images", payload: {} })).statusCode).toBe(400)
    await app.close()
  })
})

describe("Mission Control in Fastify", () => {
  it("shows its pages, reads the bodies of its requests, and leaves other paths alone", async () => {
    const app = fastify()
    const control = missionControl(shift, {
      path: "/ops",
      authorize: (request: FastifyRequest["raw"]) => (request.headers.cookie === "user=ada" ? "admin" : "none")
    })
    await app.register(async (scope) => {
      scope.removeAllContentTypeParsers()
      scope.addContentTypeParser("*", (_request, _body, done) => done(null))
      for (const url of ["/ops", "/ops/*"])
        scope.all(url, (request, reply) => {
          reply.hijack()
          control.handler(request.raw, reply.raw)
        })
    })
    app.post("/echo", (request) => request.body)
    const url = await app.listen({ port: 0, host: "127.0.0.1" })
    const ada = { cookie: "user=ada", "sec-fetch-site": "same-origin", "content-type": "application/json" }
    const page = await fetch(`${url}/ops`, { headers: ada })
    expect([page.status, page.url]).toEqual([200, `${url}/ops/ui/`])
    expect(await page.text()).toContain("Mission Control")
    expect((await fetch(`${url}/ops/ui/`)).status).toBe(401)
    const stored = await fetch(`${url}/ops/api/v1/jobs`, {
      ...json({ force: true, jobs: [{ kind: "greet", payload: { name: "Ada" } }] }),
      headers: ada
    })
    expect([stored.status, await database.count("greet")]).toEqual([201, 1])
    const paused = await fetch(`${url}/ops/api/v1/queues/default`, {
      method: "PATCH",
      headers: ada,
      body: JSON.stringify({ paused: true })
    })
    expect([paused.status, await paused.text()]).toEqual([200, expect.stringContaining('"paused":true')])
    expect(await (await fetch(`${url}/echo`, json({ a: 1 }))).json()).toEqual({ a: 1 })
    await control.close()
    await app.close()
  })
})

describe("Next.js route handlers", () => {
  it("enqueue once per address and day, refuse a wrong payload, and show the job", async () => {
    const before = process.env.DATABASE_URL
    process.env.DATABASE_URL = database.url()
    const signUp = (body: unknown) => POST(new Request("http://localhost/api/signups", json(body)))
    const first = await signUp({ email: "ada@example.org", plan: "free" })
    expect(first.status).toBe(202)
    const { job, outcome } = (await first.json()) as { job: string; outcome: string }
    expect(outcome).toBe("enqueued")
    expect(await (await signUp({ email: "ada@example.org", plan: "team" })).json()).toEqual({
      job,
      outcome: "deduplicated"
    })
    const refused = await signUp({ email: "ada@example.org", plan: "gold" })
    expect(refused.status).toBe(400)
    expect(await refused.json()).toMatchObject({ issues: [{ path: ["plan"] }] })
    const show = (id: string) => GET(new Request("http://localhost"), { params: Promise.resolve({ id }) })
    expect(await (await show(job)).json()).toMatchObject({ state: "pending" })
    expect((await show("0198c0de-0000-7000-8000-000000000000")).status).toBe(404)
    await (await connect(database.url())).close()
    if (before === undefined) delete process.env.DATABASE_URL
    else process.env.DATABASE_URL = before
  })
})

describe("the NestJS module", () => {
  it("injects the shift, runs handlers that are providers, and closes with the application", async () => {
    const AppModule = class {}
    const root = ShiftModule.forRoot(database.url(), { log: false, pool: 3 })
    Module({ imports: [root, ShiftModule.worker(OrderHandlers), OrdersModule] })(AppModule)
    const app = await NestFactory.createApplicationContext(AppModule, { logger: false })
    const id = await app.get(OrdersService).place("A-17")
    const own = app.get<Shift>(SHIFT)
    expect(await own.result(id, { timeout: "30s" })).toEqual({ shipped: "A-17" })
    expect(app.get(OrderHandlers, { strict: false }).shipped).toEqual(["A-17"])
    await app.close()
    await expect(own.job(id)).rejects.toMatchObject({ code: "CLOSED" })
  })
})

describe("Hono", () => {
  it("moves a reminder with every visit, and cancels it", async () => {
    const app = createHono(shift)
    const visit = async (email: string) => (await app.request("/carts/c1/visits", json({ email }))).json()
    const first = (await visit("ada@example.org")) as { job: string; moved: boolean }
    const due = (await shift.job(first.job)).runAt
    expect(await visit("ada@example.org")).toEqual({ job: first.job, moved: true })
    expect((await shift.job(first.job)).runAt.getTime()).toBeGreaterThan(due.getTime())
    expect((await app.request("/carts/c1/visits", json({ email: "nowhere" }))).status).toBe(400)
    const cancel = () => app.request(`/reminders/${first.job}`, { method: "DELETE" })
    expect(await (await cancel()).json()).toEqual({ state: "cancelled" })
    expect(await (await cancel()).json()).toEqual({ state: "cancelled" })
    expect((await app.request("/reminders/0198c0de-0000-7000-8000-000000000000", { method: "DELETE" })).status).toBe(
      404
    )
  })
})
