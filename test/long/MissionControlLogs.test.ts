import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { expect, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import type { Page } from "playwright-core"
import { ControlRoom } from "../journeys/fixtures/ControlRoom.js"
import { type Job, step, until } from "../journeys/fixtures/OperatorSteps.js"
import { findings, sidewaysOf } from "../journeys/fixtures/PageChecks.js"
import { Browser } from "../support/Browser.js"
import * as Nightshift from "../support/Nightshift.js"

const app = fileURLToPath(new URL("fixtures/logs-app.mjs", import.meta.url))

const line = (page: Page, text: string) => page.locator(".log-line").filter({ hasText: text })

layer(Layer.merge(Browser.layer, ControlRoom.layerOf(app)), { excludeTestServices: true, timeout: "3 minutes" })(
  "the log on the page of a job",
  (it) => {
    it.scoped("follows a running attempt, stays when it has ended, and is the same on the command line", () =>
      Effect.gen(function* () {
        const { database, enqueue, enter } = yield* ControlRoom
        const cwd = yield* Nightshift.folder
        const gate = join(cwd, "open")
        const id = yield* enqueue({ kind: "charge", payload: { gate } })
        const page = yield* enter(`jobs/${id}`)
        const card = page.getByRole("region", { name: "Log" })
        yield* step(async () => {
          await line(page, "charging order=7 currency=EUR").waitFor()
          await line(page, "Error: no answer within 2 s").waitFor()
          await card.getByText("live", { exact: true }).waitFor()
        })
        expect(yield* step(() => line(page, "charged").count())).toBe(0)
        expect(yield* findings(page)).toEqual([])
        yield* Effect.sync(() => writeFileSync(gate, ""))
        yield* step(async () => {
          await line(page, "charged").waitFor()
          await page.locator(".head .state.done").waitFor()
        })
        expect(yield* step(() => page.locator(".log-line").count())).toBe(3)
        const { stdout } = yield* Nightshift.call(["jobs", "show", id, "--logs"], {
          cwd,
          env: { DATABASE_URL: database }
        })
        expect(stdout).toMatch(/log of attempt 1\n {2}[\d:.]+ INFO {2}charging {2}order=7 currency=EUR\n/)
        expect(stdout).toMatch(/ INFO {2}charged\n$/)
      })
    )

    it.scoped("compares attempts, and shows the log of the chosen one", () =>
      Effect.gen(function* () {
        const { api, enqueue, enter } = yield* ControlRoom
        const id = yield* enqueue({ kind: "flaky" })
        yield* until(api<Job>("GET", `jobs/${id}`), ({ state }) => state === "dead")
        const page = yield* enter(`jobs/${id}`, "viewer", { viewport: { width: 390, height: 800 } })
        const table = page.getByRole("table", { name: "Attempts side by side" })
        const rows = yield* step(async () => {
          await line(page, "line 900 of attempt 3").waitFor()
          return table.getByRole("row").allInnerTexts()
        })
        expect(rows.find((row) => row.startsWith("Error"))).toMatch(
          /no answer from db-1 .*no answer from db-2 .*same error/s
        )
        expect(rows.find((row) => row.startsWith("Log lines"))).toMatch(/300\s+600\s+900/)
        expect(yield* step(() => table.locator("mark").allInnerTexts())).toEqual(["2"])
        yield* step(async () => {
          await page.getByText("700 older lines are not stored.").waitFor()
          await table.getByRole("button", { name: "Attempt 1" }).focus()
          await page.keyboard.press("Enter")
          await line(page, "line 300 of attempt 1").waitFor()
          await page.getByText("100 older lines are not stored.").waitFor()
        })
        expect(yield* step(() => page.locator(".log-line").count())).toBe(200)
        expect(yield* step(() => sidewaysOf(page))).toBe(0)
        expect(yield* findings(page)).toEqual([])
      })
    )
  }
)
