import { expect, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { Browser } from "../support/Browser.js"
import { ControlRoom, queueRow, tokens } from "./fixtures/ControlRoom.js"
import { button, exhausted, inAnHour, jobOf, said, state, step, undo } from "./fixtures/OperatorSteps.js"
import { sidewaysOf } from "./fixtures/PageChecks.js"

// Login, every page, and the undo of acts on one job. Other journeys are in test/long/MissionControl*.

layer(Layer.merge(Browser.layer, ControlRoom.layer), { excludeTestServices: true, timeout: "60 seconds" })(
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
          [`pods/${pods[0]?.id}`, "Pod"],
          ["nowhere", "Page not found"]
        ] as const) {
          yield* step(() => page.evaluate(`location.hash = "#/${place}"`))
          expect(yield* opened(name)).toEqual({ name, sideways: 0, alerts: 0 })
        }
        expect(problems).toEqual([])
      })
    )

    it.scoped("undoes acts on one job exactly, and a double click does only the first", () =>
      Effect.gen(function* () {
        const { api, enqueue, enter } = yield* ControlRoom
        const id = yield* enqueue({ kind: "reminder", queue: "attic", runAt: inAnHour() })
        const before = yield* jobOf(id)
        const page = yield* enter(`jobs/${id}`)
        for (const delay of [120, 300]) {
          yield* step(async () => {
            // A page that has just changed ignores clicks for half a second.
            await page.reload()
            await state(page, "scheduled")
            const box = await button(page, "Cancel").boundingBox()
            if (box === null) throw new Error("Cancel is not shown.")
            await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2)
            await page.mouse.down()
            await page.mouse.up()
            await page.waitForTimeout(delay)
            await page.mouse.down()
            await page.mouse.up()
            await state(page, "cancelled")
          })
          expect(yield* jobOf(id)).toMatchObject({ state: "cancelled", runAt: before.runAt })
          yield* step(async () => {
            await undo(page).click()
            await said(page, "reminder restored")
            await state(page, "scheduled")
          })
          expect(yield* jobOf(id)).toEqual(before)
        }

        yield* step(() => page.reload())
        // Delete asks first, and gives back what it took.
        yield* step(async () => {
          await button(page, "Delete").click()
          const dialog = page.getByRole("dialog")
          await dialog.getByText("Can be undone for an hour.").waitFor()
          await dialog.getByRole("button", { name: "Close" }).click()
        })
        expect(yield* jobOf(id)).toEqual(before)
        yield* step(async () => {
          await button(page, "Delete").click()
          await page.getByRole("dialog").getByRole("button", { name: "Delete job" }).click()
          await undo(page).click()
          await page.getByRole("heading", { name: "reminder" }).waitFor()
        })
        expect(yield* jobOf(id)).toEqual(before)

        // A requeue that is undone leaves the job in its error group, with its attempts used up.
        const dead = yield* exhausted("boom 17")
        yield* step(async () => {
          await page.evaluate(`location.hash = "#/queues"`)
          const card = queueRow(page, "default")
          // Pause, so that the requeued job stays as the act left it; its button does not answer a double click.
          await card.getByRole("button", { name: "Pause" }).dblclick()
          await card.getByRole("button", { name: "Resume" }).waitFor()
          await said(page, "default paused")
        })
        const failed = yield* jobOf(dead)
        yield* step(async () => {
          await page.evaluate(`location.hash = "#/jobs/${dead}"`)
          await state(page, "dead")
          await button(page, "Requeue").click()
          await state(page, "pending")
          await undo(page).click()
          await state(page, "dead")
        })
        expect(yield* jobOf(dead)).toEqual(failed)
        yield* step(async () => {
          await page.evaluate(`location.hash = "#/queues"`)
          const card = queueRow(page, "default")
          await card.getByRole("button", { name: "Resume" }).click()
          await undo(page).click()
          await card.getByRole("button", { name: "Resume" }).waitFor()
          await said(page, "default restored")
        })
        yield* api("PATCH", "queues/default", { paused: false })
      })
    )
  }
)
