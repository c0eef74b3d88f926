import { expect, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { type Count, exact } from "../../src/core/Count.js"
import { ControlRoom } from "../journeys/fixtures/ControlRoom.js"
import {
  button,
  exhausted,
  inAnHour,
  jobOf,
  said,
  state,
  step,
  undo,
  until
} from "../journeys/fixtures/OperatorSteps.js"
import { Browser } from "../support/Browser.js"

// Acts on one job and on many, lists that change and a service that is gone.

layer(Layer.merge(Browser.layer, ControlRoom.layer), { excludeTestServices: true, timeout: "3 minutes" })(
  "at Mission Control an operator in a hurry",
  (it) => {
    it.scoped("processes dead jobs with the keyboard alone", () =>
      Effect.gen(function* () {
        const { api, bury, enqueue, enter } = yield* ControlRoom
        const ids = yield* Effect.forEach([1, 2, 3], (n) =>
          enqueue({ kind: "letter", queue: "attic", payload: { n }, runAt: inAnHour() })
        )
        const [oldest = "", , newest = ""] = ids
        const page = yield* enter("overview")
        const press = async (...keys: ReadonlyArray<string>) => {
          for (const key of keys) await page.keyboard.press(key)
        }
        const confirm = async (text: string) => {
          await page.getByRole("dialog").getByText(text).waitFor()
          await press("Enter")
        }
        yield* step(async () => {
          await press("?")
          await page.getByRole("dialog", { name: "Keyboard shortcuts" }).getByText("show shortcuts").waitFor()
          await press("Escape")
          await press("g", "j")
          await page.getByRole("heading", { name: "Jobs" }).waitFor()
          await page.getByLabel("Kind").fill("letter")
          await press("Enter", "Escape")
          await page.getByText("3", { exact: true }).and(page.locator(".chip")).waitFor()
          // The newest is first: it and the oldest are selected and cancelled.
          await press("x", "j", "j", "x")
          await page.getByText("2 selected").waitFor()
          await press("c")
          await confirm("Cancel 2 jobs?")
          await said(page, "2 jobs cancelled")
        })
        const stateOf = (id: string) => Effect.map(api<{ state: string }>("GET", `jobs/${id}`), ({ state }) => state)
        expect([yield* stateOf(newest), yield* stateOf(oldest)]).toEqual(["cancelled", "cancelled"])
        const dead = yield* bury("letter")
        yield* step(async () => {
          await press("g", "d")
          await page.getByRole("heading", { name: "Dead" }).waitFor()
          await press("/")
          await page.locator("[data-search]:focus").waitFor()
          await press("Escape")
          await page.locator("tbody tr.cursor").waitFor()
          await press("j", "k", "r")
          await confirm("Requeue 1 job?")
          await said(page, "1 job requeued")
        })
        expect(yield* stateOf(dead)).not.toBe("dead")
      })
    )

    it.scoped("cancels many jobs, which do not count as dead, and undoes all of it", () =>
      Effect.gen(function* () {
        const { api, enqueue, enter } = yield* ControlRoom
        const ids = yield* Effect.forEach([1, 2, 3], () =>
          enqueue({ kind: "flyer", queue: "cellar", runAt: inAnHour() })
        )
        const before = yield* Effect.forEach(ids, jobOf)
        yield* exhausted("boom 18")
        const page = yield* enter("scheduled?kind=flyer")
        type Counted = { readonly name: string; readonly counts: Readonly<Record<string, Count>> }
        const counts = Effect.map(
          api<{ queues: ReadonlyArray<Counted> }>("GET", "queues"),
          ({ queues }) => queues.find(({ name }) => name === "cellar")?.counts
        )
        yield* step(async () => {
          await button(page, "Cancel").click()
          const dialog = page.getByRole("dialog", { name: "Cancel 3 jobs?" })
          await dialog.getByText("Can be undone for an hour.").waitFor()
          await dialog.getByRole("button", { name: "Cancel 3 jobs" }).click()
          await said(page, "3 jobs cancelled")
          await page.getByText("No jobs match this filter.").waitFor()
        })
        // Counts are kept for a second.
        const counted = yield* until(counts, (now) => now?.scheduled?.value === 0)
        expect(counted).toMatchObject({ scheduled: exact(0), dead: exact(0), cancelled: exact(3) })
        const { groups } = yield* api<{ groups: ReadonlyArray<{ kind: string }> }>("GET", "jobs/groups")
        expect(groups.map(({ kind }) => kind)).not.toContain("flyer")
        const offered = yield* step(async () => {
          await undo(page)
          await said(page, "3 jobs restored")
          await page.locator(".head .chip").getByText("3", { exact: true }).waitFor()
          await page.evaluate(`location.hash = "#/jobs?kind=flyer&state=cancelled"`)
          await page.getByText("No jobs match this filter.").waitFor()
          return page.getByRole("button", { name: "cancelled" }).and(page.locator("[aria-pressed=true]")).count()
        })
        expect(offered).toBe(1)
        expect(yield* Effect.forEach(ids, jobOf)).toEqual(before)
        // One count, wherever it is shown: the group of dead jobs, its list and its dialog.
        yield* step(async () => {
          await page.evaluate(`location.hash = "#/dead"`)
          const row = page.getByRole("row").filter({ hasText: "boom #" }).first()
          const count = (await row.getByRole("link").first().innerText()).replace(/\D+/g, "")
          await row.getByRole("button", { name: "Requeue all" }).click()
          const jobs = count === "1" ? "1 job" : `${count} jobs`
          await page
            .getByRole("dialog", { name: `Requeue ${jobs}?` })
            .getByText(/^Requeue/)
            .first()
            .waitFor()
          await page.keyboard.press("Escape")
        })
      })
    )

    it.scoped("acts on the job under the cursor though the list changes, and sees new jobs when asked", () =>
      Effect.gen(function* () {
        const { enqueue, enter } = yield* ControlRoom
        const put = (n: number) => enqueue({ kind: "card", queue: "attic", payload: { n }, runAt: inAnHour() })
        yield* put(1)
        const aimed = yield* put(2)
        const page = yield* enter("jobs?kind=card&state=scheduled")
        const first = page.locator("tbody tr").first()
        yield* step(() => first.getByText('{"n":2}').waitFor())
        const place = () => first.boundingBox()
        const stood = yield* step(place)
        yield* put(3)
        yield* step(() => button(page, "1 new").waitFor())
        expect(yield* step(place)).toEqual(stood)
        yield* step(async () => {
          await first.getByText('{"n":2}').waitFor()
          await button(page, "1 new").click()
          await first.getByText('{"n":3}').waitFor()
          // The cursor went down with its job.
          await page.locator("tbody tr.cursor").getByText('{"n":2}').waitFor()
          await page.keyboard.press("c")
          await page.getByRole("dialog", { name: "Cancel 1 job?" }).getByText(aimed).waitFor()
          await page.keyboard.press("Escape")
          await page.getByLabel("Select all jobs on this page").check()
          await page.getByText("3 selected").waitFor()
          await page.getByLabel("Select all jobs on this page").uncheck()
          // Back undoes a filter.
          await page.getByRole("button", { name: "Remove state scheduled" }).click()
          await page.getByRole("button", { name: "Remove state scheduled" }).waitFor({ state: "detached" })
          await page.goBack()
          await page.getByRole("button", { name: "Remove state scheduled" }).waitFor()
        })
      })
    )

    it.scoped("sees once that the service is gone, and can do nothing until it is back", () =>
      Effect.gen(function* () {
        const { enqueue, enter } = yield* ControlRoom
        const id = yield* enqueue({ kind: "parcel", queue: "attic", runAt: inAnHour() })
        const page = yield* enter(`jobs/${id}`)
        yield* step(async () => {
          await state(page, "scheduled")
          await page.route("**/api/**", (route) => route.abort())
        })
        // The next event makes the page send a request, which gets no response.
        yield* enqueue({ kind: "parcel", queue: "attic", runAt: inAnHour() })
        yield* step(async () => {
          await page.getByText("Disconnected.", { exact: true }).waitFor()
          await page.evaluate(`location.hash = "#/overview"`)
          await page.getByText("Disconnected: incidents are unknown").waitFor()
        })
        expect(yield* step(() => page.getByRole("alert").count())).toBe(1)
        expect(yield* step(() => page.getByText("No incidents").count())).toBe(0)
        yield* step(async () => {
          await page.goBack()
          await page.getByText("Waiting for the service…").waitFor()
          await page.unroute("**/api/**")
          await state(page, "scheduled")
          await page.getByText("Disconnected.", { exact: true }).waitFor({ state: "detached" })
          await button(page, "Cancel").click()
          await state(page, "cancelled")
        })
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
            await undo(page)
            await said(page, "Undone: reminder cancelled")
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
          await said(page, "reminder deleted")
          await undo(page)
          await said(page, "Undone: reminder deleted")
          await page.evaluate(`location.hash = "#/jobs/${id}"`)
          await page.getByRole("heading", { name: "reminder" }).waitFor()
        })
        expect(yield* jobOf(id)).toEqual(before)

        // A requeue that is undone leaves the job in its error group, with its attempts used up.
        const dead = yield* exhausted("boom 17")
        yield* step(async () => {
          await page.evaluate(`location.hash = "#/queues/default"`)
          const card = page.getByRole("region", { name: "default" })
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
          await undo(page)
          await state(page, "dead")
        })
        expect(yield* jobOf(dead)).toEqual(failed)
        yield* step(async () => {
          await page.evaluate(`location.hash = "#/queues/default"`)
          const card = page.getByRole("region", { name: "default" })
          // A page that has just changed ignores clicks for half a second.
          const resume = card.getByRole("button", { name: "Resume" })
          const resumed = page.getByRole("status").getByText("default resumed", { exact: true })
          await resume.waitFor()
          await expect
            .poll(async () => (await resume.isVisible()) && (await resume.click()), {
              interval: 1_000,
              timeout: 15_000
            })
            .toBe(false)
          await resumed.first().waitFor()
          await undo(page)
          await card.getByRole("button", { name: "Resume" }).waitFor()
          await said(page, "Undone: queue default resumed")
        })
        yield* api("PATCH", "queues/default", { paused: false })
      })
    )

    it.scoped("sees that a queue was paused again before the page got an event", () =>
      Effect.gen(function* () {
        const { api, enter } = yield* ControlRoom
        yield* api("PATCH", "queues/attic", { paused: true })
        const page = yield* enter("queues/attic")
        const resume = page.getByRole("region", { name: "attic" }).getByRole("button", { name: "Resume" })
        let resumed = 0
        page.on("response", (response) => {
          if (response.request().method() === "PATCH") resumed += 1
        })
        yield* step(async () => {
          await resume.waitFor()
          // A page that has just changed ignores clicks for half a second.
          const click = async () => {
            if (resumed === 0 && (await resume.isVisible())) await resume.click()
            return resumed
          }
          await expect.poll(click, { interval: 600, timeout: 15_000 }).toBe(1)
        })
        yield* api("PATCH", "queues/attic", { paused: true })
        yield* step(() => resume.waitFor())
      })
    )
  }
)
