import { expect, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import type { Page } from "playwright-core"
import { ControlRoom } from "../journeys/fixtures/ControlRoom.js"
import { Browser } from "../support/Browser.js"
import * as Nightshift from "../support/Nightshift.js"

// An operator is woken up, opens the overview, and follows its links to the cause. Each cause is one click away.

const step = <A>(act: () => Promise<A>) => Effect.promise(act)

/** A job's pod counts as lost only some time after the job started. */
const lostAfter = 40_000

const cause = "smtp.example.com refused the connection"

const attention = (page: Page) => page.getByRole("region", { name: "Needs attention" })

/** Opens the overview again, follows the one link with this text, and returns what the page then shows. */
const follow = (page: Page, text: RegExp, timeout = 15_000) =>
  step(async () => {
    await page.evaluate("location.hash = '#/overview'")
    const link = attention(page).getByRole("link", { name: text })
    await link.waitFor({ timeout })
    await link.click()
    await page.getByRole("heading", { level: 1 }).getByText("Overview").waitFor({ state: "detached" })
  })

layer(Layer.merge(Browser.layer, ControlRoom.layer), { excludeTestServices: true, timeout: "60 seconds" })(
  "an operator at night",
  (it) => {
    it.scoped(
      "finds a failing kind, a kind that retries, a paused queue and a stuck pod, each with one click",
      () =>
        Effect.gen(function* () {
          const { api, database, enqueue, enter } = yield* ControlRoom
          const many = (count: number, job: Readonly<Record<string, unknown>>) =>
            Effect.forEach(Array.from({ length: count }), () => enqueue(job), { concurrency: 4 })

          const pod = yield* Nightshift.start(["serve", "--port", "0"], {
            cwd: yield* Nightshift.folder,
            env: { DATABASE_URL: database, NIGHTSHIFT_ADMIN_TOKEN: "night", NIGHTSHIFT_QUEUES: "video" }
          })
          yield* Effect.orDie(pod.said(/"url":"(http:[^"]+)"/))
          yield* enqueue({ queue: "video", payload: { sleep_ms: 600_000 } })
          const page = yield* enter("jobs?queue=video&state=running")
          yield* step(() => page.getByRole("row", { name: /noop_echo/ }).waitFor())
          yield* api("PATCH", "queues/imports", { paused: true })
          yield* many(3, { queue: "imports" })
          yield* many(12, { payload: { fail: cause }, attempts: 1 })
          yield* many(12, { payload: { fail: "the bank is closed" }, attempts: 20 })

          yield* follow(page, /12 noop_echo jobs died/)
          yield* step(() =>
            page
              .getByRole("row", { name: new RegExp(`dead noop_echo.*${cause}`) })
              .first()
              .waitFor()
          )

          yield* follow(page, /12 noop_echo jobs failed and are waiting for a retry.*the bank is closed/, lostAfter)
          yield* step(() =>
            page
              .getByRole("row", { name: /retrying noop_echo.*the bank is closed/ })
              .first()
              .waitFor()
          )

          yield* pod.signal("SIGSTOP")
          yield* follow(page, /Queue imports is paused: 3 jobs due/)
          yield* step(async () => {
            await page.getByText(/Paused .* by api:admin\. No reason was given\./).waitFor()
            await page.getByRole("button", { name: "Resume" }).waitFor()
          })

          yield* follow(page, /Process \S+ sends no heartbeat, and 1 job runs in it/, lostAfter)
          yield* step(async () => {
            await page.getByText("This process sends no heartbeat").waitFor()
            await page.getByRole("link", { name: "noop_echo" }).waitFor()
          })
          expect(page.url()).toContain("#/pods/")
        }),
      180_000
    )
  }
)
