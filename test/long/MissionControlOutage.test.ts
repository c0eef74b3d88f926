import { expect, layer } from "@effect/vitest"
import { Effect } from "effect"
import { button, said, state, step } from "../journeys/fixtures/OperatorSteps.js"
import { Browser } from "../support/Browser.js"
import * as Nightshift from "../support/Nightshift.js"
import * as RestartableServer from "./RestartableServer.js"

// A service that is frozen, and one whose database is stopped.

const headers = { authorization: "Bearer sesame", "content-type": "application/json" }

const service = Effect.gen(function* () {
  const cwd = yield* Nightshift.folder
  const database = yield* RestartableServer.make(cwd)
  const running = yield* Nightshift.start(["serve", "--port", "0"], {
    cwd,
    env: { DATABASE_URL: database.url, NIGHTSHIFT_ADMIN_TOKEN: "sesame", SHUTDOWN_GRACE: "1s" }
  })
  const [, url = ""] = yield* Effect.orDie(running.said(/"url":"(http:[^"]+)"/))
  const api = <A>(path: string, body?: unknown) =>
    step(async () => {
      const sent = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) }
      return (await (await fetch(`${url}/api/v1/${path}`, sent)).json()) as A
    })
  const job = { kind: "noop_echo", payload: {}, runAt: "2126-01-31T09:00:00Z" }
  const { jobs } = yield* api<{ jobs: ReadonlyArray<{ id: string }> }>("jobs", { jobs: [job] })
  const id = jobs[0]?.id ?? ""
  const stateOf = Effect.map(api<{ state: string }>(`jobs/${id}`), ({ state }) => state)
  const page = yield* Browser.page()
  yield* step(async () => {
    await page.request.post(`${url}/api/v1/session`, { data: { token: "sesame" } })
    await page.goto(`${url}/ui/#/jobs/${id}`)
    await state(page, "scheduled")
  })
  return { database, page, running, stateOf, url }
})

layer(Browser.layer, { excludeTestServices: true, timeout: "3 minutes" })("Mission Control", (it) => {
  it.scoped("says that a frozen service gives no answer, and what was clicked then does not run later", () =>
    Effect.gen(function* () {
      const { page, running, stateOf } = yield* service
      yield* step(() => page.getByRole("button", { name: "Live" }).waitFor())
      yield* running.signal("SIGSTOP")
      yield* step(async () => {
        await button(page, "Cancel").click()
        await said(
          page,
          "No answer within 10 s. The service does not carry out the action any more; check whether it did before you repeat it."
        )
        await page.getByText(/^No answer for 1\d s\.$/).waitFor()
      })
      expect(yield* step(() => button(page, "Cancel").isDisabled())).toBe(true)
      expect(yield* step(() => page.getByRole("alert").count())).toBe(1)
      expect(yield* step(() => page.getByRole("button", { name: "Live" }).count())).toBe(0)
      yield* running.signal("SIGCONT")
      yield* step(async () => {
        await page.getByRole("alert").waitFor({ state: "detached" })
        await page.getByRole("button", { name: "Live" }).waitFor()
        await state(page, "scheduled")
      })
      expect(yield* stateOf).toBe("scheduled")
      yield* step(async () => {
        await button(page, "Cancel").click()
        await state(page, "cancelled")
      })
    })
  )

  it.scoped("repeats a request that the server closed unread, without an error on the page", () =>
    Effect.gen(function* () {
      const { page } = yield* service
      // As Node responds on a connection that it did not read in time. Chromium does not let a test keep one waiting.
      let requests = 0
      yield* step(async () => {
        await page.route("**/api/v1/schedules*", (route) => {
          requests += 1
          return requests === 1 ? route.fulfill({ status: 408 }) : route.continue()
        })
        await page.evaluate(`location.hash = "#/schedules"`)
        await page.getByText("No schedules").waitFor()
      })
      expect(requests).toBeGreaterThan(1)
      expect(yield* step(() => page.getByRole("alert").count())).toBe(0)
    })
  )

  it.scoped("says that a page cannot be shown, and leads to another", () =>
    Effect.gen(function* () {
      const { page } = yield* service
      yield* step(async () => {
        await page.route("**/api/v1/schedules*", (route) => route.fulfill({ json: { schedules: null } }))
        await page.evaluate(`location.hash = "#/schedules"`)
        await page.getByRole("alert").getByText("This page cannot be shown: TypeError").waitFor()
        await page.getByRole("link", { name: "go to the overview" }).click()
        await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor()
        await page.unroute("**/api/v1/schedules*")
        await page.getByRole("link", { name: "Schedules", exact: true }).click()
        await page.getByRole("heading", { name: "Schedules", level: 1 }).waitFor()
      })
      expect(yield* step(() => page.getByText("This page cannot be shown").count())).toBe(0)
    })
  )
  it.scoped("says on each page, and in place of the login, that the database is down", () =>
    Effect.gen(function* () {
      const { database, page, url } = yield* service
      const sentence = "The service is up, its database is not."
      yield* database.stop
      yield* step(() => page.getByRole("alert").getByText(sentence).waitFor())
      for (const place of ["overview", "queues", "dead"]) {
        yield* step(async () => {
          await page.evaluate(`location.hash = "#/${place}"`)
          await page.getByRole("alert").getByText(sentence).waitFor()
        })
        expect(yield* step(() => page.getByRole("alert").count())).toBe(1)
      }
      const fresh = yield* Browser.page()
      yield* step(async () => {
        await fresh.goto(`${url}/ui/#/overview?token=sesame`)
        await fresh.getByRole("alert").getByText(sentence).waitFor()
      })
      expect(yield* step(() => fresh.getByLabel("Token").count())).toBe(0)
      yield* database.start
      yield* step(async () => {
        await page.getByRole("alert").waitFor({ state: "detached" })
        await page.getByText("No dead jobs.").waitFor()
        await fresh.getByRole("alert").waitFor({ state: "detached" })
      })
    })
  )
})
