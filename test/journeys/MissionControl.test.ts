import { expect, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import type { Page } from "playwright-core"
import { Browser } from "../support/Browser.js"
import * as Nightshift from "../support/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"

const env = { NIGHTSHIFT_ADMIN_TOKEN: "admin-sesame", NIGHTSHIFT_VIEWER_TOKEN: "viewer-sesame" }

/** A service of the test's own, with doors. */
const service = Effect.gen(function* () {
  const cwd = yield* Nightshift.folder
  const running = yield* Nightshift.start(["serve", "--port", "0"], {
    cwd,
    env: { ...env, DATABASE_URL: Redacted.value(yield* TestDatabase.migrated) }
  })
  const match = yield* running.said(/doors +(http:\S+)/)
  return match[1] ?? ""
})

const step = <A>(act: () => Promise<A>) => Effect.promise(act)

const enqueue = (url: string, job: Record<string, unknown>) =>
  step(async () => {
    const response = await fetch(`${url}/api/v1/jobs`, {
      method: "POST",
      headers: { authorization: "Bearer admin-sesame", "content-type": "application/json" },
      body: JSON.stringify({ jobs: [{ kind: "noop_echo", payload: {}, ...job }] })
    })
    const { jobs } = (await response.json()) as { jobs: ReadonlyArray<{ id: string }> }
    return jobs[0]?.id ?? ""
  })

const logIn = (page: Page, url: string, token: string) =>
  step(async () => {
    await page.goto(`${url}/`)
    await page.getByLabel("Token").fill(token)
    await page.getByRole("button", { name: "Log in" }).click()
    await page.getByRole("heading", { name: "Overview" }).waitFor()
  })

layer(Browser.layer, { excludeTestServices: true })("Mission Control", (it) => {
  it.scoped("lets nobody in without a token, and an admin pause a queue so that nothing of it starts", () =>
    Effect.gen(function* () {
      const url = yield* service
      const page = yield* Browser.page()
      yield* step(async () => {
        await page.goto(url)
        await page.getByLabel("Token").fill("wrong")
        await page.getByRole("button", { name: "Log in" }).click()
        await page.getByText("That token opens nothing here.").waitFor()
      })
      yield* logIn(page, url, env.NIGHTSHIFT_ADMIN_TOKEN)
      yield* step(async () => {
        await page.getByRole("link", { name: "Queues", exact: true }).click()
        await page.getByRole("region", { name: "default" }).getByRole("button", { name: "Pause" }).click()
        await page.getByText("default is paused.").waitFor()
      })
      const id = yield* enqueue(url, {})
      yield* step(async () => {
        await page.goto(`${url}/ui/#/jobs/${id}`)
        await page.getByRole("button", { name: "Cancel" }).waitFor()
        await page.getByRole("status").getByText('Queue "default" is paused').waitFor()
        await page.getByRole("link", { name: "Queues", exact: true }).click()
        await page.getByRole("region", { name: "default" }).getByRole("button", { name: "Resume" }).click()
        await page.goto(`${url}/ui/#/jobs/${id}`)
        await page.getByRole("button", { name: "Requeue" }).waitFor()
        await page.getByRole("status").getByText("It is done.").waitFor()
      })
    })
  )

  it.scoped("shows a viewer everything and no button, and markup as the text it is", () =>
    Effect.gen(function* () {
      const url = yield* service
      const hostile = '<img src=x onerror="document.title=1"><script>document.title=2</script>'
      const id = yield* enqueue(url, { payload: { message: hostile, fail: hostile }, maxAttempts: 1 })
      const page = yield* Browser.page({ viewport: { width: 390, height: 800 } })
      yield* logIn(page, url, env.NIGHTSHIFT_VIEWER_TOKEN)
      yield* step(async () => {
        await page.goto(`${url}/ui/#/jobs/${id}`)
        await page.getByText("dead", { exact: true }).first().waitFor()
      })
      const shown = yield* step(() => page.locator("main").innerText())
      expect(shown).toContain("<script>document.title=2</script>")
      expect(yield* step(() => page.title())).toBe("Mission Control")
      expect(yield* step(() => page.locator("main img, main script").count())).toBe(0)
      expect(yield* step(() => page.getByRole("button", { name: /Requeue|Delete|Duplicate/ }).count())).toBe(0)
    })
  )
})
