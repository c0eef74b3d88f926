import { expect, type Vitest } from "@effect/vitest"
import { Effect } from "effect"
import type { Page } from "playwright-core"
import { ControlRoom } from "../journeys/fixtures/ControlRoom.js"
import { undo } from "../journeys/fixtures/OperatorSteps.js"
import type { Browser } from "../support/Browser.js"

// Journeys on the job lists. They run in the caller's control room.

const step = <A>(act: () => Promise<A>) => Effect.promise(act)
const inAnHour = () => new Date(Date.now() + 3_600_000).toISOString()

const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true })
const said = (page: Page, text: string) => page.getByRole("status").getByText(text).waitFor()
const heading = (page: Page, name: string) => page.getByRole("heading", { name, exact: true }).waitFor()
/** The number beside the heading. */
const counted = (page: Page, count: string) => page.locator(".head .chip").getByText(count, { exact: true }).waitFor()
const view = (page: Page, name: string) =>
  page.getByRole("navigation", { name: "Saved views" }).getByRole("link", { name, exact: true })
const chip = (page: Page, words: string) => button(page, `Remove ${words}`)

/** Fills in a field and commits it with Enter. */
const give = async (page: Page, label: string, text: string) => {
  await page.getByLabel(label).fill(text)
  await page.keyboard.press("Enter")
}

const nameIt = async (page: Page, title: string, name: string) => {
  const dialog = page.getByRole("dialog", { name: title })
  await dialog.getByRole("textbox").fill(name)
  await dialog.getByRole("button", { name: "Save" }).click()
}

const actsOn = (page: Page) => page.locator(".head .side button")

/** The order in which the rows show these words. */
const orderOf = async (page: Page, words: ReadonlyArray<string>) => {
  const rows = await page.locator("table.jobs tbody tr").allInnerTexts()
  return rows.flatMap((row) => words.filter((word) => row.includes(word))).join(" ")
}

/** Waits until the rows show these words in this order. */
const ordered = async (page: Page, words: string) => {
  for (let tries = 0; tries < 200 && (await orderOf(page, words.split(" "))) !== words; tries += 1)
    await page.waitForTimeout(20)
  expect(await orderOf(page, words.split(" "))).toBe(words)
}

export const jobListStories = (it: Vitest.MethodsNonLive<ControlRoom | Browser, true>): void => {
  it.scoped("lists scheduled jobs by due time, sorts by a column, and remembers columns", () =>
    Effect.gen(function* () {
      const { bury, enqueue, enter } = yield* ControlRoom
      yield* bury("crow-d")
      const inHours = (hours: number) => new Date(Date.now() + hours * 3_600_000).toISOString()
      for (const [kind, hours] of [
        ["crow-b", 3],
        ["crow-c", 1],
        ["crow-a", 2]
      ] as const)
        yield* enqueue({ kind, queue: "nest", payload: {}, runAt: inHours(hours) })
      const page = yield* enter("scheduled?queue=nest")
      yield* step(async () => {
        await ordered(page, "crow-c crow-a crow-b")
        await page.getByRole("columnheader", { name: "Due" }).and(page.locator("[aria-sort=ascending]")).waitFor()
        await button(page, "Kind").click()
        await ordered(page, "crow-a crow-b crow-c")
        await button(page, "Kind").click()
        await ordered(page, "crow-c crow-b crow-a")
        // The address holds the order, and Back undoes it.
        await page.reload()
        await ordered(page, "crow-c crow-b crow-a")
        await page.goBack()
        await ordered(page, "crow-a crow-b crow-c")
        await page.getByText("Columns", { exact: true }).click()
        await page.getByRole("checkbox", { name: "Priority" }).check()
        await page.reload()
        await page.getByRole("columnheader", { name: "Priority" }).waitFor()
        // Another list has its own columns.
        await page.getByRole("link", { name: "Dead", exact: true }).click()
        await heading(page, "Dead")
        await page.getByRole("columnheader", { name: "Ended" }).waitFor()
        expect(await page.getByRole("columnheader", { name: "Priority" }).count()).toBe(0)
      })
    })
  )

  it.scoped("saves filters under a name that everyone finds, and deletes it", () =>
    Effect.gen(function* () {
      const { api, enqueue, enter } = yield* ControlRoom
      for (const n of [1, 2])
        yield* enqueue({ kind: "flyer", queue: "attic", payload: { n, list: [n] }, runAt: inAnHour() })
      const hostile = `<img src=x onerror="document.title=1">&amp;`
      const page = yield* enter("scheduled")
      yield* step(async () => {
        await give(page, "Kind", "flyer")
        await give(page, "Payload contains", '{ "n": 2, "list": [] }')
        await counted(page, "1")
        await button(page, "Save view").click()
        await nameIt(page, "Save view", hostile)
        await said(page, "saved")
        await page.reload()
        await view(page, hostile).and(page.locator("[aria-current=page]")).waitFor()
        await page.getByRole("link", { name: "Dead", exact: true }).click()
        await heading(page, "Dead")
        await view(page, hostile).click()
        await heading(page, "Scheduled")
        await counted(page, "1")
        await button(page, "Rename view").click()
        await nameIt(page, "Rename view", "second flyers")
        await view(page, "second flyers").waitFor()
      })
      expect(yield* step(() => page.title())).toMatch(/Mission Control$/)

      const guest = yield* enter("jobs", "viewer")
      yield* step(async () => {
        await view(guest, "second flyers").click()
        await heading(guest, "Scheduled")
        await counted(guest, "1")
      })
      const offered = yield* step(() => guest.getByRole("button", { name: /view$/ }).count())
      expect(offered).toBe(0)

      yield* step(async () => {
        // An existing name is assigned to other filters.
        await chip(page, 'payload contains {"list":[],"n":2}').click()
        await counted(page, "2")
        await button(page, "Save view").click()
        await page.getByRole("dialog").getByRole("textbox").fill("second flyers")
        await page.getByRole("dialog").getByText("It will be replaced.").waitFor()
        await page.keyboard.press("Enter")
        await button(page, "Delete view").click()
        await said(page, "View second flyers deleted")
        await view(page, "second flyers").waitFor({ state: "detached" })
        await undo(page)
        await view(page, "second flyers").waitFor()
      })
      const { views } = yield* api<{ views: ReadonlyArray<{ id: string }> }>("GET", "views")
      expect(views).toMatchObject([{ name: "second flyers", page: "scheduled", filter: { kind: "flyer" } }])
      yield* Effect.forEach(views, ({ id }) => api("DELETE", `views/${id}`))
    })
  )

  it.scoped("sets every filter on the page, and removes each again", () =>
    Effect.gen(function* () {
      const { api, enqueue, enter } = yield* ControlRoom
      const dedupe = { key: "leaflet-1", scope: "retained" }
      const first = yield* enqueue({ kind: "leaf, let", queue: "attic", dedupe })
      yield* api("POST", `jobs/${first}/cancel`)
      yield* enqueue({ kind: "leaf, let", queue: "cellar", runAt: inAnHour() })
      const page = yield* enter("jobs")
      yield* step(async () => {
        await give(page, "Kind", "leaf, let")
        await counted(page, "2")
        await give(page, "Queue", "attic")
        await counted(page, "1")
        await give(page, "Queue", "cellar")
        await counted(page, "2")
        await button(page, "cancelled").click()
        await counted(page, "1")
        await button(page, "scheduled").click()
        await counted(page, "2")
        await button(page, "More filters").click()
        await button(page, "poison").click()
        await counted(page, "0")
        await chip(page, "dead reason poison").click()
        await counted(page, "2")
        await give(page, "Exact dedupe key", "leaflet-1")
        await page.getByLabel("Enqueued").selectOption("Last 1 h")
      })
      const query = () => new URLSearchParams(page.url().split("?")[1])
      yield* step(() => page.waitForURL(/within=1h/))
      expect(Object.fromEntries([...new Set(query().keys())].map((name) => [name, query().getAll(name)]))).toEqual({
        kind: ["leaf, let"],
        queue: ["attic", "cellar"],
        state: ["cancelled", "scheduled"],
        dedupe: ["leaflet-1"],
        within: ["1h"]
      })
      yield* step(async () => {
        await counted(page, "1")
        await page.getByLabel("Before").fill("2020-01-31T17:30")
        await counted(page, "0")
        await page.waitForURL(/until=20\d\d-\d\d-\d\dT\d\d%3A\d\d%3A00.000Z/)
      })
      // A span and two instants would contradict each other.
      expect(query().has("within")).toBe(false)
      yield* step(async () => {
        await page
          .getByRole("button", { name: /^Remove enqueued before 31 Jan 2020, 17:30|Jan 31, 2020, 17:30/ })
          .click()
        await counted(page, "1")
        for (const words of ["dedupe key leaflet-1", "queue cellar"]) {
          await chip(page, words).click()
          await chip(page, words).waitFor({ state: "detached" })
        }
        await counted(page, "1")
        await button(page, "Clear all").click()
        await page.getByRole("group", { name: "Active filters" }).waitFor({ state: "detached" })
      })
      expect(page.url()).not.toContain("?")
    })
  )

  it.scoped("is offered the possible actions for the jobs of a list, and no more", () =>
    Effect.gen(function* () {
      const { bury, enqueue, enter } = yield* ControlRoom
      yield* enqueue({ kind: "brochure", queue: "attic" })
      const id = yield* bury("brochure")
      const page = yield* enter("dead?kind=brochure")
      yield* step(async () => {
        await counted(page, "1")
        await page.keyboard.press("c")
        await said(page, "Cancel applies only to scheduled, retrying, pending, running jobs.")
      })
      expect(yield* step(() => actsOn(page).allInnerTexts())).toEqual(["Requeue", "Delete"])
      yield* step(async () => {
        await page.getByRole("link", { name: "Scheduled", exact: true }).click()
        await heading(page, "Scheduled")
      })
      expect(yield* step(() => actsOn(page).allInnerTexts())).toEqual(["Cancel", "Run now", "Delete"])
      yield* step(async () => {
        await page.getByRole("link", { name: "All jobs", exact: true }).click()
        await page.getByText("Select jobs or set a filter").waitFor()
      })
      const usable = () => page.locator(".head .side button:enabled").allInnerTexts()
      expect(yield* step(usable)).toEqual([])
      yield* step(async () => {
        await give(page, "Kind", "brochure")
        await page.getByText("All matching jobs:").waitFor()
        await counted(page, "2")
      })
      expect(yield* step(usable)).toEqual(["Requeue", "Cancel", "Run now", "Delete"])
      yield* step(async () => {
        await page.getByLabel(`Select job ${id}`).check()
        await page.getByText("1 selected").waitFor()
      })
      expect(yield* step(usable)).toEqual(["Requeue", "Delete"])
      yield* step(async () => {
        await page.getByLabel(`Select job ${id}`).uncheck()
        await button(page, "running").click()
        await counted(page, "0")
      })
      expect(yield* step(usable)).toEqual(["Cancel"])
    })
  )
}
