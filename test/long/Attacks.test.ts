import { writeFileSync } from "node:fs"
import { connect, type Socket } from "node:net"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import * as Nightshift from "../support/Nightshift.js"
import { type Attack, anonymous, authenticated } from "./AttackTable.js"

const adminToken = "an-admin-token-of-many-characters"
const env = {
  NIGHTSHIFT_ADMIN_TOKEN: adminToken,
  SOURCE_CI_SECRET: "hush",
  BOT_ECHO_TOKEN: "42:t",
  BOT_ECHO_SECRET: "s"
}
const bots = "bots:\n  echo: { handler: echo, requireAuth: false }\nsources:\n  ci: { style: github, kind: build }\n"

const open = (port: number, bytes: Buffer): Promise<Socket | undefined> =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => {
      socket.write(bytes)
      resolve(socket)
    })
    socket.on("error", () => resolve(undefined)).resume()
  })

/** Duration of a request in milliseconds, and whether the answer was right. */
const probe = async (url: string, headers: Readonly<Record<string, string>> = {}) => {
  const began = performance.now()
  const response = await fetch(url, { headers })
  await response.text()
  return { millis: performance.now() - began, ok: response.status === 200 }
}

const sorted = (values: ReadonlyArray<number>) => [...values].sort((a, b) => a - b)
const quantile = (values: ReadonlyArray<number>, part: number) =>
  sorted(values)[Math.floor(part * (values.length - 1))] ?? 0

/** Runs the attacks one after another, each held open while the probes run. */
const under = async (url: string, attacks: ReadonlyArray<Attack>) => {
  const port = Number(new URL(url).port)
  const worsts: Array<readonly [name: string, millis: number]> = []
  const health: Array<number> = []
  const callers: Array<number> = []
  let refused = 0
  for (const { again, bytes, name } of attacks) {
    const sockets = Promise.all(Array.from({ length: again }, () => open(port, bytes)))
    let worst = 0
    for (let turn = 0; turn < 4; turn += 1) {
      const healthz = await probe(`${url}/healthz`)
      const caller = await probe(`${url}/api/v1/session`, { authorization: `Bearer ${adminToken}` })
      if (!healthz.ok || !caller.ok) refused += 1
      health.push(healthz.millis)
      callers.push(caller.millis)
      worst = Math.max(worst, healthz.millis)
    }
    worsts.push([name, worst])
    for (const socket of await sockets) socket?.destroy()
  }
  return { health, callers, refused, slowest: worsts.sort(([, a], [, b]) => b - a).slice(0, 5) }
}

const summary = (values: ReadonlyArray<number>) =>
  `median ${quantile(values, 0.5).toFixed(1)} ms, 95 % ${quantile(values, 0.95).toFixed(1)} ms, worst ${quantile(values, 1).toFixed(1)} ms`

/** On a loaded machine any single answer may be late; the median is late only if the server is slow. */
const most = { ratio: 20, millis: 100 }

describe("a server under attack", () => {
  it.scopedLive(
    "answers health checks and other callers promptly",
    () =>
      Effect.gen(function* () {
        expect([anonymous.length, authenticated("", "").length]).toEqual([60, 20])
        const cwd = yield* Nightshift.folder
        writeFileSync(join(cwd, "bots.yaml"), bots)
        const running = yield* Nightshift.start(["serve", "--embedded", "--port", "0"], { cwd, env })
        const [, url = ""] = yield* running.said(/url +(http:\S+)/)
        const made = yield* Effect.promise(() =>
          fetch(`${url}/api/v1/workspaces/acme/tokens`, {
            method: "POST",
            headers: { authorization: `Bearer ${adminToken}`, "content-type": "application/json" },
            body: "{}"
          }).then((response) => response.json())
        )
        const { token = "" } = made as { readonly token?: string }
        expect(token).toMatch(/^nst_/)
        const idle: Attack = { name: "nothing", bytes: Buffer.alloc(0), again: 0 }
        const quiet = yield* Effect.promise(() => under(url, Array(20).fill(idle)))
        const open = yield* Effect.promise(() => under(url, anonymous))
        const inside = yield* Effect.promise(() => under(url, authenticated(adminToken, token)))
        for (const [name, { callers, health, slowest }] of Object.entries({ quiet, open, inside })) {
          const worst = slowest.map(([attack, millis]) => `${attack} ${millis.toFixed(0)} ms`).join(", ")
          process.stdout.write(`${name}: healthz ${summary(health)}; callers ${summary(callers)}; slowest: ${worst}\n`)
        }
        for (const { callers, health, refused } of [open, inside]) {
          expect(refused).toBe(0)
          const allowed = (before: ReadonlyArray<number>) => Math.max(most.millis, most.ratio * quantile(before, 0.5))
          expect(quantile(health, 0.5)).toBeLessThan(allowed(quiet.health))
          expect(quantile(callers, 0.5)).toBeLessThan(allowed(quiet.callers))
        }
        // The server is still alive and can be stopped.
        yield* running.signal("SIGTERM")
        const ended = yield* Effect.flatMap(Effect.fork(running.finished), Fiber.join)
        expect(ended).toMatchObject({ code: 0 })
        expect(ended.stderr).not.toMatch(/uncaught|unhandled/i)
      }),
    300_000
  )
})
