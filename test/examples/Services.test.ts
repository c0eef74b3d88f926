import { spawnSync } from "node:child_process"
import { once } from "node:events"
import { readdirSync, readFileSync } from "node:fs"
import { type AddressInfo, createServer } from "node:net"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import pg from "pg"
import "../../examples/effect-service/test/orders.test.js"
import "../../examples/telegram-bot/test/bot.test.js"
import { TelegramEmulator } from "../../src/testing/index.js"
import * as Nightshift from "../support/Nightshift.js"
import * as PackedPackage from "../support/PackedPackage.js"
import * as TestDatabase from "../support/TestDatabase.js"
import * as ExampleProject from "./ExampleProject.js"

const admin = "sesame"

/** Starts an example by the arguments of its `npm start`, on a database of its own. */
const started = (name: string, extra: Readonly<Record<string, string>> = {}, port = "0") =>
  Effect.gen(function* () {
    const cwd = yield* ExampleProject.copied(name)
    const { scripts } = JSON.parse(readFileSync(join(cwd, "package.json"), "utf8"))
    const args = String(scripts.start).replace("exec nightshift ", "").split(" ")
    const databaseUrl = Redacted.value(yield* TestDatabase.migrated)
    const env = { DATABASE_URL: databaseUrl, NIGHTSHIFT_ADMIN_TOKEN: admin, LOG_LEVEL: "warning", ...extra }
    const service = yield* Nightshift.start([...args, "--port", port], { cwd, env })
    const [, url = ""] = yield* service.said(/doors +(http:\S+)/)
    return { cwd, databaseUrl, url }
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

describe("the Telegram bot", () => {
  it.scopedLive("answers a message that Telegram delivered", () =>
    Effect.gen(function* () {
      const telegram = yield* TelegramEmulator
      const [token, secret] = ["42:tracker", "a-secret-of-the-tracker"]
      yield* telegram.addBot(token)
      const env = { BOT_TRACKER_TOKEN: token, BOT_TRACKER_SECRET: secret, TELEGRAM_API_URL: telegram.url }
      const { url } = yield* started("telegram-bot", env)
      yield* telegram.deliverTo(token, { urls: [`${url}/hooks/telegram/tracker`], secret })
      yield* telegram.say(token, { chat: 7, text: "/track 17" })
      const replies = Effect.map(telegram.calls, (calls) => calls.filter(({ method }) => method === "sendMessage"))
      const [reply] = yield* until(replies, (found) => found.length > 0)
      expect(reply?.parameters).toMatchObject({ chat_id: 7, text: "Parcel 17: arrives today" })
    }).pipe(Effect.provide(TelegramEmulator.layer()))
  )
})

describe("the upload inbox", () => {
  it.scopedLive("stores an uploaded file as an object and acknowledges it", () =>
    Effect.gen(function* () {
      const databaseUrl = Redacted.value(yield* TestDatabase.migrated)
      const create = ["uploads", "tokens", "create", "--workspace", "acme", "--json"]
      const { stdout } = yield* Nightshift.call(create, {
        cwd: yield* Nightshift.folder,
        env: { DATABASE_URL: databaseUrl }
      })
      const { token }: { token: string } = JSON.parse(stdout)
      // The handler fetches from the service that runs it, so it has to know the port before the start.
      const port = String(yield* freePort)
      const { cwd, url } = yield* started(
        "upload-inbox",
        {
          DATABASE_URL: databaseUrl,
          UPLOADS_JOB_KIND: "file_arrived",
          INBOX_TOKEN: token,
          INBOX_URL: `http://127.0.0.1:${port}`
        },
        port
      )
      const headers = { authorization: `Bearer ${token}` }
      const form = new FormData()
      form.append("files", new Blob(["hello"]), "hello.txt")
      yield* Effect.promise(() => fetch(`${url}/uploads/acme`, { method: "POST", headers, body: form }))
      const waiting = Effect.promise(
        async () =>
          (await fetch(`${url}/uploads/acme`, { headers })).json() as Promise<{ files: ReadonlyArray<unknown> }>
      )
      yield* until(waiting, ({ files }) => files.length === 0)
      const [stored = ""] = readdirSync(join(cwd, "objects", "acme"))
      expect(stored).toMatch(/^[0-9a-f]{12}-hello\.txt$/)
      expect(readFileSync(join(cwd, "objects", "acme", stored), "utf8")).toBe("hello")
    })
  )
})

describe("the Python and Go programs", () => {
  it.scopedLive("enqueue over HTTP and by SQL", () =>
    Effect.gen(function* () {
      const { cwd, databaseUrl, url } = yield* started("python-and-go")
      const env = { NIGHTSHIFT_URL: url, NIGHTSHIFT_TOKEN: admin }
      const run = (file: string, ...args: ReadonlyArray<string>) =>
        Effect.map(PackedPackage.run(cwd, file, args, env), (printed) => printed.trim())
      const send = ["A-17", "ada@example.org"]
      const python = ["/usr/bin/python3", "/usr/local/bin/python3"].find(
        (path) => spawnSync(path, ["--version"]).status === 0
      )
      if (python !== undefined) {
        const id = yield* run(python, "enqueue_http.py", ...send)
        expect(yield* run(python, "enqueue_http.py", ...send)).toBe(id)
        expect(yield* finished(url, id)).toMatchObject({ state: "done", result: { sent: "A-17 to ada@example.org" } })
      }
      if (spawnSync("go", ["version"]).status === 0) {
        const id = yield* run("go", "run", ".", "A-18", "grace@example.org")
        expect(yield* finished(url, id)).toMatchObject({ state: "done" })
      }
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
      const [text, second] = [statement.replace("%s", "$1"), "$2"]
      const client = new pg.Client({ connectionString: databaseUrl })
      const stored = yield* Effect.promise(async () => {
        await client.connect()
        const payload = JSON.stringify({ orderId: "A-19", email: "joan@example.org" })
        const { rows } = await client.query(text.replace("%s", second), [payload, "receipt:A-19"])
        await client.end()
        return rows[0].enqueue as string
      })
      expect(yield* finished(url, stored)).toMatchObject({ state: "done" })
    })
  )
})
