import { expect, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import type { Page } from "playwright-core"
import { ControlRoom } from "../journeys/fixtures/ControlRoom.js"
import { Browser } from "../support/Browser.js"
import * as Nightshift from "../support/Nightshift.js"

// An operator is woken up, opens the overview, and follows its links to the cause. Each cause is one click away.

const step = <A>(act: () => Promise<A>) => Effect.promise(act)

/** Milliseconds. A job's pod counts as lost only some time after the job started, and counts are cached on a slow machine. */
const lostAfter = 40_000

const cause = "smtp.example.com refused the connection"

const attention = (page: Page) => page.getByRole("region", { name: "Needs attention" })

/** Opens the overview again, beside the noise, and follows the one link with this text. Returns its place in the list. */
const follow = (page: Page, text: RegExp) =>
  step(async () => {
    await page.evaluate("location.hash = '#/overview'")
    await attention(page)
      .getByText(/10\d queues have no worker/)
      .waitFor()
    const link = attention(page).getByRole("link", { name: text })
    await link.waitFor({ timeout: lostAfter })
    const lines = await attention(page).getByRole("listitem").allInnerTexts()
    await link.click()
    await page.getByRole("heading", { level: 1 }).getByText("Overview").waitFor({ state: "detached" })
    return lines.findIndex((line) => text.test(line)) + 1
  })

layer(Layer.merge(Browser.layer, ControlRoom.layer), { excludeTestServices: true, timeout: "3 minutes" })(
  "an operator at night",
  (it) => {
    it.scoped(
      "finds each of five breaks among the first three incidents, beside 100 unserved queues, and its cause with one click",
      () =>
        Effect.gen(function* () {
          const { api, database, enqueue, enter } = yield* ControlRoom
          const many = (count: number, job: Readonly<Record<string, unknown>>) =>
            Effect.forEach(Array.from({ length: count }), () => enqueue(job), { concurrency: 4 })
          const noise = Array.from({ length: 100 }, (_, n) => ({ kind: "noise", queue: `noise-${n}`, payload: {} }))
          yield* api("POST", "jobs", { force: true, jobs: noise })
          const places: Record<string, number> = {}
          /** Ends a break, so that the next one is alone. */
          const clear = (kind: string, state: string) =>
            Effect.gen(function* () {
              const filter = { kind, state: [state] }
              const { operation } = yield* api<{ operation: string }>("POST", "jobs/bulk", { action: "delete", filter })
              const ended = yield* api<{ status: string }>("GET", `operations/${operation}`).pipe(
                Effect.repeat({ while: ({ status }) => status === "running" })
              )
              expect(ended.status).toBe("done")
            })

          const pod = yield* Nightshift.start(["serve", "--port", "0"], {
            cwd: yield* Nightshift.folder,
            env: { DATABASE_URL: database, NIGHTSHIFT_ADMIN_TOKEN: "night", NIGHTSHIFT_QUEUES: "video" }
          })
          yield* Effect.orDie(pod.said(/"url":"(http:[^"]+)"/))
          yield* enqueue({ queue: "video", payload: { sleep_ms: 600_000 } })
          const page = yield* enter("jobs?queue=video&state=running")
          yield* step(() => page.getByRole("row", { name: /noop_echo/ }).waitFor())

          yield* many(12, { payload: { fail: cause }, attempts: 1 })
          places.dead = yield* follow(page, /12 noop_echo jobs died/)
          yield* step(() =>
            page
              .getByRole("row", { name: new RegExp(`dead noop_echo.*${cause}`) })
              .first()
              .waitFor()
          )
          yield* clear("noop_echo", "dead")

          yield* many(12, { payload: { fail: "the bank is closed" }, attempts: 20 })
          places.retrying = yield* follow(
            page,
            /12 noop_echo jobs failed and are waiting for a retry.*the bank is closed/
          )
          yield* step(() =>
            page
              .getByRole("row", { name: /retrying noop_echo.*the bank is closed/ })
              .first()
              .waitFor()
          )
          yield* clear("noop_echo", "retrying")

          yield* api("PATCH", "queues/default", { paused: true, limits: { depthCap: 5 } })
          yield* many(5, {})
          places.full = yield* follow(page, /Queue default is full: 5 jobs waiting/)
          yield* step(() => page.getByRole("heading", { level: 1, name: "default" }).waitFor())
          yield* api("PATCH", "queues/default", { limits: { depthCap: null } })

          places.paused = yield* follow(page, /Queue default is paused: 5 jobs due/)
          yield* step(async () => {
            await page.getByText(/Paused .* by api:admin\. No reason was given\./).waitFor()
            await page.getByRole("button", { name: "Resume" }).waitFor()
          })
          yield* api("PATCH", "queues/default", { paused: false })

          yield* pod.signal("SIGSTOP")
          places.silent = yield* follow(page, /Process \S+ sends no heartbeat, and 1 job runs in it/)
          yield* step(async () => {
            await page.getByText("This process sends no heartbeat").waitFor()
            await page.getByRole("link", { name: "noop_echo" }).waitFor()
          })
          expect(page.url()).toContain("#/pods/")
          expect(Object.entries(places).filter(([, place]) => place < 1 || place > 3)).toEqual([])
        }),
      180_000
    )
  }
)
