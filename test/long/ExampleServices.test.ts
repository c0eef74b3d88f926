import { spawnSync } from "node:child_process"
import { once } from "node:events"
import { copyFileSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { type AddressInfo, createServer } from "node:net"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import pg from "pg"
import "../../examples/effect-service/test/orders.test.js"
import "../../examples/telegram-bot/test/bot.test.js"
import { TelegramEmulator } from "../../src/testing/effect.js"
import * as ExampleProject from "../examples/ExampleProject.js"
import * as Nightshift from "../support/Nightshift.js"
import * as PackedPackage from "../support/PackedPackage.js"
import * as TestDatabase from "../support/TestDatabase.js"

const admin = "sesame"

const served = ["telegram-bot", "upload-inbox", "python-and-go"]

/** The module that `npm start` of an example gives to `nightshift serve --app`. */
const moduleOf = (name: string): string =>
  /^exec nightshift serve --app \.\/(\S+)$/.exec(ExampleProject.manifestOf(name).scripts.start ?? "")?.[1] ?? ""

/** A folder with the three examples that run in `nightshift serve`, and one module with the handlers of all of them. */
const together = Effect.tap(Nightshift.folder, (cwd) => {
  for (const name of served) ExampleProject.copy(name, join(cwd, name))
  ExampleProject.link(cwd, ["effect", "nightshift"])
  copyFileSync(join(cwd, "telegram-bot", "bots.yaml"), join(cwd, "bots.yaml"))
  const imports = served.map((name, place) => `import { handlers as h${place} } from "./${name}/${moduleOf(name)}"`)
  writeFileSync(join(cwd, "app.ts"), `${imports.join("\n")}\nexport const handlers = [...h0, ...h1, ...h2]\n`)
})

const freePort = Effect.promise(async () => {
  const server = createServer().listen(0, "127.0.0.1")
  await once(server, "listening")
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, "close")
  return port
})

/** Asks another process until it says so, with a pause that leaves it the processor. */
const until = <A, E>(ask: Effect.Effect<A, E>, isOver: (answer: A) => boolean) =>
  Effect.repeat(Effect.delay(ask, "20 millis"), { until: isOver })

interface ShownJob {
  readonly state: string
}

const get = (url: string): Effect.Effect<ShownJob> =>
  Effect.promise(
    async () => (await fetch(url, { headers: { authorization: `Bearer ${admin}` } })).json() as Promise<ShownJob>
  )

/** The job when it is over. */
const finished = (url: string, id: string) =>
  until(get(`${url}/api/v1/jobs/${id}`), ({ state }) => state === "done" || state === "dead")

const credentials = { BOT_TRACKER_TOKEN: "42:tracker", BOT_TRACKER_SECRET: "a-secret-of-the-tracker" }

interface Service {
  readonly cwd: string
  readonly url: string
  readonly databaseUrl: string
  readonly workspaceToken: string
}

/** One process for all of them: starting one takes longer than everything they do. */
const start = Effect.gen(function* () {
  const cwd = yield* together
  const telegram = yield* TelegramEmulator
  yield* telegram.addBot(credentials.BOT_TRACKER_TOKEN)
  const databaseUrl = Redacted.value(yield* TestDatabase.migrated)
  const create = ["uploads", "tokens", "create", "--workspace", "acme", "--json"]
  const { stdout } = yield* Nightshift.call(create, { cwd, env: { DATABASE_URL: databaseUrl } })
  const workspaceToken: string = JSON.parse(stdout).token
  // The handler of the inbox fetches from the service that runs it, so it has to know the port before the start.
  const port = String(yield* freePort)
  const env = {
    ...credentials,
    DATABASE_URL: databaseUrl,
    NIGHTSHIFT_ADMIN_TOKEN: admin,
    LOG_LEVEL: "warning",
    TELEGRAM_API_URL: telegram.url,
    UPLOADS_JOB_KIND: "file_arrived",
    INBOX_TOKEN: workspaceToken,
    INBOX_URL: `http://127.0.0.1:${port}`
  }
  const running = yield* Nightshift.start(["serve", "--app", "./app.ts", "--port", port], { cwd, env })
  const [, url = ""] = yield* running.said(/"url":"(http:[^"]+)"/)
  return { cwd, url, databaseUrl, workspaceToken }
})

const botAnswers = ({ url }: Service) =>
  Effect.gen(function* () {
    const telegram = yield* TelegramEmulator
    const { BOT_TRACKER_SECRET: secret, BOT_TRACKER_TOKEN: token } = credentials
    yield* telegram.deliverTo(token, { urls: [`${url}/hooks/telegram/tracker`], secret })
    yield* telegram.say(token, { chat: 7, text: "/track 17" })
    const replies = Effect.map(telegram.calls, (calls) => calls.filter(({ method }) => method === "sendMessage"))
    const [reply] = yield* until(replies, (found) => found.length > 0)
    expect(reply?.parameters).toMatchObject({ chat_id: 7, text: "Parcel 17: arrives today" })
  })

const inboxStores = ({ cwd, url, workspaceToken }: Service) =>
  Effect.gen(function* () {
    const headers = { authorization: `Bearer ${workspaceToken}` }
    const form = new FormData()
    form.append("files", new Blob(["hello"]), "hello.txt")
    yield* Effect.promise(() => fetch(`${url}/uploads/acme`, { method: "POST", headers, body: form }))
    const waiting = Effect.promise(
      async () => (await fetch(`${url}/uploads/acme`, { headers })).json() as Promise<{ files: ReadonlyArray<unknown> }>
    )
    yield* until(waiting, ({ files }) => files.length === 0)
    const [stored = ""] = readdirSync(join(cwd, "objects", "acme"))
    expect(stored).toMatch(/^[0-9a-f]{12}-hello\.txt$/)
    expect(readFileSync(join(cwd, "objects", "acme", stored), "utf8")).toBe("hello")
  })

const python = ["/usr/bin/python3", "/usr/local/bin/python3"].find(
  (path) => spawnSync(path, ["--version"]).status === 0
)
const hasGo = spawnSync("go", ["version"]).status === 0

const programsEnqueue = (service: Service) =>
  Effect.gen(function* () {
    const { databaseUrl, url } = service
    const cwd = join(service.cwd, "python-and-go")
    const env = { NIGHTSHIFT_URL: url, NIGHTSHIFT_TOKEN: admin }
    const run = (file: string, ...args: ReadonlyArray<string>) =>
      Effect.map(PackedPackage.run(cwd, file, args, env), (printed) => printed.trim())
    if (python !== undefined) {
      const send = ["enqueue_http.py", "A-17", "ada@example.org"]
      const id = yield* run(python, ...send)
      expect(yield* run(python, ...send)).toBe(id)
      expect(yield* finished(url, id)).toMatchObject({ state: "done", result: { sent: "A-17 to ada@example.org" } })
    }
    if (hasGo)
      expect(yield* finished(url, yield* run("go", "run", ".", "A-18", "grace@example.org"))).toMatchObject({
        state: "done"
      })
    // What the programs send is taken from their text, so that it is checked where the language is missing.
    const go = readFileSync(join(cwd, "main.go"), "utf8")
    const headers = Object.fromEntries(
      [...go.matchAll(/Header\.Set\("([\w-]+)", "?([\w/ ]+)/g)].map(([, name = "", value = ""]) => [name, value])
    )
    expect(headers).toEqual({
      Authorization: "Bearer ",
      "Content-Type": "application/json",
      "Idempotency-Key": "idempotencyKey"
    })
    expect(go).toContain('"/api/v1/jobs"')
    const response = yield* Effect.promise(() =>
      fetch(`${url}/api/v1/jobs`, {
        method: "POST",
        headers: { ...headers, Authorization: `Bearer ${admin}` },
        body: JSON.stringify({ kind: "send_receipt", payload: { orderId: "A-18", email: "grace@example.org" } })
      })
    )
    expect(response.status).toBe(201)
    const statement = /ENQUEUE = "(.*)"/.exec(readFileSync(join(cwd, "enqueue_sql.py"), "utf8"))?.[1] ?? ""
    const stored = yield* Effect.promise(async () => {
      const client = new pg.Client({ connectionString: databaseUrl })
      await client.connect()
      const payload = JSON.stringify({ orderId: "A-19", email: "joan@example.org" })
      const { rows } = await client.query(statement.replace("%s", "$1").replace("%s", "$2"), [payload, "receipt:A-19"])
      await client.end()
      return rows[0].enqueue as string
    })
    expect(yield* finished(url, stored)).toMatchObject({ state: "done" })
  })

describe("the examples that run in the service", () => {
  it.scopedLive("answer a Telegram message, store an uploaded file, and take jobs from Python and Go", () =>
    Effect.gen(function* () {
      expect(served.map(moduleOf)).toEqual(["src/bot.ts", "src/inbox.ts", "jobs.ts"])
      const service = yield* start
      yield* Effect.all([botAnswers(service), inboxStores(service), programsEnqueue(service)], { concurrency: 3 })
    }).pipe(Effect.provide(TelegramEmulator.layer()))
  )
})
