import { readdirSync } from "node:fs"
import { type AddressInfo, createServer } from "node:net"
import { expect, layer } from "@effect/vitest"
import { Effect, Schedule } from "effect"
import { Browser } from "../support/Browser.js"
import * as Nightshift from "../support/Nightshift.js"
import { below, gone } from "../support/ProcessFamily.js"

const states = ["scheduled", "retrying", "pending", "running", "done", "dead"] as const

// The parts of the API's answers that this test reads.
interface Queue {
  readonly name: string
  readonly paused: boolean
  readonly declared: boolean
  readonly counts: Readonly<Record<(typeof states)[number], { readonly value: number }>>
  readonly limits: { readonly rate: { readonly per: string } | null; readonly perKey: unknown }
  readonly retainDead: string | null
}
interface Answers {
  queues: { readonly queues: ReadonlyArray<Queue> }
  schedules: { readonly schedules: ReadonlyArray<{ readonly name: string; readonly lastFireAt: string | null }> }
  limits: { readonly limits: ReadonlyArray<{ readonly tokens: number; readonly capacity: number }> }
  pods: { readonly pods: ReadonlyArray<unknown>; readonly unservedQueues: ReadonlyArray<string> }
  uploads: {
    readonly counts: { readonly waiting: number; readonly fetched: number; readonly acked: number }
    readonly stuck: ReadonlyArray<{ readonly workspace: string }>
  }
  audit: { readonly entries: ReadonlyArray<{ readonly reason: string | null }> }
  "jobs?kind=telegram.helpdesk&state=done": { readonly jobs: ReadonlyArray<unknown> }
  "jobs?kind=render_video&state=running": { readonly jobs: ReadonlyArray<{ readonly progress: unknown }> }
  "jobs/groups": { readonly groups: ReadonlyArray<unknown> }
  "metrics/series": { readonly points: ReadonlyArray<{ readonly completed: number; readonly dead: number }> }
  "metrics/database": { readonly points: ReadonlyArray<unknown> }
}

/** Whether each area has data. */
const areas: { readonly [Path in keyof Answers]: (answer: Answers[Path]) => boolean } = {
  queues: ({ queues }) =>
    states.every((state) => queues.some(({ counts }) => counts[state].value > 0)) &&
    queues.some(({ paused }) => paused) &&
    queues.some(({ declared }) => !declared) &&
    queues.some(({ limits }) => limits.rate?.per === "1s") &&
    queues.some(({ retainDead }) => retainDead === "30d") &&
    queues.some(({ limits }) => limits.perKey !== null),
  schedules: ({ schedules }) => schedules.some(({ lastFireAt }) => lastFireAt !== null),
  limits: ({ limits }) => limits.some(({ capacity, tokens }) => tokens < capacity),
  pods: ({ pods, unservedQueues }) => pods.length === 2 && unservedQueues.includes("ledger"),
  uploads: ({ counts, stuck }) =>
    counts.waiting > 0 && counts.fetched > 0 && counts.acked > 0 && stuck[0]?.workspace === "initech",
  audit: ({ entries }) => entries.length > 5 && entries.every(({ reason }) => reason !== null),
  "jobs?kind=telegram.helpdesk&state=done": ({ jobs }) => jobs.length > 0,
  "jobs?kind=render_video&state=running": ({ jobs }) => jobs.some(({ progress }) => progress !== null),
  "jobs/groups": ({ groups }) => groups.length > 4,
  "metrics/series": ({ points }) => points.filter(({ completed }) => completed > 0).length > 50,
  "metrics/database": ({ points }) => points.length > 50
}

const read = (origin: string, token: string, path: string) =>
  Effect.promise(async () => {
    const response = await fetch(`${origin}/api/v1/${path}`, { headers: { authorization: `Bearer ${token}` } })
    return response.json()
  })

layer(Browser.layer, { excludeTestServices: true })("nightshift demo", (it) => {
  it.scoped(
    "connects to none of the databases that its environment names",
    () =>
      Effect.gen(function* () {
        const cwd = yield* Nightshift.folder
        let connections = 0
        const other = createServer((socket) => {
          connections += 1
          socket.destroy()
        })
        yield* Effect.acquireRelease(
          Effect.async<void>((resume) => void other.listen(0, "127.0.0.1", () => resume(Effect.void))),
          () => Effect.sync(() => other.close())
        )
        const url = `postgres://127.0.0.1:${(other.address() as AddressInfo).port}/app`
        const env = { DATABASE_URL: url, DATABASE_LISTEN_URL: url, DATABASE_READ_URL: url, NIGHTSHIFT_CELL: "eu" }
        const demo = yield* Nightshift.start(["demo", "--port", "0"], { cwd, env })
        yield* demo.said(/token=/)
        yield* demo.signal("SIGINT")
        expect(yield* demo.finished).toMatchObject({ code: 0 })
        expect(connections).toBe(0)
      }),
    120_000
  )

  it.scoped(
    "logs in by its link, shows activity in every area, and leaves nothing behind",
    () =>
      Effect.gen(function* () {
        const cwd = yield* Nightshift.folder
        const demo = yield* Nightshift.start(["demo", "--port", "0"], { cwd })
        const [link] = yield* demo.said(/http:\S+token=\S+/)
        const { hash, origin } = new URL(link)
        const token = new URLSearchParams(hash.split("?")[1]).get("token") ?? ""
        const family = yield* below(demo.pid)
        expect(family.length).toBeGreaterThan(2)

        const page = yield* Browser.page()
        yield* Effect.promise(async () => {
          await page.goto(link)
          await page.getByRole("heading", { name: "Overview" }).waitFor()
        })
        expect(page.url()).toBe(`${origin}/ui/#/overview`)

        for (const [path, isAlive] of Object.entries(areas)) {
          yield* Effect.repeat(read(origin, token, path), {
            until: (answer) => (isAlive as (answer: unknown) => boolean)(answer),
            schedule: Schedule.spaced("200 millis")
          }).pipe(Effect.timeoutFail({ duration: "30 seconds", onTimeout: () => new Error(`${path} is not alive`) }))
        }

        yield* demo.signal("SIGINT")
        const finished = yield* demo.finished
        expect(finished).toMatchObject({ code: 0, signal: null })
        expect(finished.stderr).not.toMatch(/^nightshift:|"level":"(error|fatal)"/m)
        yield* gone(family)
        expect(readdirSync(cwd)).toEqual([])
      }),
    120_000
  )
})
