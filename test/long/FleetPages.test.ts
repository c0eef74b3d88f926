import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect, layer } from "@effect/vitest"
import { Effect, Fiber, Option, Redacted } from "effect"
import type { Page } from "playwright-core"
import { freePort } from "../../src/database/embedded/EmbeddedPostgres.js"
import * as FaultServer from "../faults/FaultServer.js"
import { button, state, step, until } from "../journeys/fixtures/OperatorSteps.js"
import { Browser } from "../support/Browser.js"
import * as Nightshift from "../support/Nightshift.js"

const names = ["main", "mail", "mail-2"] as const
type Name = (typeof names)[number]

const headers = { authorization: "Bearer sesame", "content-type": "application/json" }

/** Three cells, each with its own PostgreSQL server and service. */
const fleet = Effect.gen(function* () {
  const cwd = yield* Nightshift.folder
  const cells = yield* Effect.forEach(
    names,
    (name) => Effect.all({ name: Effect.succeed(name), database: FaultServer.make(), port: freePort }),
    { concurrency: "unbounded" }
  )
  const declared = Object.fromEntries(
    cells.map(({ database, name, port }) => [
      name,
      { database: Redacted.value(database.url), api: `http://127.0.0.1:${port}` }
    ])
  )
  const queues = { mail: { cells: ["mail", "mail-2"], by: "key" } }
  writeFileSync(join(cwd, "fleet.yaml"), JSON.stringify({ cells: declared, queues, default: "main" }))
  const env = {
    NIGHTSHIFT_ADMIN_TOKEN: "sesame",
    NIGHTSHIFT_FLEET_TOKEN: "a-secret-of-all-cells-in-this-fleet:admin",
    SHUTDOWN_GRACE: "1s"
  }
  const started = yield* Effect.forEach(
    cells,
    ({ database, name, port }) =>
      Effect.gen(function* () {
        const service = yield* Nightshift.start(["serve", "--cell", name, "--port", String(port)], { cwd, env })
        const [line] = yield* Effect.orDie(service.said(/^.*"url":.*$/m))
        const url = `http://127.0.0.1:${port}`
        const ask = <A>(path: string, body?: unknown) =>
          step(async () => {
            const sent = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) }
            const response = await fetch(`${url}${path}`, sent)
            return { status: response.status, json: (await response.json()) as A }
          })
        const enqueue = (more: object = {}) =>
          Effect.map(
            ask<{ jobs: ReadonlyArray<{ id: string }> }>("/api/v1/jobs", {
              jobs: [{ kind: "noop_echo", payload: {}, ...more }]
            }),
            ({ json }) => json.jobs[0]?.id ?? ""
          )
        return [
          name,
          { database, service, greeting: JSON.parse(line) as Record<string, unknown>, url, ask, enqueue }
        ] as const
      }),
    { concurrency: "unbounded" }
  )
  const byName = new Map(started)
  return (name: Name) => byName.get(name) ?? Effect.runSync(Effect.dieMessage(`no cell ${name}`))
})

const card = (page: Page, name: Name) => page.getByRole("region", { name: `Cell ${name}`, exact: true })
const figure = (page: Page, name: Name, of: string) =>
  card(page, name).locator("dl.counts > div").filter({ hasText: of }).locator("dd").textContent()
const later = { runAt: "2126-01-31T09:00:00Z" }

layer(Browser.layer, { excludeTestServices: true, timeout: "3 minutes" })("Mission Control of a fleet", (it) => {
  it.scoped("shows all cells, acts on one of them, and goes on while others are down", () =>
    Effect.gen(function* () {
      const cell = yield* fleet
      expect(cell("mail").greeting).toMatchObject({
        cell: "mail",
        data: expect.stringMatching(/^cell mail of the fleet, at /)
      })
      yield* cell("main").enqueue(later)
      const id = yield* cell("mail").enqueue(later)
      const page = yield* Browser.page()
      yield* step(async () => {
        await page.goto(`${cell("main").url}/ui/#/fleet?token=sesame`)
        for (const name of names) await card(page, name).getByText("No incidents").waitFor()
      })
      expect(yield* step(() => figure(page, "mail", "scheduled"))).toBe("1")
      expect(yield* step(() => figure(page, "mail-2", "scheduled"))).toBe("0")

      // A job of another cell, from the merged list.
      const list = page.getByRole("region", { name: "Newest jobs of all cells" })
      yield* step(async () => {
        await list.getByRole("row").filter({ hasText: "mail" }).getByRole("link", { name: "noop_echo" }).click()
        await page.waitForURL(new RegExp(`#/cells/mail/jobs/${id}$`))
        await state(page, "scheduled")
        await page.getByText("cell mail", { exact: true }).first().waitFor()
        await page.getByRole("button", { name: "Live" }).waitFor()
        await button(page, "Cancel").click()
        await state(page, "cancelled")
      })
      expect((yield* cell("mail").ask<{ state: string }>(`/api/v1/jobs/${id}`)).json.state).toBe("cancelled")
      const audit = yield* cell("mail").ask<{ entries: ReadonlyArray<object> }>(`/api/v1/audit?target=${id}`)
      expect(audit.json.entries).toMatchObject([{ act: "job.cancel", who: "ui:admin@main" }])

      // Another cell, on the same page. Its events arrive as well.
      yield* step(async () => {
        await page.getByRole("navigation").getByLabel("Cell").selectOption("mail-2")
        await page.waitForURL(/#\/cells\/mail-2\/jobs$/)
        await page.getByText("No jobs yet.").waitFor()
      })
      yield* cell("mail-2").enqueue(later)
      yield* step(async () => {
        await page
          .getByRole("button", { name: "1 new" })
          .or(page.getByRole("link", { name: "noop_echo" }))
          .first()
          .waitFor()
        await page.getByRole("link", { name: "Fleet" }).click()
        await page.waitForURL(/#\/fleet$/)
      })
      yield* until(
        step(() => figure(page, "mail-2", "scheduled")),
        (text) => text === "1"
      )

      // The server of one cell and the service of another are stopped.
      yield* cell("mail-2").database.signal("SIGINT")
      yield* cell("mail-2").database.ended
      yield* cell("mail").service.signal("SIGKILL")
      yield* cell("mail").service.finished
      yield* step(async () => {
        for (const name of ["mail", "mail-2"] as const) {
          await card(page, name)
            .getByText(/^No answer\. Figures of/)
            .waitFor()
          expect(await card(page, name).getAttribute("class")).toContain("unknown")
        }
      })
      expect(yield* step(() => card(page, "mail-2").locator("time").first().textContent())).toMatch(/ago|now/)
      expect(yield* step(() => figure(page, "mail-2", "scheduled"))).toBe("1")
      expect(yield* step(() => card(page, "main").getAttribute("class"))).not.toContain("unknown")
      expect((yield* cell("main").ask("/readyz")).status).toBe(200)
      expect((yield* cell("mail-2").ask("/readyz")).status).toBe(503)
      const done = yield* cell("main").enqueue()
      yield* until(
        Effect.map(cell("main").ask<{ state: string }>(`/api/v1/jobs/${done}`), ({ json }) => json.state),
        (found) => found === "done"
      )
      yield* until(
        step(() => figure(page, "main", "done")),
        (text) => text === "1"
      )
      // The page of a cell that is down says so, and the switch still works.
      yield* step(async () => {
        await page.getByRole("navigation").getByLabel("Cell").selectOption("mail")
        await page.getByRole("alert").getByText("The service of cell mail does not respond.").waitFor()
        await page.getByRole("navigation").getByLabel("Cell").selectOption("main")
        await page.getByRole("alert").waitFor({ state: "detached" })
        await page.goto(`${cell("main").url}/ui/#/cells/mail-2/queues`)
        await page.getByRole("alert").getByText("The service of cell mail-2 is up, its database is not.").waitFor()
      })

      yield* cell("mail-2").database.start
      yield* step(async () => {
        await page.getByRole("alert").waitFor({ state: "detached" })
        await page.getByRole("link", { name: "Fleet" }).click()
        await card(page, "mail-2").getByText("No incidents").waitFor()
      })
      yield* until(
        step(() => card(page, "mail-2").getAttribute("class")),
        (text) => text?.includes("unknown") === false
      )

      // A frozen service holds one request at a time: those sent later fail before it.
      yield* cell("mail-2").service.signal("SIGSTOP")
      const there = () => cell("main").ask<{ error: { message: string } }>("/api/v1/cells/mail-2/queues")
      const first = yield* there()
      expect([first.status, first.json.error.message]).toEqual([502, expect.stringContaining("no response within")])
      const waitsAlone = Effect.gen(function* () {
        const waiting = yield* Effect.fork(there())
        yield* Effect.zipRight(cell("main").ask("/api/v1/queues"), there())
        return Option.isNone(yield* Fiber.poll(waiting))
      })
      yield* until(waitsAlone, (isSo) => isSo)
      yield* cell("mail-2").service.signal("SIGCONT")
      yield* until(there(), ({ status }) => status === 200)
    })
  )
})
