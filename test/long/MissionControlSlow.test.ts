import { expect, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import type { Page, Route } from "playwright-core"
import { ControlRoom } from "../journeys/fixtures/ControlRoom.js"
import { Browser } from "../support/Browser.js"

// The pages of a service whose responses are late: the test holds them back until something else has happened.

const step = <A>(act: () => Promise<A>) => Effect.promise(act)

/** Holds the requests whose address ends like this, until they are released. */
const hold = async (page: Page, pattern: RegExp) => {
  const held: Array<Route> = []
  const waiting: Array<() => void> = []
  await page.route(pattern, (route) => {
    held.push(route)
    for (const tell of waiting.splice(0)) tell()
  })
  return {
    held,
    /** Waits until this many requests have been sent. */
    until: async (count: number) => {
      while (held.length < count) await new Promise<void>((tell) => waiting.push(tell))
    },
    /** Answers all held requests and lets later ones pass. */
    release: async () => {
      await page.unroute(pattern)
      await Promise.all(held.map((route) => route.continue().catch(() => {})))
    }
  }
}

const dialog = (page: Page) => page.getByRole("dialog")

/** Opens the enqueue dialog and names a kind whose schema the test holds back. */
const enqueueDialog = (page: Page) =>
  step(async () => {
    const schema = await hold(page, /\/kinds\/noop_echo$/)
    await page.getByRole("button", { name: "Enqueue" }).click()
    await dialog(page).getByLabel("Kind").fill("noop_echo")
    await schema.until(1)
    return schema
  })

/**
 * Types into the payload in the moment in which the page shows the fields of the schema, before any other task of the
 * page can run.
 */
const typeWithSchema = (page: Page, text: string) =>
  page.evaluate(`{
    const observer = new MutationObserver(() => {
      const field = document.querySelector("dialog textarea")
      if (document.querySelector('dialog [aria-label="Add a field"]') === null) return
      observer.disconnect()
      field.value = ${JSON.stringify(text)}
      field.dispatchEvent(new Event("input", { bubbles: true }))
    })
    observer.observe(document.querySelector("dialog"), { childList: true, subtree: true })
  }`)

layer(Layer.merge(Browser.layer, ControlRoom.layer), { excludeTestServices: true, timeout: "3 minutes" })(
  "Mission Control with late responses",
  (it) => {
    it.scoped("checks a payload that was typed before the schema arrived", () =>
      Effect.gen(function* () {
        const { enter } = yield* ControlRoom
        const page = yield* enter("jobs")
        const schema = yield* enqueueDialog(page)
        yield* step(async () => {
          await dialog(page).getByText("Loading the schema…").waitFor()
          await dialog(page).getByLabel("Payload").fill('{"sleep_ms": "soon"}')
          await schema.release()
          await dialog(page).getByText("sleep_ms must be").first().waitFor()
        })
      })
    )

    it.scoped("keeps a payload that is typed while the schema arrives", () =>
      Effect.gen(function* () {
        const { enter } = yield* ControlRoom
        const page = yield* enter("jobs")
        const schema = yield* enqueueDialog(page)
        const typed = '{"sleep_ms": "soon"}'
        yield* step(async () => {
          await typeWithSchema(page, typed)
          await schema.release()
          await dialog(page).getByText("sleep_ms must be").first().waitFor()
        })
        expect(yield* step(() => dialog(page).getByLabel("Payload").inputValue())).toBe(typed)
      })
    )

    it.scoped("asks again for a schema after a failed response", () =>
      Effect.gen(function* () {
        const { enter } = yield* ControlRoom
        const page = yield* enter("jobs")
        yield* step(async () => {
          const failed = { status: 503, json: { error: { tag: "SearchTooSlow", message: "The database is busy." } } }
          await page.route(/\/kinds$/, (route) => route.fulfill(failed), { times: 2 })
          await page.getByRole("button", { name: "Enqueue" }).click()
          await dialog(page).getByLabel("Kind").fill("noop_echo")
          await dialog(page).getByText("The schema could not be loaded: The database is busy.").waitFor()
          await dialog(page).getByLabel("Payload").fill('{"sleep_ms": "soon"}')
          await dialog(page).getByText("sleep_ms must be").first().waitFor()
        })
      })
    )

    it.scoped("keeps the page of a job still while its reason arrives, so that a click does not miss", () =>
      Effect.gen(function* () {
        const { enqueue, enter } = yield* ControlRoom
        const id = yield* enqueue({ delay: "30d" })
        const page = yield* enter("jobs")
        const why = yield* step(() => hold(page, /\/why$/))
        const details = page.getByRole("region", { name: "Details" })
        const place = () => step(async () => (await details.boundingBox())?.y)
        yield* step(async () => {
          await page.evaluate(`location.hash = '#/jobs/${id}'`)
          await why.until(1)
          await details.waitFor()
        })
        const before = yield* place()
        yield* step(async () => {
          await why.release()
          await page.getByRole("status").getByText("not due").waitFor()
        })
        expect(yield* place()).toBe(before)
      })
    )

    // A count that took a second on a busy machine is repeated after twenty.
    const countedAgain = { timeout: 50_000 }

    it.scoped("shows a list whose response takes longer than the next event", () =>
      Effect.gen(function* () {
        const { bury, enter } = yield* ControlRoom
        yield* bury("late_list")
        const page = yield* enter("overview")
        const deadInTitle = async () => Number(/(\d+) dead/.exec(await page.title())?.[1] ?? 0)
        yield* step(() => expect.poll(deadInTitle, countedAgain).toBeGreaterThan(0))
        const list = yield* step(() => hold(page, /\/jobs\?.*state=dead/))
        yield* step(async () => {
          await page.evaluate("location.hash = '#/dead'")
          await list.until(1)
        })
        // Each death is an event, which the title shows at once.
        for (let more = 1; more <= 3; more += 1) {
          const before = yield* step(deadInTitle)
          yield* bury("late_list")
          yield* step(() => expect.poll(deadInTitle, countedAgain).toBeGreaterThan(before))
        }
        // A second request would have been the end of the first.
        expect(list.held.length).toBe(1)
        yield* step(async () => {
          await list.held[0]?.continue()
          await page
            .getByRole("row", { name: /late_list/ })
            .first()
            .waitFor()
          await list.release()
        })
      })
    )
  }
)
