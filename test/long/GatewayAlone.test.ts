import { rmSync } from "node:fs"
import * as Http from "node:http"
import * as Net from "node:net"
import { join } from "node:path"
import { gzipSync } from "node:zlib"
import { describe, expect, it } from "@effect/vitest"
import { Effect, type Scope } from "effect"
import { TelegramEmulator } from "../../src/testing/effect.js"
import { message } from "../gateway/Updates.js"
import * as Nightshift from "../support/Nightshift.js"
import { credentials, deliver, get, start, writeBots } from "./GatewayPod.js"

const yaml = `
bots:
  helper: { handler: echo }
  desk: { handler: auth }
`

const emulator = TelegramEmulator.layer({
  tokens: [credentials.BOT_HELPER_TOKEN, credentials.BOT_DESK_TOKEN],
  speed: 100
})

const said = (json: unknown): string => String(Object(json).text)

describe("bots without a database", () => {
  it.scopedLive("answer, sign users in, and report on /readyz what is off", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      writeBots(cwd, yaml)
      const telegram = yield* TelegramEmulator
      const pod = yield* start({ cwd, env: { TELEGRAM_API_URL: telegram.url } })
      expect(yield* get(`${pod.url}/readyz`)).toEqual({
        status: 200,
        text: '{"status":"ready","reasons":[],"off":["queue","worker","uploads"]}'
      })
      expect(yield* get(`${pod.url}/api/v1/jobs`)).toMatchObject({ status: 503 })
      for (const [slug, text] of [
        ["HELPER", "before"],
        ["DESK", `/auth ${credentials.AUTH_SECRET}`],
        ["HELPER", "after"]
      ] as const) {
        const hook = {
          urls: [`${pod.url}/hooks/telegram/${slug.toLowerCase()}`],
          secret: credentials[`BOT_${slug}_SECRET`]
        }
        yield* telegram.deliverTo(credentials[`BOT_${slug}_TOKEN`], hook)
        yield* telegram.say(credentials[`BOT_${slug}_TOKEN`], { chat: 5, text })
        yield* telegram.settled
      }
      const calls = yield* telegram.calls
      expect(calls.map(({ method, parameters, via }) => [via, method, parameters.text ?? "-"])).toEqual([
        ["response", "sendMessage", expect.stringContaining("sign in first")],
        ["call", "deleteMessage", "-"],
        ["response", "sendMessage", "You are signed in for 24h."],
        ["response", "sendMessage", "after"]
      ])
      yield* pod.signal("SIGTERM")
      expect(yield* pod.finished).toMatchObject({ code: 0 })
    }).pipe(Effect.provide(emulator))
  )

  it.scopedLive("are refused when one of them is async, with the bot's name and both fixes", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      writeBots(cwd, "bots: { helper: { handler: echo, async: true }, desk: { handler: eco } }")
      const refused = yield* Nightshift.run(["serve", "--port", "0"], {
        cwd,
        env: { ...credentials, BOT_DESK_SECRET: "" }
      })
      expect(refused).toMatchObject({ code: 2, stdout: "" })
      expect(refused.stderr).toMatch(/^nightshift: bots.yaml has 3 problems:\n/m)
      expect(refused.stderr).toMatch(/the bot helper is async.*DATABASE_URL.*--embedded.*async: false/)
      expect(refused.stderr).toMatch(/did you mean echo/)
      expect(refused.stderr).toMatch(/BOT_DESK_SECRET/)
      expect(refused.stderr).not.toMatch(/to-be-hidden| {4}at /)
    })
  )

  it.scopedLive("are reloaded on SIGHUP; an invalid file changes nothing and is reported", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      writeBots(cwd, "bots: { helper: { handler: echo, requireAuth: false } }")
      const pod = yield* start({ cwd })
      const say = deliver(pod.url, "helper", message(1, "hello"), credentials.BOT_HELPER_SECRET)
      expect(said((yield* say).json)).toBe("hello")
      writeBots(cwd, "bots: { helper: { handler: eco, requireAuth: false } }")
      yield* pod.signal("SIGHUP")
      yield* pod.said(/could not reload the bots file.*did you mean echo/)
      expect(said((yield* say).json)).toBe("hello")
      rmSync(join(cwd, "bots.yaml"))
      yield* pod.signal("SIGHUP")
      yield* pod.said(/could not reload the bots file.*no longer exists/)
      expect(said((yield* say).json)).toBe("hello")
      writeBots(cwd, "bots: { helper: { handler: echo } }")
      yield* pod.signal("SIGHUP")
      yield* pod.said(/reloaded the bots file: 1 bots, 0 sources/)
      expect(said((yield* say).json)).toContain("sign in first")
    })
  )

  it.scopedLive("are connected to Telegram and listed by the command line", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      writeBots(cwd, yaml)
      const telegram = yield* TelegramEmulator
      const env = { ...credentials, BOT_DESK_SECRET: "new-one, old-one", TELEGRAM_API_URL: telegram.url }
      const set = (...args: ReadonlyArray<string>) => Nightshift.call(["bots", "set-webhook", ...args], { cwd, env })
      expect(yield* set("desk", "--url", "https://bots.example.org/", "--max-connections", "7")).toMatchObject({
        code: 0,
        stdout: "Telegram now delivers updates of desk to https://bots.example.org/hooks/telegram/desk\n"
      })
      expect((yield* telegram.calls)[0]?.parameters).toEqual({
        url: "https://bots.example.org/hooks/telegram/desk",
        secret_token: "new-one",
        max_connections: 7,
        allowed_updates: ["message"]
      })
      const info = yield* Nightshift.call(["bots", "info", "--json"], { cwd, env })
      expect(JSON.parse(info.stdout)).toMatchObject([
        { bot: "helper", handler: "echo", mode: "sync", webhook: { url: null } },
        { bot: "desk", handler: "auth", webhook: { url: "https://bots.example.org/hooks/telegram/desk" } }
      ])
      expect(yield* set("dsk", "--url", "https://x.example")).toMatchObject({
        code: 2,
        stderr: 'nightshift: bots.yaml declares no bot "dsk". Did you mean desk?\n'
      })
      const stranger = { ...env, BOT_HELPER_TOKEN: "1:to-be-hidden" }
      const failed = yield* Nightshift.call(["bots", "info"], { cwd, env: stranger })
      expect(failed).toMatchObject({ code: 1, stderr: expect.stringContaining("the bot's token is not valid") })
      expect(failed.stdout).toMatch(/^desk +auth +sync +https:/m)
      const printed = [info, failed].map(({ stderr, stdout }) => stdout + stderr).join()
      expect(printed).not.toMatch(/to-be-hidden|new-one/)
    }).pipe(Effect.provide(emulator))
  )
})

const connect = (port: number): Effect.Effect<Net.Socket, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.async<Net.Socket>((resume) => {
      const socket = Net.connect(port, "127.0.0.1", () => resume(Effect.succeed(socket)))
      socket.on("error", () => {})
    }),
    (socket) => Effect.sync(() => socket.destroy())
  )

const heard = (socket: Net.Socket) =>
  Effect.async<string>((resume) => {
    socket.once("data", (data) => resume(Effect.succeed(String(data))))
  })

/** Sends an endless body until the server closes; returns how much was sent. */
const flood = (port: number, secret: string) =>
  Effect.async<{ readonly status: number; readonly sent: number }>((resume) => {
    let sent = 0
    let status = 0
    const request = Http.request({
      port,
      host: "127.0.0.1",
      path: "/hooks/telegram/helper",
      method: "POST",
      headers: { "content-type": "application/json", "x-telegram-bot-api-secret-token": secret }
    })
    const piece = Buffer.alloc(64 * 1024, " ")
    const more = () => {
      while (!request.destroyed && request.write(piece)) sent += piece.length
      sent += piece.length
    }
    request.on("drain", more)
    request.on("response", (response) => {
      status = response.statusCode ?? 0
      response.resume()
    })
    request.on("error", () => {})
    request.on("close", () => resume(Effect.succeed({ status, sent })))
    more()
  })

describe("slow and hostile clients", () => {
  it.scopedLive("are refused in bounded memory, and do not disturb others", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      writeBots(cwd, "bots: { helper: { handler: echo, requireAuth: false } }")
      const pod = yield* start({ cwd })
      const port = Number(new URL(pod.url).port)
      const secret = credentials.BOT_HELPER_SECRET
      const resident = Effect.map(get(`${pod.url}/metrics`), ({ text }) =>
        Number(/process_resident_memory_bytes (\d+)/.exec(text)?.[1])
      )
      const unharmed = Effect.map(deliver(pod.url, "helper", message(1, "hello"), secret), ({ status }) =>
        expect(status).toBe(200)
      )
      yield* unharmed
      const before = yield* resident

      const head = `POST /hooks/telegram/helper HTTP/1.1\r\nHost: x\r\nX-Telegram-Bot-Api-Secret-Token: ${secret}\r\n`
      const trickling = yield* Effect.forEach(Array.from({ length: 100 }), () => connect(port), { concurrency: 20 })
      for (const [index, socket] of trickling.entries()) {
        // Half of them never finish their headers, the others never finish their bodies.
        socket.write(
          index % 2 === 0 ? "POST /hooks/telegram/helper HTTP/1.1\r\nX-A: 1" : `${head}Content-Length: 9\r\n\r\n{`
        )
      }
      yield* unharmed

      const huge = yield* connect(port)
      const refused = heard(huge)
      huge.write(`${head}Content-Length: 1073741824\r\n\r\n`)
      expect(yield* refused).toMatch(/^HTTP\/1.1 413 /)

      const floods = yield* Effect.all(
        [secret, "wrong", "wrong", "wrong", "wrong"].map((given) => flood(port, given)),
        { concurrency: "unbounded" }
      )
      // The server answers before it closes the connection, and does not read refused bodies.
      expect(floods.map(({ status }) => status)).toEqual([413, 401, 401, 401, 401])
      for (const { sent } of floods) expect(sent).toBeLessThan(64 * 1024 * 1024)
      yield* unharmed

      // A million chunks of one byte: too large, or too slow on a slow machine.
      const slices = yield* connect(port)
      const answered = heard(slices)
      slices.write(`${head}Transfer-Encoding: chunked\r\n\r\n`)
      const block = "1\r\n \r\n".repeat(10_000)
      for (let sent = 0; sent < 1_060_000; sent += 10_000) slices.write(block)
      expect(yield* answered).toMatch(/^HTTP\/1.1 (413|408) /)

      const bomb = gzipSync(Buffer.alloc(64 * 1024 * 1024, " "))
      const asked = yield* connect(port)
      const unpacked = heard(asked)
      asked.write(`${head}Content-Encoding: gzip\r\nContent-Length: ${bomb.length}\r\n\r\n`)
      asked.write(bomb)
      expect(yield* unpacked).toMatch(/^HTTP\/1.1 415 /)
      yield* unharmed
      expect(yield* resident).toBeLessThan(before + 150 * 1024 * 1024)
      expect(yield* get(`${pod.url}/healthz`)).toMatchObject({ status: 200 })
    })
  )

  it.scopedLive("are refused before they send the body when they ask first", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      writeBots(cwd, "bots: { helper: { handler: echo, requireAuth: false } }")
      const pod = yield* start({ cwd })
      const port = Number(new URL(pod.url).port)
      const ask = (secret: string, path: string) =>
        Effect.gen(function* () {
          const socket = yield* connect(port)
          const answer = heard(socket)
          socket.write(
            `POST ${path} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\nX-Telegram-Bot-Api-Secret-Token: ${secret}\r\n\r\n`
          )
          return yield* answer
        })
      expect(yield* ask("wrong", "/hooks/telegram/helper")).toMatch(/^HTTP\/1.1 401 /)
      expect(yield* ask(credentials.BOT_HELPER_SECRET, "/hooks/telegram/helper")).toMatch(/^HTTP\/1.1 100 /)
      expect(yield* ask("", "/api/v1/jobs")).toMatch(/^HTTP\/1.1 100 /)
    })
  )
})
