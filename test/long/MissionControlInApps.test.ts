import { expect, layer } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import type { Page } from "playwright-core"
import * as ExampleProject from "../examples/ExampleProject.js"
import { ControlRoom } from "../journeys/fixtures/ControlRoom.js"
import { button, step } from "../journeys/fixtures/OperatorSteps.js"
import { Browser } from "../support/Browser.js"
import * as PrefixProxy from "../support/PrefixProxy.js"
import * as TestDatabase from "../support/TestDatabase.js"

const logIn = async (page: Page, name: string, password: string) => {
  await page.getByLabel("Name").fill(name)
  await page.getByLabel("Password").fill(password)
  await button(page, "Log in").click()
  await page.getByRole("heading", { name: "Overview" }).waitFor()
}

/** What the page asks for outside of this address. */
const strays = (page: Page, base: string) => {
  const found: Array<string> = []
  page.on("request", (request) => {
    if (!request.url().startsWith(base) && !request.url().startsWith("data:")) found.push(request.url())
  })
  return found
}

layer(Layer.merge(Browser.layer, ControlRoom.layer), { excludeTestServices: true, timeout: "3 minutes" })(
  "Mission Control",
  (it) => {
    it.scoped.each([
      ["mission-control-express", /listening on .*port: (\d+)/s],
      ["mission-control-hono", /listening on \S+:(\d+)/]
    ] as const)("in the app of %s: has the login of the app, its roles and its names", ([name, ready]) =>
      Effect.gen(function* () {
        const databaseUrl = Redacted.value(yield* TestDatabase.migrated)
        const { match } = yield* ExampleProject.started(name, "src/server.ts", ready, databaseUrl)
        const app = `http://localhost:${match[1]}`
        const admin = yield* Browser.page()
        yield* step(async () => {
          await admin.goto(`${app}/ops`)
          expect(admin.url()).toBe(`${app}/login`)
          await logIn(admin, "ada", "analytical")
          expect(admin.url()).toBe(`${app}/ops/ui/`)
          const outside = strays(admin, `${app}/ops/`)
          await button(admin, "Live").waitFor()
          expect(await button(admin, "Log out").count()).toBe(0)
          await fetch(`${app}/greetings`, {
            method: "POST",
            headers: { "content-type": "application/json" },
            body: JSON.stringify({ name: "Grace" })
          })
          // Arrives over the event stream.
          await admin.getByRole("link", { name: "greetings" }).click()
          await admin.getByRole("region", { name: "Newest jobs" }).getByText("Grace").waitFor()
          await button(admin, "Pause").click()
          await admin.getByText("by app:ada").waitFor()
          expect(outside).toEqual([])
        })
        const viewer = yield* Browser.page()
        yield* step(async () => {
          await viewer.goto(`${app}/login`)
          await logIn(viewer, "bob", "builder")
          await viewer.goto(`${app}/ops/ui/#/queues/greetings`)
          await viewer.getByText("by app:ada").waitFor()
          expect(await button(viewer, "Resume").count()).toBe(0)
        })
        yield* step(async () => {
          await admin.context().clearCookies()
          const dialog = admin.getByRole("dialog", { name: "Your login has expired" })
          // Every request shows the dialog, which hides the button: that of the click, or one of the page.
          const click = button(admin, "Resume").click({ timeout: 5_000 })
          await Promise.all([dialog.waitFor(), click.catch(() => undefined)])
          await dialog.getByRole("button", { name: "Continue" }).click()
          await dialog.getByText("You are not logged in").waitFor()
          const opened = admin.waitForEvent("popup")
          await dialog.getByRole("link", { name: "Open the login page in another tab" }).click()
          await logIn(await opened, "ada", "analytical")
          await dialog.getByRole("button", { name: "Continue" }).click()
          await dialog.waitFor({ state: "detached" })
          await button(admin, "Live").waitFor()
        })
      })
    )

    it.scoped("works behind a proxy that removes a prefix", () =>
      Effect.gen(function* () {
        const { url } = yield* ControlRoom
        const base = yield* PrefixProxy.listen(url, "/tools/night")
        const page = yield* Browser.page()
        const outside = strays(page, base)
        yield* step(async () => {
          await page.goto(base)
          expect(page.url()).toBe(`${base}/ui/`)
          await page.getByLabel("Token").fill("admin-sesame")
          await button(page, "Log in").click()
          await button(page, "Live").waitFor()
          await page.goto(`${base}/ui/#/queues/default`)
          await button(page, "Pause").click()
          await page.getByText("by ui:admin").waitFor()
          await page.getByRole("link", { name: "API docs" }).click()
          await page.getByRole("heading", { name: "Nightshift API v1" }).waitFor()
          expect(outside).toEqual([])
        })
      })
    )
  }
)
