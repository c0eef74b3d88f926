import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import type { Page } from "playwright-core"
import { build } from "../../scripts/site/build.mjs"
import * as PageChecks from "../journeys/fixtures/PageChecks.js"
import { Browser } from "../support/Browser.js"
import * as StaticFiles from "../support/StaticFiles.js"

/** The built site on a local port, under a prefix as on a host for project pages. */
class Site extends Context.Tag("nightshift/test/long/Site")<Site, string>() {
  static readonly layer = Layer.scoped(
    Site,
    Effect.gen(function* () {
      const folder = yield* Effect.acquireRelease(
        Effect.sync(() => mkdtempSync(join(tmpdir(), "nightshift-site-"))),
        (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
      )
      yield* Effect.promise(() => build(folder))
      return yield* StaticFiles.serve(folder)
    })
  )
}

const sizes = { desktop: { width: 1440, height: 900 }, phone: { width: 390, height: 844 } }
const paths = [
  "/index.html",
  "/learn/limits.html",
  "/operate/settings.html",
  "/contents.html",
  "/api/testing.html",
  "/try.html"
]

interface Answer {
  readonly jobs: ReadonlyArray<unknown>
  readonly executions: ReadonlyArray<unknown>
  readonly pod: string
  readonly history: ReadonlyArray<{ readonly pod: string; readonly outcome: string }>
}

/** Reads from the HTTP API that runs in the page. */
const read = (page: Page, path: string): Promise<Answer> =>
  page.evaluate(`nightshift.answer("/api/v1/${path}", {}).then((response) => response.json())`)

const polling = { timeout: 60_000 }

const cases = Object.entries(sizes).flatMap(([device, viewport]) =>
  (["light", "dark"] as const).map((colorScheme) => ({ device, viewport, colorScheme }))
)

layer(Layer.merge(Browser.layer, Site.layer), { timeout: "3 minutes" })("the website in a browser", (it) => {
  for (const { colorScheme, device, viewport } of cases) {
    it.scoped(
      `fits and is accessible on a ${device} in ${colorScheme} colours`,
      () =>
        Effect.gen(function* () {
          const site = yield* Site
          const page = yield* Browser.page({ colorScheme, viewport })
          const failed: Array<string> = []
          page.on("pageerror", (error) => failed.push(String(error)))
          page.on("response", (response) => response.status() >= 400 && failed.push(response.url()))
          for (const path of paths) {
            yield* Effect.promise(() => page.goto(`${site}${path}`))
            const wide = yield* Effect.promise(() => PageChecks.sidewaysOf(page))
            expect({ path, wide, found: yield* PageChecks.findings(page) }).toEqual({ path, wide: 0, found: [] })
          }
          expect(failed).toEqual([])
        }),
      // Axe checks five pages, one of them long.
      180_000
    )
  }

  for (const [device, viewport] of Object.entries(sizes)) {
    it.scoped(`finds pages on a ${device}`, () =>
      Effect.gen(function* () {
        const site = yield* Site
        const page = yield* Browser.page({ viewport })
        yield* Effect.promise(async () => {
          await page.goto(`${site}/operate/settings.html`)
          await page.keyboard.press("/")
          await page.keyboard.type("why is my job not running")
          await page.locator("#site-results a").first().waitFor()
          await page.keyboard.press("ArrowDown")
          await page.keyboard.press("Enter")
          await page.waitForURL(/operate\/why\.html/)
          await page.locator("#site-search").fill("xyzzyplugh")
          await page.getByText("No page matches").waitFor()
          await page.keyboard.press("Escape")
          expect(await page.locator("#site-results").isVisible()).toBe(false)
        })
      })
    )
  }

  it.scoped("remembers the form of programs on every page", () =>
    Effect.gen(function* () {
      const site = yield* Site
      const page = yield* Browser.page()
      yield* Effect.promise(async () => {
        await page.goto(`${site}/learn/limits.html`)
        const effect = page.locator('section[data-form="effect"] pre')
        const promise = page.locator('section[data-form="promise"] pre')
        expect([await promise.isVisible(), await effect.isVisible()]).toEqual([true, false])
        await page.getByRole("tab", { name: "Promises" }).press("ArrowRight")
        expect([await promise.isVisible(), await effect.isVisible()]).toEqual([false, true])
        await page.goto(`${site}/index.html`)
        expect(await page.getByRole("tab", { name: "Effect" }).getAttribute("aria-selected")).toBe("true")
        expect([await promise.isVisible(), await effect.isVisible()]).toEqual([false, true])
      })
    })
  )

  it.scoped("remembers the chosen colours", () =>
    Effect.gen(function* () {
      const site = yield* Site
      const page = yield* Browser.page({ colorScheme: "light" })
      const background = () => page.evaluate("getComputedStyle(document.body).backgroundColor")
      yield* Effect.promise(async () => {
        await page.goto(`${site}/index.html`)
        const light = await background()
        await page.getByRole("button", { name: "Dark colours" }).click()
        const dark = await background()
        expect(dark).not.toBe(light)
        await page.goto(`${site}/learn/limits.html`)
        expect(await background()).toBe(dark)
      })
    })
  )

  it.scoped(
    "runs jobs in the page, and the jobs of a killed worker in another one",
    () =>
      Effect.gen(function* () {
        const site = yield* Site
        const page = yield* Browser.page({ viewport: sizes.desktop })
        const failed: Array<string> = []
        page.on("pageerror", (error) => failed.push(String(error)))
        yield* Effect.promise(async () => {
          await page.goto(`${site}/try.html`)
          await page.getByRole("button", { name: /^Start/ }).click()
          await page.getByText("Running.").waitFor()
          await page.getByRole("button", { name: "Enqueue 20 letters" }).click()
          const worker = page.locator("#try-workers li", { hasText: "letter" }).first()
          await worker.getByRole("button", { name: /^Kill/ }).click()
          await page.getByLabel("10x").check()
          const link = page.locator("#try-log li", { hasText: "You killed" }).getByRole("link").first()
          const id = (await link.getAttribute("href"))?.split("#/jobs/")[1] ?? ""
          await page.locator("#try-log li", { hasText: "again, still as attempt" }).first().waitFor()
          const done = () => read(page, "jobs?kind=letter&state=done&limit=100")
          await expect.poll(async () => (await done()).jobs.length, polling).toBe(20)
          const { history, pod } = await read(page, `jobs/${id}`)
          const crashed = history.filter(({ outcome }) => outcome === "crashed")
          expect(crashed).toHaveLength(1)
          expect(pod).not.toBe(crashed[0]?.pod)

          await page.getByRole("button", { name: "Publish order.placed" }).click()
          const executions = (state: string) => read(page, `workflows?state=${state}`)
          await expect.poll(async () => (await executions("waiting")).executions.length, polling).toBe(1)
          await page.getByRole("button", { name: "Approve the last order" }).click()
          await expect.poll(async () => (await executions("done")).executions.length, polling).toBe(1)
          const control = page.frameLocator('iframe[name="mission-control"]')
          await control.getByRole("link", { name: "Workflows" }).click()
          await control.getByRole("link", { name: "order/A-1" }).click()
          await control.getByText("cool off").first().waitFor()
          expect(await PageChecks.sidewaysOf(page)).toBe(0)
        })
        expect(yield* PageChecks.findings(page)).toEqual([])
        expect(failed).toEqual([])
      }),
    180_000
  )

  it.scoped("is complete without scripts, and still without motion", () =>
    Effect.gen(function* () {
      const site = yield* Site
      const page = yield* Browser.page({ javaScriptEnabled: false, reducedMotion: "reduce", viewport: sizes.phone })
      yield* Effect.promise(async () => {
        await page.goto(`${site}/index.html`)
        for (const form of ["promise", "effect"]) {
          expect(await page.locator(`section[data-form="${form}"] pre`).isVisible()).toBe(true)
        }
        expect(await page.locator("#site-search").isVisible()).toBe(false)
        expect(await page.locator(".handover .done").isVisible()).toBe(true)
        await page.goto(`${site}/learn/limits.html`)
        await page.getByText("All pages", { exact: true }).first().click()
        await page.locator(".menu summary", { hasText: "Start" }).click()
        await page.locator(".menu").getByRole("link", { name: "Getting started" }).click()
        await page.waitForURL(/getting-started\.html/)
        await page.goto(`${site}/try.html`)
        expect(await page.locator("#try-code").inputValue()).toContain("nightshift/client")
        expect(await page.getByRole("button", { name: /Start/ }).isVisible()).toBe(false)
        await page.locator(".without").getByRole("link", { name: "Getting started" }).click()
        await page.waitForURL(/getting-started\.html/)
      })
    })
  )
})
