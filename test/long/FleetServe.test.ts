import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { until } from "../journeys/fixtures/OperatorSteps.js"
import * as Nightshift from "../support/Nightshift.js"
import * as ProcessFamily from "../support/ProcessFamily.js"

interface Overview {
  readonly cells: ReadonlyArray<{
    readonly name: string
    readonly failure: string | null
    readonly figures: object | null
  }>
}

describe("nightshift serve --fleet", () => {
  it.scopedLive("starts all cells on embedded PostgreSQL, and ends with no process left", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      writeFileSync(
        join(cwd, "fleet.yaml"),
        "{ cells: { main: {}, mail: {} }, queues: { letters: mail, both: { cells: [main, mail], by: key } }, default: main }\n"
      )
      writeFileSync(join(cwd, "app.mjs"), 'export const queues = ["letters", "own"]\nexport const handlers = []\n')
      const env = { NIGHTSHIFT_ADMIN_TOKEN: "sesame", SHUTDOWN_GRACE: "1s" }
      const running = yield* Nightshift.start(["serve", "--fleet", "--app", "./app.mjs", "--port", "0"], { cwd, env })
      const [text] = yield* Effect.orDie(running.said(/is up with 2 cells[\s\S]*Stop it with Ctrl-C/))
      const [, main = "", mail = ""] = /main +(http:\S+)\/ui\/[\s\S]*mail +(http:\S+)\/ui\//.exec(text) ?? []
      const headers = { authorization: "Bearer sesame" }
      const overview = Effect.promise(async () => {
        const response = await fetch(`${mail}/api/v1/fleet`, { headers })
        return (await response.json()) as Overview
      })
      // Each service asks the other one.
      const { cells } = yield* until(overview, ({ cells }) => cells.every(({ figures }) => figures !== null))
      expect(cells.map(({ failure, name }) => [name, failure])).toEqual([
        ["main", null],
        ["mail", null]
      ])

      const served = yield* Effect.promise(() =>
        Promise.all(
          [main, mail].map(async (url) => {
            const response = await fetch(`${url}/api/v1/pods`, { headers })
            const { pods } = (await response.json()) as { pods: ReadonlyArray<{ queues: ReadonlyArray<string> }> }
            return pods.flatMap(({ queues }) => queues).toSorted()
          })
        )
      )
      expect(served).toEqual([
        ["both", "default", "own"],
        ["both", "letters"]
      ])

      // Commands use the file that it wrote, and mail serves its queue.
      const [, file = ""] = /NIGHTSHIFT_FLEET=(\S+)/.exec(text) ?? []
      const given = { cwd, env: { ...env, NIGHTSHIFT_FLEET: file } }
      const stored = yield* Nightshift.run(
        ["enqueue", "noop_echo", "--queue", "letters", "--cell", "mail", "--json"],
        given
      )
      expect(stored).toMatchObject({ code: 0, stderr: "" })
      const { id } = JSON.parse(stored.stdout)
      const job = Effect.promise(async () => {
        const response = await fetch(`${main}/api/v1/cells/mail/jobs/${id}`, { headers })
        return (await response.json()) as { readonly state: string }
      })
      yield* until(job, ({ state }) => state === "done")

      const family = yield* ProcessFamily.below(running.pid)
      expect(family.length).toBeGreaterThan(0)
      yield* running.signal("SIGTERM")
      expect((yield* running.finished).code).toBe(0)
      const isAlive = (pid: number) => {
        try {
          return process.kill(pid, 0)
        } catch {
          return false
        }
      }
      yield* until(
        Effect.sync(() => family.filter(isAlive)),
        (left) => left.length === 0
      )
    })
  )
})
