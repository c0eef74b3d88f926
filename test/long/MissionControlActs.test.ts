import { expect, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { ControlRoom } from "../journeys/fixtures/ControlRoom.js"
import { button, drawer, inAnHour, jobOf, openActions, said, state, step } from "../journeys/fixtures/OperatorSteps.js"
import { Browser } from "../support/Browser.js"

// What operators did, and how they act on an incident.

layer(Layer.merge(Browser.layer, ControlRoom.layer), { excludeTestServices: true, timeout: "60 seconds" })(
  "at Mission Control an operator who acts",
  (it) => {
    it.scoped("finds recent actions of everybody in a drawer and undoes one, announced once", () =>
      Effect.gen(function* () {
        const { api, enqueue, enter } = yield* ControlRoom
        const id = yield* enqueue({ kind: "postcard", queue: "attic", runAt: inAnHour() })
        const before = yield* jobOf(id)
        yield* api("PATCH", "queues/imports", { paused: true })
        const page = yield* enter(`jobs/${id}`)
        yield* step(async () => {
          await state(page, "scheduled")
          await button(page, "Cancel").click()
          await state(page, "cancelled")
          const toast = page.locator(".toast")
          await toast.getByText("postcard cancelled", { exact: true }).waitFor()
          expect(await toast.getByRole("button", { name: "Undo" }).count()).toBe(0)
          // The announcement leads to the list, which stays when the announcement is gone.
          await toast.getByRole("button", { name: "Recent actions" }).click()
          await toast.waitFor({ state: "detached" })
          const rows = drawer(page).getByRole("listitem")
          await rows.first().getByText("postcard cancelled").waitFor()
          expect(await rows.first().innerText()).toMatch(/ui:admin, .* ago[\s\S]*59 min left|1 h left/)
          expect(await rows.nth(1).innerText()).toMatch(/queue imports paused[\s\S]*api:admin/)
          await drawer(page).getByRole("button", { name: "Undo: postcard cancelled" }).click()
          await said(page, "Undone: postcard cancelled")
          await rows.first().getByText("undone").waitFor()
          await state(page, "scheduled")
          expect(await page.locator(".toast").count()).toBe(1)
          expect(await drawer(page).getByRole("button", { name: "Undo: postcard cancelled" }).count()).toBe(0)
        })
        expect(yield* jobOf(id)).toEqual(before)
        yield* step(async () => {
          await page.keyboard.press("Escape")
          await drawer(page).waitFor({ state: "detached" })
          await page.evaluate(`location.hash = "#/audit"`)
          const recent = page.getByRole("region", { name: "Recent actions" })
          await recent.getByRole("button", { name: "Undo: queue imports paused" }).click()
          await said(page, "Undone: queue imports paused")
          await recent.getByText("queue imports resumed").waitFor()
        })
        const guest = yield* enter("overview", "viewer")
        yield* step(async () => {
          await openActions(guest)
          await drawer(guest).getByText("queue imports resumed").waitFor()
          expect(await drawer(guest).getByRole("button", { name: /^Undo/ }).count()).toBe(0)
        })
      })
    )
  }
)
