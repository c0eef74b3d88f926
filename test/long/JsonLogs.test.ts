import { mkdirSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import * as Nightshift from "../support/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"

const app = `
import { job } from "nightshift/client"
const payload = { "~standard": { version: 1, vendor: "none", validate: (value) => ({ value }) } }
const charge = job("charge", { payload, queue: "money", attempts: 2, backoff: "10ms" })
export const handlers = [
  charge.handle(async ({ card }, { log }) => {
    log.info("charging", { order: 7, amount: 5n, card })
    throw new Error("declined: card " + card + "\\nsecond line")
  })
]
`

const ownLog = `
const write = (level) => (msg, fields) => console.log("mine " + level + " " + msg + " " + (fields.kind ?? ""))
export const log = { debug: write("debug"), info: write("info"), warn: write("warn"), error: write("error") }
`

type Line = Readonly<Record<string, unknown>>

/** Runs a job that dies, stops the service, and returns its output. */
const outputOf = (text: string) =>
  Effect.gen(function* () {
    const cwd = yield* Nightshift.folder
    mkdirSync(join(cwd, "node_modules"))
    symlinkSync(Nightshift.root, join(cwd, "node_modules", "nightshift"))
    writeFileSync(join(cwd, "app.mjs"), text)
    const url = Redacted.value(yield* TestDatabase.migrated)
    const env = { DATABASE_URL: url, NIGHTSHIFT_ADMIN_TOKEN: "sesame", NIGHTSHIFT_MASK: "card" }
    const service = yield* Nightshift.start(["serve", "--port", "0", "--app", "app.mjs"], { cwd, env })
    yield* service.said(/is up/)
    const enqueue = ["enqueue", "charge", "--payload", '{"card":"4242-4242"}', "--json"]
    const { id } = JSON.parse((yield* Nightshift.call(enqueue, { cwd, env })).stdout)
    yield* service.said(/a job is dead/)
    yield* service.signal("SIGTERM")
    const { code, stderr, stdout } = yield* service.finished
    expect(code).toBe(0)
    return { id, stderr, stdout }
  })

describe("the output of a service that does not run in a terminal", () => {
  it.scopedLive("is one JSON object per line, from its start over a dead job to its stop", () =>
    Effect.gen(function* () {
      const { id, stderr, stdout } = yield* outputOf(app)
      const linesOf = (text: string) =>
        text
          .trimEnd()
          .split("\n")
          .map((line) => JSON.parse(line) as Line)
      const [up, ...rest] = linesOf(stdout)
      expect(rest).toEqual([])
      expect(up).toMatchObject({
        level: "info",
        msg: expect.stringMatching(/^Nightshift \S+ is up$/),
        url: expect.stringMatching(/^http:/),
        queues: ["default", "money"]
      })
      const lines = linesOf(stderr)
      for (const line of lines) {
        expect(Object.keys(line).slice(0, 3)).toEqual(["time", "level", "msg"])
        expect(new Date(String(line.time)).toISOString()).toBe(line.time)
      }
      const about = (attempt: number) => ({ job: id, kind: "charge", queue: "money", attempt })
      const error = expect.stringMatching(/^declined: card \[masked\]\nsecond line\n +at .*app\.mjs/)
      const said = { level: "info", msg: "charging", order: 7, amount: "5", card: "[masked]" }
      expect(lines.filter(({ job }) => job !== undefined)).toEqual(
        [
          { ...said, ...about(1) },
          {
            level: "warn",
            msg: expect.stringMatching(/^a job failed \(attempt 1 of 2, retry in \S+\)$/),
            error,
            ...about(1)
          },
          { ...said, ...about(2) },
          { level: "error", msg: "a job is dead (exhausted)", error, ...about(2) }
        ].map((line) => expect.objectContaining(line))
      )
      const process = lines.find(({ job }) => job === id)?.process
      expect(
        lines.find(({ msg }) => String(msg) === `process ${process} started: serving default, money`)
      ).toBeDefined()
      expect(lines.at(-1)).toMatchObject({ level: "info", msg: "stopped" })
    })
  )

  it.scopedLive("goes to the export `log` of the app", () =>
    Effect.gen(function* () {
      const { stderr, stdout } = yield* outputOf(app + ownLog)
      expect(stdout).toMatch(/\nmine info charging charge\nmine warn a job failed .* charge\n/)
      expect(stdout).toMatch(/\nmine info stopped \n$/)
      expect(stderr).toBe("")
    })
  )
})
