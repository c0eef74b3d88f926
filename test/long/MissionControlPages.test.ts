import { expect, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import pg from "pg"
import type { Page } from "playwright-core"
import { ControlRoom } from "../journeys/fixtures/ControlRoom.js"
import { findings, sidewaysOf } from "../journeys/fixtures/PageChecks.js"
import { Browser } from "../support/Browser.js"

// Visits every page in light mode, in dark mode, on a phone and as a viewer, on a service in which every name is
// hostile.

const step = <A>(act: () => Promise<A>) => Effect.promise(act)

/** Renames the page if it is ever rendered as HTML. */
const hostile = (name: string) => `<img src=x onerror="document.title=1"><script>document.title=2</script>${name}`

/** Writes rows that the API would refuse: pages must not trust the tables. */
const plant = (database: string) =>
  step(async () => {
    const client = new pg.Client({ connectionString: database })
    await client.connect()
    const now = new Date()
    await client.query(
      `insert into nightshift.job (id, run_at, created_at, updated_at, finished_at, max_attempts, attempt, status, queue,
         kind, payload, last_error, dead_reason, dedupe_key, dedupe_scope)
       values ('0198c0de-0000-7000-8000-00000000dead', $1, $1, $1, $1, 1, 1, 'dead', $2, $3, $4, $5, 'exhausted', $6, 'retained')`,
      [now, hostile("queue"), hostile("kind"), { field: hostile("payload") }, hostile("error"), hostile("key")]
    )
    await client.query("update nightshift.upload set filename = $1, mimetype = $2", [hostile("file"), hostile("type")])
    await client.query("update nightshift.upload set created_at = created_at - interval '2 hours'")
    await client.end()
  })

const furnish = Effect.gen(function* () {
  const { api, database, deliver, enqueue, push, upload } = yield* ControlRoom
  yield* enqueue({ payload: { message: "done" } })
  yield* enqueue({ runAt: new Date(Date.now() + 3_600_000).toISOString() })
  yield* enqueue({ payload: { fail: "not today" } })
  yield* enqueue({ payload: { fail: hostile("fail") }, attempts: 1 })
  yield* enqueue({ payload: { sleep_ms: 600_000 } })
  yield* enqueue({ kind: "parcel", queue: "attic" })
  yield* api("POST", "schedules", { name: "nightly", kind: "noop_echo", payload: {}, cron: "0 3 * * *" })
  yield* api("POST", "schedules/nightly/trigger")
  yield* api("PATCH", "queues/default", { retainDead: "24h" })
  yield* deliver("helper", { update_id: 1, message: { message_id: 1, date: 1, chat: { id: 5 }, text: "hi" } })
  yield* api("POST", "views", { name: hostile("v").slice(0, 60), page: "dead", filter: { kind: hostile("kind") } })
  yield* push(hostile("delivery").replaceAll('"', "'"))
  yield* upload("acme", "report.pdf")
  yield* plant(database)
})

/** Every filter is set. */
const jobs = "jobs?state=scheduled,retrying,pending,running,done,dead,cancelled&within=1h"

const places = [
  "overview",
  "queues",
  jobs,
  "jobs/0198c0de-0000-7000-8000-00000000dead",
  "scheduled",
  "retries",
  "dead",
  "schedules",
  "pods",
  "bots?open=sources%2Fci",
  "uploads",
  "limits",
  "audit",
  "database",
  "queues/default",
  "kinds/noop_echo",
  "workflows",
  "nowhere"
]

/** Navigates without reloading, and waits until the page is complete. */
const visit = (page: Page, place: string) =>
  step(async () => {
    await page.evaluate(`location.hash = ${JSON.stringify(`#/${place}`)}`)
    await page.locator("main h1").waitFor()
    await page.getByText("Loading…").first().waitFor({ state: "detached" })
  })

/** Visiting all pages takes seconds, and much longer on a loaded machine. */
const walkTimeout = 180_000

const furnished = Layer.provideMerge(Layer.effectDiscard(furnish), ControlRoom.layer)

/** Transferred bytes of the pages, without API answers. */
const weightOf = (page: Page) =>
  page.evaluate<number>(`performance.getEntries()
    .filter((entry) => "encodedBodySize" in entry && !entry.name.includes("/api/"))
    .reduce((sum, entry) => sum + entry.encodedBodySize, 0)`)

layer(Layer.merge(Browser.layer, furnished), { excludeTestServices: true, timeout: "3 minutes" })(
  "every page of Mission Control",
  (it) => {
    it.scoped(
      "is light, accessible, and shows external text as text",
      () =>
        Effect.gen(function* () {
          const { enter } = yield* ControlRoom
          const page = yield* enter("overview")
          const weight = yield* step(() => weightOf(page))
          expect(weight).toBeGreaterThan(10_000)
          expect(weight).toBeLessThan(120_000)
          // The overview shows the queues of the service's last refresh.
          yield* step(() => page.getByText(hostile("queue")).first().waitFor())
          const shown: Record<string, string> = {}
          for (const place of places) {
            yield* visit(page, place)
            expect({ place, findings: yield* findings(page) }).toEqual({ place, findings: [] })
            shown[place] = yield* step(() => page.locator("main").innerText())
            expect(yield* step(() => page.locator("main img, main script").count())).toBe(0)
          }
          expect(yield* step(() => page.title())).toMatch(/Mission Control$/)
          for (const [place, names] of Object.entries({
            overview: ["queue"],
            queues: ["queue"],
            [jobs]: ["queue", "kind", "error"],
            dead: ["queue", "kind", "error"],
            uploads: ["file", "type"]
          })) {
            for (const name of names) expect(shown[place]).toContain(hostile(name))
          }
          expect(shown[places[3] ?? ""]).toContain(hostile("error"))
          expect(shown[places[3] ?? ""]).toContain(JSON.stringify(hostile("payload")))
          expect(shown[places[9] ?? ""]).toContain(hostile("delivery").replaceAll('"', "'"))
        }),
      walkTimeout
    )

    it.scoped(
      "is readable in dark mode and on a phone, without scrolling sideways",
      () =>
        Effect.gen(function* () {
          const { enter } = yield* ControlRoom
          const page = yield* enter("overview", "admin", {
            colorScheme: "dark",
            viewport: { width: 390, height: 800 }
          })
          const theme = step(() => page.evaluate<string>("document.documentElement.dataset.theme"))
          expect(yield* theme).toBe("dark")
          for (const place of places) {
            yield* visit(page, place)
            expect({ place, sideways: yield* step(() => sidewaysOf(page)) }).toEqual({ place, sideways: 0 })
            expect({ place, findings: yield* findings(page, ["color-contrast"]) }).toEqual({ place, findings: [] })
          }
          yield* step(async () => {
            await page.getByRole("button", { name: "Menu" }).click()
            await page.getByRole("link", { name: "Processes" }).click()
            await page.getByRole("heading", { name: "Processes" }).waitFor()
          })
        }),
      walkTimeout
    )

    it.scoped("opens accessible dialogs and forms", () =>
      Effect.gen(function* () {
        const { enter } = yield* ControlRoom
        const page = yield* enter("dead")
        const looked: Array<string> = []
        yield* step(async () => {
          await page.getByRole("button", { name: "Requeue", exact: true }).click()
          await page
            .getByRole("dialog")
            .getByText(/\d+ jobs?\?$/)
            .waitFor()
        })
        looked.push(...(yield* findings(page)))
        yield* step(async () => {
          await page.keyboard.press("Escape")
          await page.getByRole("dialog").waitFor({ state: "detached" })
          await page.keyboard.press("?")
          await page.getByRole("dialog", { name: "Keyboard shortcuts" }).waitFor()
        })
        looked.push(...(yield* findings(page)))
        yield* step(() => page.keyboard.press("Escape"))
        yield* visit(page, `${jobs}&reason=exhausted`)
        yield* step(() => page.getByRole("button", { name: "More filters" }).click())
        looked.push(...(yield* findings(page)))
        yield* step(() => page.getByRole("button", { name: "Save view" }).click())
        looked.push(...(yield* findings(page)))
        yield* step(() => page.keyboard.press("Escape"))
        yield* visit(page, "schedules")
        yield* step(async () => {
          await page.getByRole("button", { name: "New schedule" }).click()
          const nightly = page.getByRole("region", { name: "nightly", exact: true })
          await nightly.getByText("at 03:00 every day, UTC").waitFor()
          await nightly.getByRole("button", { name: "Next runs" }).click()
          await nightly.getByRole("button", { name: "History" }).click()
          await nightly.getByText("triggered by api:admin").waitFor()
          await nightly.getByRole("region", { name: "Next runs of nightly" }).getByRole("listitem").last().waitFor()
        })
        looked.push(...(yield* findings(page)))
        yield* visit(page, "queues/default")
        yield* step(() =>
          page.getByRole("region", { name: "default" }).getByRole("button", { name: "Settings" }).click()
        )
        looked.push(...(yield* findings(page)))
        yield* visit(page, "jobs")
        yield* step(async () => {
          await page.getByText("Columns", { exact: true }).click()
          await page.getByRole("button", { name: "Enqueue" }).click()
          await page.getByRole("dialog").getByLabel("Kind").fill("noop_echo")
          await page.getByRole("dialog").getByLabel("Payload").fill('{"fail": 7, "sleep_ms": "soon"}')
          await page.getByRole("dialog").getByText("sleep_ms must be").first().waitFor()
          // The marks of a wrong line lie behind its text.
          const topmost = await page.evaluate<string>(`(() => {
            const line = document.querySelector("dialog .marks .bad")
            line.parentElement.style.pointerEvents = "auto"
            const { left, top } = line.getBoundingClientRect()
            return document.elementFromPoint(left + 10, top + 5).tagName
          })()`)
          expect(topmost).toBe("TEXTAREA")
        })
        looked.push(...(yield* findings(page)))
        yield* visit(page, "audit")
        yield* step(() => page.getByRole("button", { name: "Changes" }).first().click())
        looked.push(...(yield* findings(page)))
        yield* step(() => page.getByRole("button", { name: "Log out" }).click())
        yield* step(() => page.getByLabel("Token").waitFor())
        looked.push(...(yield* findings(page)))
        expect(looked).toEqual([])
      })
    )

    it.scoped("offers a viewer no way to change anything, and the server refuses it as well", () =>
      Effect.gen(function* () {
        const { enter, url } = yield* ControlRoom
        const page = yield* enter("overview", "viewer")
        const harmless =
          /^(5 m|30 m|3 h|24 h|7 d|Charts|Next runs|History|Deliveries|Changes|.*failures rose.*|and \d+ more|Show \d+ more|\d+\+? new|Older|Newest|Copy.*|Download|Show all.*|☰ Menu|Hide|jobs\.ts|In this service|In your program|New project|curl|Command line|TypeScript|[[{}\]].*)$/
        for (const place of places) {
          yield* visit(page, place)
          // Viewers may use filters and navigation.
          const names = yield* step(() =>
            page.locator("main button:visible:not(search button, th button)").allInnerTexts()
          )
          expect({ place, buttons: names.filter((name) => !harmless.test(name)) }).toEqual({ place, buttons: [] })
          const inputs = yield* step(() => page.locator("main input:not([type=search], search input)").count())
          expect({ place, inputs }).toEqual({ place, inputs: 0 })
        }
        const refused = yield* step(() =>
          page.evaluate(async (address) => {
            const acts = [
              ["POST", "jobs/0198c0de-0000-7000-8000-00000000dead/requeue"],
              ["PATCH", "queues/default"],
              ["POST", "views"],
              ["DELETE", "schedules/nightly"]
            ]
            const statuses = []
            for (const [method = "", path] of acts) {
              statuses.push((await fetch(`${address}/api/v1/${path}`, { method })).status)
            }
            return statuses
          }, url)
        )
        expect(refused).toEqual([403, 403, 403, 403])
      })
    )
  }
)
