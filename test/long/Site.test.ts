import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
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
      build(folder)
      return yield* StaticFiles.serve(folder)
    })
  )
}

const sizes = { desktop: { width: 1440, height: 900 }, phone: { width: 390, height: 844 } }
const paths = ["/index.html", "/learn/limits.html", "/operate/settings.html", "/contents.html", "/api/testing.html"]

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
      })
    })
  )
})
