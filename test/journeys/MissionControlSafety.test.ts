import { expect, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { Browser } from "../support/Browser.js"
import { ControlRoom, tokens } from "./fixtures/ControlRoom.js"
import { button, step } from "./fixtures/OperatorSteps.js"
import { sidewaysOf } from "./fixtures/PageChecks.js"

// Login and every page. Other journeys are in test/long/MissionControl*.

layer(Layer.merge(Browser.layer, ControlRoom.layer), { excludeTestServices: true, timeout: "3 minutes" })(
  "at Mission Control an operator in a hurry",
  (it) => {
    it.scoped("logs in with a token, not with a wrong one, and out again", () =>
      Effect.gen(function* () {
        const { url } = yield* ControlRoom
        const page = yield* Browser.page()
        yield* step(async () => {
          await page.goto(url)
          await page.getByLabel("Token").fill("wrong")
          await button(page, "Log in").click()
          await page.getByText("Wrong token").waitFor()
          await page.getByLabel("Token").fill(tokens.admin)
          await button(page, "Log in").click()
          await page.getByRole("heading", { name: "Overview" }).waitFor()
          await page.reload()
          await page.getByRole("heading", { name: "Overview" }).waitFor()
          await button(page, "Log out").click()
          await page.getByLabel("Token").waitFor()
          await page.reload()
          await page.getByLabel("Token").waitFor()
        })
        const status = yield* step(async () => (await page.request.get(`${url}/api/v1/jobs`)).status())
        expect(status).toBe(401)
      })
    )

    it.scoped("opens every page without an error", () =>
      Effect.gen(function* () {
        const { api, bury, enqueue, enter } = yield* ControlRoom
        const dead = yield* bury("leftover")
        yield* enqueue()
        const { pods } = yield* api<{ pods: ReadonlyArray<{ id: string }> }>("GET", "pods")
        const page = yield* enter("overview")
        const problems: Array<string> = []
        page.on("pageerror", ({ message }) => problems.push(message))
        page.on("response", (response) => response.status() >= 400 && problems.push(response.url()))
        const opened = (name: string) =>
          step(async () => {
            await page.getByRole("heading", { name, level: 1, exact: true }).waitFor()
            await page.getByText("Loading…").first().waitFor({ state: "detached" })
            return { name, sideways: await sidewaysOf(page), alerts: await page.getByRole("alert").count() }
          })
        const menu = page.getByRole("navigation", { name: "Pages" }).locator('a.place[href^="#"]')
        const names = yield* step(() => menu.allInnerTexts())
        expect(names.length).toBeGreaterThan(10)
        for (const link of names) {
          yield* step(() => menu.getByText(link, { exact: true }).click())
          const name = link === "All jobs" ? "Jobs" : link
          expect(yield* opened(name)).toEqual({ name, sideways: 0, alerts: 0 })
        }
        for (const [place, name] of [
          [`jobs/${dead}`, "leftover"],
          ["queues/default", "default"],
          ["kinds/noop_echo", "noop_echo"],
          [`pods/${pods[0]?.id}`, "Process"],
          ["nowhere", "Page not found"]
        ] as const) {
          yield* step(() => page.evaluate(`location.hash = "#/${place}"`))
          expect(yield* opened(name)).toEqual({ name, sideways: 0, alerts: 0 })
        }
        expect(problems).toEqual([])
      })
    )
  }
)
