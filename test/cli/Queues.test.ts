import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import pg from "pg"
import * as Nightshift from "../support/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"

/** The command line on its own database with one queue. */
const workplace = Effect.gen(function* () {
  const cwd = yield* Nightshift.folder
  const url = Redacted.value(yield* TestDatabase.migrated)
  const client = new pg.Client({ connectionString: url })
  yield* Effect.promise(() => client.connect())
  yield* Effect.promise(() =>
    client.query("insert into nightshift.queue (name, created_at, updated_at) values ('mail', now(), now())")
  )
  yield* Effect.promise(() => client.end())
  const env = { DATABASE_URL: url }
  return (...args: ReadonlyArray<string>) => Nightshift.call(["queues", ...args], { cwd, env })
})

describe("nightshift queues", () => {
  it.scopedLive("lists, pauses, resumes and scales queues, as text and as JSON", () =>
    Effect.gen(function* () {
      const queues = yield* workplace
      expect((yield* queues("list")).stdout).toMatch(
        /^QUEUE +STATE +WORKERS.* DONE LAST HOUR\n.*\nmail +open +10 .* +- +0\n$/
      )
      expect(yield* queues("pause", "mail")).toMatchObject({ code: 0, stdout: expect.stringMatching(/^paused mail/) })
      expect((yield* queues("list")).stdout).toMatch(/\nmail +paused /)
      const scaled = yield* queues("scale", "mail", "40", "--json")
      expect(JSON.parse(scaled.stdout)).toMatchObject({ name: "mail", maxWorkers: 40, paused: true })
      expect((yield* queues("resume", "mail")).stdout).toBe("resumed mail\n")
      const listed = JSON.parse((yield* queues("list", "--json")).stdout)
      expect(listed.queues).toEqual([
        expect.objectContaining({
          name: "mail",
          maxWorkers: 40,
          paused: false,
          utilisation: 0,
          throughput: { seconds: expect.any(Number), completed: 0, dead: 0 }
        })
      ])
    })
  )

  it.scopedLive("pauses a queue that no process has declared yet", () =>
    Effect.gen(function* () {
      const queues = yield* workplace
      const paused = "no new jobs start; running jobs finish. No process has served this queue yet."
      expect((yield* queues("pause", "later")).stdout).toBe(`paused later: ${paused}\n`)
      expect((yield* queues("pause", "mial")).stdout).toBe(`paused mial: ${paused} Did you mean mail?\n`)
      const { queues: listed } = JSON.parse((yield* queues("list", "--json")).stdout)
      expect(listed).toContainEqual(expect.objectContaining({ name: "later", paused: true }))
    })
  )

  it.scopedLive("reports an error and exits with code 1", () =>
    Effect.gen(function* () {
      const queues = yield* workplace
      const unknown = yield* queues("scale", "nowhere", "3")
      expect(unknown).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('There is no queue "nowhere": no process has declared it.')
      })
      expect(yield* queues("pause", "a b")).toMatchObject({
        code: 2,
        stderr: `nightshift: A queue's name must be 1 to 64 letters, digits, _, . or -, but not "." or "..", got "a b". See \`nightshift queues pause --help\`.\n`
      })
      const many = yield* queues("scale", "mail", "1000000")
      expect(many).toMatchObject({
        code: 2,
        stderr:
          "nightshift: <workers> must be between 0 and 10000, got 1000000. See `nightshift queues scale --help`.\n"
      })
    })
  )
})
