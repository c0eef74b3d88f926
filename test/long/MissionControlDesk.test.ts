import { execFile } from "node:child_process"
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { expect, layer } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import type { Page } from "playwright-core"
import { ControlRoom, tokens } from "../journeys/fixtures/ControlRoom.js"
import * as Operator from "../journeys/fixtures/OperatorSteps.js"
import { findings, sidewaysOf } from "../journeys/fixtures/PageChecks.js"
import { Browser } from "../support/Browser.js"
import * as Nightshift from "../support/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"

// What surrounds the pages: the first steps, the command palette, the environment, times, the login, focus and print.

const { button, exhausted, inAnHour, query, said, state, step, undo, until } = Operator

const palette = (page: Page) => page.getByRole("dialog", { name: "Command palette" })

/** Opens the palette, types and waits for an entry. */
const found = async (page: Page, text: string, name: string | RegExp) => {
  if ((await palette(page).count()) === 0) await page.keyboard.press("Control+k")
  await palette(page).getByRole("combobox").fill(text)
  // The whole name: the search of all jobs has it too, and is there before the queues are loaded.
  const option = palette(page).getByRole("option", { name, exact: true }).first()
  await option.waitFor()
  return option
}

const heading = (page: Page, name: string) => page.getByRole("heading", { name, level: 1, exact: true }).waitFor()
const focused = (page: Page) =>
  step(() => page.evaluate<string>("document.activeElement.tagName + ' ' + document.activeElement.textContent"))
const scrolledTo = (page: Page, position: number) =>
  until(
    step(() => page.evaluate<number>("scrollY")),
    (now) => now === position
  )
const visit = (page: Page, place: string) => step(() => page.evaluate(`location.hash = "#/${place}"`))

layer(Layer.merge(Browser.layer, ControlRoom.layer), { excludeTestServices: true, timeout: "3 minutes" })(
  "Mission Control",
  (it) => {
    it.scoped("shows commands that work in an empty installation, and ticks off what has happened", () =>
      Effect.gen(function* () {
        const cwd = yield* Nightshift.folder
        const database = Redacted.value(yield* TestDatabase.migrated)
        const env = { DATABASE_URL: database, NIGHTSHIFT_ADMIN_TOKEN: tokens.admin, SHUTDOWN_GRACE: "1s" }
        // It runs no jobs: it would claim those of the worker below, whose kinds it does not know.
        const service = yield* Nightshift.start(["serve", "--queues", "none", "--port", "0"], { cwd, env })
        const [, url] = yield* Effect.orDie(service.said(/"url":"(http:[^"]+)"/))
        const page = yield* Browser.page()
        yield* step(() => page.goto(`${url}/ui/#/overview?token=${tokens.admin}`))
        const card = page.getByRole("region", { name: "Get started" })
        const isTicked = (name: string) => card.locator("li.ticked").getByText(name, { exact: true }).waitFor()
        const shown = (name: string, way: string) =>
          step(async () => {
            const item = card.getByRole("listitem").filter({ hasText: name })
            await item.getByRole("button", { name: way, exact: true }).click()
            return item.locator("pre").innerText()
          })
        yield* step(() => isTicked("Start the service"))
        expect(yield* step(() => card.locator("li.ticked").count())).toBe(1)
        expect(yield* findings(page)).toEqual([])

        // A project that has installed the package.
        mkdirSync(join(cwd, "node_modules"))
        symlinkSync(Nightshift.root, join(cwd, "node_modules", "nightshift"))
        symlinkSync(join(Nightshift.root, "node_modules", "zod"), join(cwd, "node_modules", "zod"))
        const worker = "Start a worker with your handlers"
        const command = yield* shown(worker, "In this service")
        expect(command).toMatch(/^npx nightshift /)
        writeFileSync(join(cwd, "jobs.ts"), yield* shown(worker, "jobs.ts"))
        yield* Nightshift.start([...command.split(" ").slice(2), "--port", "0"], { cwd, env })
        yield* step(() => isTicked(worker))

        const enqueue = "Enqueue a job"
        yield* step(() => card.locator("pre").getByText("greet").first().waitFor())
        expect(yield* shown(enqueue, "Command line")).toMatch(/^npx nightshift enqueue 'greet' --payload '\{"name":/)
        const program = join(cwd, "enqueue.mjs")
        writeFileSync(program, yield* shown(enqueue, "TypeScript"))
        const curl = yield* shown(enqueue, "curl")
        yield* step(async () => {
          await page.context().grantPermissions(["clipboard-read", "clipboard-write"])
          await card.getByRole("button", { name: "Copy curl" }).click()
          expect(await page.evaluate("navigator.clipboard.readText()")).toBe(curl)
        })
        const given = { cwd, env: { ...env, PATH: process.env.PATH, TOKEN: tokens.admin } }
        const { stdout } = yield* step(() => promisify(execFile)("bash", ["-c", curl], given))
        expect(JSON.parse(stdout)).toMatchObject({ outcome: "enqueued" })
        yield* step(async () => {
          await isTicked(enqueue)
          await isTicked("See the job done")
          await card.getByRole("heading", { name: "All set" }).waitFor()
        })
        const ran = yield* Nightshift.run([], { cwd, env, program })
        expect(ran).toMatchObject({ code: 0, stderr: "" })
        yield* step(() => page.getByRole("link", { name: "2 done" }).waitFor())
        yield* step(async () => {
          await button(page, "Hide").click()
          await page.reload()
          await page.getByRole("region", { name: "Queues" }).waitFor()
        })
        expect(yield* step(() => card.count())).toBe(0)
      })
    )

    it.scoped("finds pages, queues, kinds, processes, executions, jobs and actions with one key", () =>
      Effect.gen(function* () {
        const { api, enqueue, enter } = yield* ControlRoom
        const id = yield* enqueue({ queue: "attic", dedupe: { key: "invoice-B-4", scope: "retained" } })
        yield* api("POST", "workflows", { workflow: "order", key: "A-17", payload: {}, queue: "attic", force: true })
        const { pods } = yield* api<{ pods: ReadonlyArray<{ id: string }> }>("GET", "pods")
        const page = yield* enter("overview")
        yield* step(async () => {
          // The overview has no search box of its own.
          await page.keyboard.press("/")
          await palette(page).getByRole("combobox").waitFor()
        })
        expect(yield* focused(page)).toMatch(/^INPUT/)
        expect(yield* findings(page)).toEqual([])
        yield* step(async () => {
          await found(page, "sched", "Schedules")
          await page.keyboard.press("Enter")
          await heading(page, "Schedules")
          await (await found(page, "attic", "attic")).click()
          await heading(page, "attic")
          await (await found(page, "noop", /noop_echo/)).click()
          await heading(page, "noop_echo")
          await (await found(page, pods[0]?.id ?? "", new RegExp(pods[0]?.id ?? ""))).click()
          await heading(page, "Process")
          await (await found(page, "order/A-", /order\/A-17/)).click()
          await heading(page, "order/A-17")
          await (await found(page, id.slice(0, 20), new RegExp(id))).click()
          await heading(page, "noop_echo")
        })
        yield* visit(page, "audit")
        yield* step(async () => {
          await (await found(page, "invoice-B-4", new RegExp(id))).click()
          await heading(page, "noop_echo")
        })
        // An entry that matches less well is reached with the arrow keys, and the palette ends with Escape.
        yield* step(async () => {
          await found(page, "order.id=7", "Search all jobs for order.id=7")
          await page.keyboard.press("ArrowUp")
          await page.keyboard.press("Enter")
          await button(page, 'Remove payload contains {"order":{"id":7}}').waitFor()
          await page.keyboard.press("Control+k")
          await palette(page).waitFor()
          await page.keyboard.press("Escape")
          await palette(page).waitFor({ state: "detached" })
        })
        yield* step(async () => {
          await (await found(page, "pause attic", "Pause queue attic")).click()
          await said(page, "attic paused")
          await undo(page)
          await said(page, "Undone: queue attic paused")
        })
        yield* visit(page, `jobs/${id}`)
        yield* step(async () => {
          await heading(page, "noop_echo")
          await (await found(page, "cancel this", "Cancel this job")).click()
          await state(page, "cancelled")
          await (await found(page, "enqueue", "Enqueue a job")).click()
          await page.getByRole("dialog", { name: "Enqueue a job" }).waitFor()
          // A form is not covered.
          await page.keyboard.press("Control+k")
        })
        expect(yield* step(() => palette(page).count())).toBe(0)
      })
    )

    it.scoped("offers a viewer no actions that change something, and fits a phone", () =>
      Effect.gen(function* () {
        const { enter } = yield* ControlRoom
        const page = yield* enter("overview", "viewer", { colorScheme: "dark", viewport: { width: 390, height: 800 } })
        yield* step(async () => {
          await found(page, "theme", "Theme: light")
          await found(page, "pause", "Pause live updates")
        })
        const names = yield* step(() => palette(page).getByRole("option").allInnerTexts())
        expect(names.filter((name) => /queue|enqueue/i.test(name))).toEqual([])
        yield* step(() => found(page, "attic", "attic"))
        expect(yield* step(() => palette(page).getByRole("option", { name: "Pause" }).count())).toBe(0)
        expect(yield* step(() => sidewaysOf(page))).toBe(0)
        expect(yield* findings(page)).toEqual([])
      })
    )

    it.scoped("names the environment above the page, in dialogs and in the title", () =>
      Effect.gen(function* () {
        const { bury, enter } = yield* ControlRoom
        const id = yield* bury("leftover")
        const page = yield* enter(`jobs/${id}`)
        yield* step(async () => {
          await page.locator(".strip").getByText("production").waitFor()
          await button(page, "Delete").click()
          await page.getByRole("dialog", { name: "Delete leftover?" }).getByText("production").waitFor()
        })
        expect(yield* step(() => page.title())).toMatch(/^production · .*Mission Control$/)
        // Enter does not delete.
        expect(yield* focused(page)).toBe("BUTTON Close")
        yield* step(async () => {
          await page.keyboard.press("Enter")
          await page.getByRole("dialog").waitFor({ state: "detached" })
        })
        yield* until(focused(page), (name) => name === "BUTTON Delete")
      })
    )

    it.scoped("shows all times relative, local or in UTC, and remembers the choice", () =>
      Effect.gen(function* () {
        const { api, enqueue, enter } = yield* ControlRoom
        const id = yield* enqueue({ queue: "attic", runAt: inAnHour() })
        // An execution, and an entry of the audit log.
        yield* api("POST", "workflows", { workflow: "order", key: "A-18", payload: {}, queue: "attic", force: true })
        yield* api("POST", `jobs/${yield* enqueue({ queue: "attic" })}/cancel`)
        const page = yield* enter(`jobs/${id}`)
        const times = (place: string) =>
          step(async () => {
            await page.evaluate(`location.hash = "#/${place}"`)
            await page.locator("main h1").waitFor()
            await page.locator("main time").first().waitFor()
            return page.locator("main :not(.quiet) > time").allInnerTexts()
          })
        expect(yield* step(() => page.locator("main time").allInnerTexts())).toContainEqual(
          expect.stringMatching(/^in (59 min|1 h)/)
        )
        yield* step(() => button(page, "Time: relative").click())
        const clock = /^(\w.*, )?\d\d:\d\d:\d\d$/
        for (const text of yield* times(`jobs/${id}`)) expect(text).toMatch(clock)
        yield* step(async () => {
          await button(page, "Time: local").click()
          await page.reload()
          await button(page, "Time: UTC").waitFor()
        })
        const places = [`jobs/${id}`, "jobs", "scheduled", "audit", "pods", "queues", "workflows"]
        for (const place of places) {
          const shown = yield* times(place)
          expect({ place, other: shown.filter((text) => !/\d\d:\d\d:\d\d UTC$/.test(text)) }).toEqual({
            place,
            other: []
          })
        }
        const legend = page.locator(".chart .u-legend").first()
        yield* visit(page, "overview")
        yield* step(() => legend.getByText(/^\d\d:\d\d UTC$/).waitFor())
        // A filter by time is in the same zone.
        yield* visit(page, "jobs")
        yield* step(async () => {
          await button(page, "More filters").click()
          await page.getByLabel("From (UTC)").fill("2026-01-31T09:00")
          await page.getByLabel("From (UTC)").blur()
          await button(page, "Remove enqueued from 31 Jan 2026, 09:00:00 UTC")
            .or(button(page, "Remove enqueued from Jan 31, 2026, 09:00:00 UTC"))
            .waitFor()
          await button(page, "Time: UTC").click()
          await button(page, "Time: relative").waitFor()
        })
      })
    )

    it.scoped("keeps what was typed when the login expires", () =>
      Effect.gen(function* () {
        const { enter } = yield* ControlRoom
        const page = yield* enter("jobs")
        const form = page.getByRole("dialog", { name: "Enqueue a job" })
        const login = page.getByRole("dialog", { name: "Your login has expired" })
        yield* step(async () => {
          await button(page, "Enqueue").click()
          await form.getByLabel("Kind").fill("noop_echo")
          await form.getByLabel("Payload").fill('{"message": "a long draft"}')
        })
        yield* query("delete from nightshift.session")
        yield* step(async () => {
          // Another request of the page may have noticed it already.
          await page.evaluate("document.querySelector('dialog form').requestSubmit()")
          await login.waitFor()
          // Nothing of the page is readable meanwhile.
          await form.waitFor({ state: "hidden" })
          await page.locator("main h1").waitFor({ state: "hidden" })
          await page.keyboard.press("Escape")
          await login.waitFor()
          await login.getByLabel("Token").fill("wrong")
          await button(page, "Log in").click()
          await login.getByText("Wrong token").waitFor()
          await login.getByLabel("Token").fill(tokens.admin)
          await button(page, "Log in").click()
          await login.waitFor({ state: "detached" })
          expect(await form.getByLabel("Payload").inputValue()).toBe('{"message": "a long draft"}')
          await form.getByRole("button", { name: "Enqueue" }).click()
          await state(page, "done")
        })
      })
    )

    it.scoped("returns to the place in a list, and starts another page at its top", () =>
      Effect.gen(function* () {
        const { api, enter } = yield* ControlRoom
        const jobs = Array.from({ length: 60 }, () => ({ kind: "noop_echo", payload: {}, queue: "cellar" }))
        yield* api("POST", "jobs", { jobs })
        const page = yield* enter("jobs?queue=cellar")
        yield* step(async () => {
          await page.locator("tbody tr").nth(40).waitFor()
          await page.mouse.move(600, 400)
          await page.mouse.wheel(0, 900)
        })
        yield* scrolledTo(page, 900)
        yield* step(async () => {
          await page.locator("tbody tr").nth(30).getByRole("link").first().click()
          await page.locator(".head .state").waitFor()
        })
        yield* scrolledTo(page, 0)
        yield* step(() => page.goBack())
        yield* scrolledTo(page, 900)
        yield* step(() => page.reload())
        yield* scrolledTo(page, 900)
      })
    )

    it.scoped("makes requeue the main action of a dead job only", () =>
      Effect.gen(function* () {
        const { api, enqueue, enter } = yield* ControlRoom
        const done = yield* enqueue()
        yield* until(api<{ state: string }>("GET", `jobs/${done}`), ({ state }) => state === "done")
        const dead = yield* exhausted("nope")
        const page = yield* enter(`jobs/${dead}`)
        yield* step(() => page.locator("button.primary", { hasText: "Requeue" }).waitFor())
        yield* visit(page, `jobs/${done}`)
        yield* step(() => state(page, "done"))
        expect(yield* step(() => page.locator("main button.primary").count())).toBe(0)
        expect(yield* step(() => button(page, "Requeue").isEnabled())).toBe(true)
      })
    )

    it.scoped("says that a kind is unknown, or that no process has registered it", () =>
      Effect.gen(function* () {
        const { bury, enter } = yield* ControlRoom
        const page = yield* enter("kinds/nop_echo")
        yield* step(async () => {
          await page.getByText("unknown kind", { exact: true }).waitFor()
          await page.locator("main").getByRole("link", { name: "noop_echo" }).click()
          await heading(page, "noop_echo")
          await page.getByText("usual duration (p50)").waitFor()
        })
        yield* bury("leftover")
        yield* visit(page, "kinds/leftover")
        yield* step(async () => {
          await page.getByText("not registered by any process", { exact: true }).waitFor()
          await page.getByRole("region", { name: "Recent failures" }).getByText("the attic is full").first().waitFor()
        })
      })
    )

    it.scoped("says who paused a queue, or that the audit log does not know", () =>
      Effect.gen(function* () {
        const { api, enter } = yield* ControlRoom
        yield* api("PATCH", "queues/attic", { paused: true })
        const page = yield* enter("queues/attic")
        yield* step(() => page.getByText(/Paused .* by api:admin\. No reason was given\./).waitFor())
        yield* api("PATCH", "queues/attic", { paused: false })
        yield* query(
          "insert into nightshift.queue (name, paused, created_at, updated_at) values ('shed', true, 'now', 'now')"
        )
        yield* visit(page, "queues/shed")
        yield* step(() => page.getByText("The audit log does not say who paused it.").waitFor())
      })
    )

    it.scoped("skips the navigation with the keyboard, and prints the page alone, light", () =>
      Effect.gen(function* () {
        const { enter } = yield* ControlRoom
        const page = yield* enter("dead", "admin", { colorScheme: "dark" })
        yield* step(() => page.keyboard.press("Tab"))
        expect(yield* focused(page)).toBe("BUTTON Skip to content")
        yield* step(() => page.keyboard.press("Enter"))
        expect(yield* focused(page)).toMatch(/^MAIN/)
        yield* step(() => page.keyboard.press("Tab"))
        const isInside = step(() => page.evaluate<boolean>("document.activeElement.closest('main') !== null"))
        expect(yield* isInside).toBe(true)
        const ground = step(() => page.evaluate<string>("getComputedStyle(document.body).backgroundColor"))
        const dark = yield* ground
        yield* step(() => page.emulateMedia({ media: "print", colorScheme: "dark" }))
        expect(yield* ground).not.toBe(dark)
        const visible = (selector: string) => step(() => page.locator(selector).first().isVisible())
        expect([yield* visible("nav.rail"), yield* visible("main button"), yield* visible("main h1")]).toEqual([
          false,
          false,
          true
        ])
      })
    )
  }
)
