import { text } from "node:stream/consumers"
import { expect, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import type { Locator, Page } from "playwright-core"
import { ControlRoom, queueRow } from "../journeys/fixtures/ControlRoom.js"
import { button, query, said, step } from "../journeys/fixtures/OperatorSteps.js"
import { findings, sidewaysOf } from "../journeys/fixtures/PageChecks.js"
import { Browser } from "../support/Browser.js"

// Pages with absurd data: large payloads, long names and errors, many steps, children, queues and schedules.

const kind = "reconcile".padEnd(128, "_with_a_name_that_its_author_could_not_shorten")
const error = `Error: the ledger is locked\n${Array.from({ length: 199 }, (_, line) => `    at step${line} (/app/${line}.js)`).join("\n")}`

const ids = { job: 1, long: 2, parent: 3 } as const
const id = (number: number) => `019a0000-0000-7000-8000-${String(number).padStart(12, "0")}`

const attempt = (number: number) => ({
  attempt: number,
  pod: id(9),
  startedAt: Date.parse("2026-01-01T00:00:00Z") + number * 60_000,
  endedAt: Date.parse("2026-01-01T00:00:30Z") + number * 60_000,
  outcome: number === 3 ? "exhausted" : "failed",
  message: error
})

// Within the retention of ended jobs: they must not be purged while a slow machine opens the pages.
const ended = "(now() - interval '10 minutes')"
const begun = "(now() - interval '20 minutes')"

/** A dead job with a payload of 1 MB, some of whose texts have direction marks. */
const job = [
  `insert into nightshift.job (id, run_at, created_at, updated_at, started_at, finished_at, max_attempts, attempt, status,
     queue, kind, payload, last_error, dead_reason, history)
   select $1, ${begun}, ${begun}, ${ended}, ${begun}, ${ended}, 3, 3, 'dead', 'attic', $2::text, jsonb_build_object('file', $3::text,
     'text', repeat('x', 2000), 'rows', (select jsonb_agg(jsonb_build_object('id', n, 'name', 'row ' || n, 'items', '[1, 2, 3]'::jsonb,
       'note', repeat('n', 100))) from generate_series(1, 5000) n)), $4::text, 'exhausted', $5::jsonb`,
  [id(ids.job), kind, "invoice\u202egpj.exe", error, JSON.stringify([1, 2, 3].map(attempt))]
] as const

const execution = (number: string, key: string, status: string) =>
  `insert into nightshift.job (id, run_at, created_at, updated_at, started_at, finished_at, max_attempts, attempt, status, queue,
     kind, payload, last_error, dead_reason, woken, dedupe_key, dedupe_scope)
   select ${number}, ${begun}, ${begun}, ${ended}, ${begun}, ${ended}, 3, 1, ${status}, 'attic', 'batch', '{}',
     case when ${status} = 'dead' then 'step 400 broke' end, case when ${status} = 'dead' then 'exhausted' end, 1, ${key}, 'retained'`

/** An execution with 500 steps, of which one failed, and one with 200 children. */
const executions = [
  execution(`'${id(ids.long)}'`, "'batch/long'", "'dead'"),
  `insert into nightshift.workflow_step (job_id, name, attempt, sequence, kind, outcome, exit, started_at, ended_at)
   select '${id(ids.long)}', 'step ' || n, 1, n, 'run', case n when 400 then 'failed' else 'done' end,
     case n when 400 then '{"error": {"name": "Error", "message": "step 400 broke"}}'::jsonb else jsonb_build_object('value', n) end,
     ${begun} + n * interval '1 second', ${begun} + (n + 1) * interval '1 second' from generate_series(1, 500) n`,
  execution(`'${id(ids.parent)}'`, "'batch/family'", "'done'"),
  `${execution("('019a0000-0000-7000-8000-' || lpad((1000 + n)::text, 12, '0'))::uuid", "'batch/family/mail/' || n", "case n when 7 then 'dead' else 'done' end")}
   from generate_series(1, 200) n`,
  `insert into nightshift.workflow_step (job_id, name, attempt, sequence, kind, outcome, exit, started_at, ended_at)
   values ('${id(ids.parent)}', 'mail', 1, 1, 'children', 'done', '{}', ${begun}, ${ended})`,
  `insert into nightshift.workflow_child (parent, name, position, child, owned, ended_at)
   select 'batch/family', 'mail', n, ('019a0000-0000-7000-8000-' || lpad((1000 + n)::text, 12, '0'))::uuid, true, ${ended}
   from generate_series(1, 200) n`
]

const queues = `
  insert into nightshift.job (id, queue, kind, payload, max_attempts, status, run_at, created_at, updated_at)
  select gen_random_uuid(), 'queue' || lpad(n::text, 3, '0'), 'drop', '{}', 5, 'pending', 'tomorrow', 'now', 'now'
  from generate_series(1, 120) n`

const schedules = `
  insert into nightshift.schedule (name, kind, payload, cron, paused, next_fire_at, created_at, updated_at)
  select 'schedule' || lpad(n::text, 3, '0'), 'noop_echo', '{}', '0 3 1 1 *', n = 120, now() + interval '1 year', now(), now()
  from generate_series(1, 120) n`

const absurd = query(job, ...executions, queues, schedules)

const room = Layer.provideMerge(Layer.scopedDiscard(absurd), ControlRoom.layer)

const heightOf = (page: Page) => page.evaluate<number>("document.documentElement.scrollHeight")
const phone = { width: 390, height: 800 }

/** Scrolls to the end until the element is there: the page grows when rows turn out to be higher than expected. */
const scrollDownTo = async (element: Locator) => {
  const toEnd = "scrollTo(0, document.documentElement.scrollHeight)"
  const isDrawn = () =>
    element
      .page()
      .evaluate(toEnd)
      .then(() => element.isVisible())
  await expect.poll(isDrawn, { timeout: 15_000, interval: 100 }).toBe(true)
}

/** Pictures to look at, if a folder is given. */
const picture = async (page: Page, name: string) => {
  const folder = process.env.PICTURES
  if (folder !== undefined) await page.screenshot({ path: `${folder}/${name}.png`, fullPage: true })
}

/** Fits a desktop and a phone, light and dark, without violations of accessibility. */
const fits = (page: Page, name: string, tallest: number) =>
  Effect.gen(function* () {
    yield* step(() => picture(page, name))
    expect(yield* step(() => sidewaysOf(page))).toBe(0)
    expect(yield* step(() => heightOf(page))).toBeLessThan(tallest)
    expect(yield* findings(page)).toEqual([])
    yield* step(() => page.emulateMedia({ colorScheme: "dark" }))
    yield* step(() => page.setViewportSize(phone))
    yield* step(() => picture(page, `${name}-dark-390`))
    expect(yield* step(() => sidewaysOf(page))).toBe(0)
    expect(yield* step(() => heightOf(page))).toBeLessThan(2.5 * tallest)
    expect(yield* findings(page, ["color-contrast"])).toEqual([])
    yield* step(() => page.emulateMedia({ colorScheme: "light" }))
    yield* step(() => page.setViewportSize({ width: 1440, height: 900 }))
  })

const wide = { viewport: { width: 1440, height: 900 } }

layer(Layer.merge(Browser.layer, room), { excludeTestServices: true, timeout: "3 minutes" })(
  "Mission Control with absurd data",
  (it) => {
    it.scoped("shows a payload of 1 MB in part, an error once, and a long name in full", () =>
      Effect.gen(function* () {
        const { enter } = yield* ControlRoom
        const page = yield* enter(`jobs/${id(ids.job)}`, "admin", wide)
        const payload = page.getByRole("region", { name: "payload" })
        yield* step(() => payload.getByText(/MiB, shown in part|KiB, shown in part/).waitFor())
        // A direction mark is an escape, which does not reorder the text.
        yield* step(() => payload.getByText('"invoice\\u202egpj.exe"').waitFor())
        expect(yield* step(() => page.getByText("the ledger is locked").count())).toBe(1)
        expect((yield* step(() => page.locator("pre.failure").innerText())).split("\n").length).toBeLessThan(16)
        yield* fits(page, "job", 2_400)

        yield* step(async () => {
          await button(page, "Show all 200 lines").click()
          await page.getByText("at step198 (/app/198.js)").waitFor()
          await payload.getByText("5000 items").click()
          await payload.getByRole("button", { name: "Show 100 of 4,900 more" }).click()
          await payload.getByRole("button", { name: "Show 100 of 4,800 more" }).waitFor()
          await payload.getByRole("button", { name: /show all 2,000 characters/ }).click()
        })
        const download = page.waitForEvent("download")
        yield* step(() => button(page, "Download payload").click())
        const file = yield* step(async () => text(await (await download).createReadStream()))
        expect(JSON.parse(file)).toMatchObject({ file: "invoice\u202egpj.exe", rows: { length: 5_000 } })
      })
    )

    it.scoped("lists roots with their children folded, and shows the children on demand", () =>
      Effect.gen(function* () {
        const { enter } = yield* ControlRoom
        const page = yield* enter("workflows?prefix=batch/", "admin", wide)
        const rows = page.locator("table.executions tbody tr")
        yield* step(() => rows.filter({ hasText: "batch/family" }).getByText("1 failed, 199 done").waitFor())
        expect(yield* step(() => rows.count())).toBe(2)
        yield* step(() => rows.filter({ hasText: "batch/long" }).getByText("step 400:").waitFor())
        yield* step(() => page.getByRole("group", { name: "State" }).getByRole("button", { name: "all 2" }).waitFor())
        yield* fits(page, "executions", 1_000)

        yield* step(async () => {
          await page.getByLabel("Show children").check()
          await page.getByRole("group", { name: "State" }).getByRole("button", { name: "failed 2" }).click()
          await page.getByRole("link", { name: "batch/family/mail/7", exact: true }).waitFor()
        })
        expect(yield* step(() => rows.count())).toBe(2)
        yield* step(async () => {
          await page.getByRole("button", { name: "Duration" }).click()
          await page
            .getByRole("columnheader", { name: "Duration" })
            .and(page.locator("[aria-sort=descending]"))
            .waitFor()
        })
      })
    )

    it.scoped("shows 500 steps: only the visible ones are drawn, and an overview zooms", () =>
      Effect.gen(function* () {
        const { enter } = yield* ControlRoom
        const page = yield* enter("workflows/batch%2Flong", "admin", wide)
        const rows = page.locator(".waterfall > li:not(.blank)")
        yield* step(() => page.getByRole("button", { name: "step 1", exact: true }).waitFor())
        expect(yield* step(() => rows.count())).toBeLessThan(150)
        expect(yield* step(() => heightOf(page))).toBeGreaterThan(8_000)
        yield* step(() => picture(page, "steps"))
        yield* step(async () => {
          await page.getByLabel("Failed only (1)").check()
          await button(page, "step 400").click()
        })
        expect(yield* step(() => rows.count())).toBe(1)
        yield* step(() => page.locator(".waterfall .details").getByText("Error: step 400 broke").waitFor())
        yield* fits(page, "failed-step", 1_300)
        yield* step(async () => {
          await page.getByLabel("Failed only (1)").uncheck()
          const strip = page.getByRole("img", { name: /^All 500 rows/ })
          const box = await strip.boundingBox()
          if (box === null) throw new Error("no overview")
          await page.mouse.move(box.x + box.width * 0.5, box.y + 10)
          await page.mouse.down()
          await page.mouse.move(box.x + box.width * 0.52, box.y + 20)
          await page.mouse.up()
          await page.getByText("from 5 min after the start").waitFor()
        })
        const few = yield* step(() => rows.count())
        expect(few).toBeGreaterThan(8)
        expect(few).toBeLessThan(20)
        yield* step(() => picture(page, "zoomed"))
        yield* step(async () => {
          await button(page, "Later").press("Enter")
          await button(page, "Zoom out").press("Enter")
          await button(page, "Whole run").press("Enter")
          await page.getByRole("button", { name: "step 1", exact: true }).waitFor()
        })
        // A row far below is drawn when it is scrolled to.
        yield* step(async () => {
          await scrollDownTo(button(page, "step 499"))
        })
      })
    )

    it.scoped("folds 200 children into one row", () =>
      Effect.gen(function* () {
        const { enter } = yield* ControlRoom
        const page = yield* enter("workflows/batch%2Ffamily", "admin", wide)
        yield* step(() => page.locator(".waterfall .state.dead").getByText("1 failed (exhausted)").waitFor())
        yield* fits(page, "family", 1_300)
        yield* step(async () => {
          await button(page, "200 children").press("Enter")
          await page.getByRole("button", { name: "batch/family/mail/7", exact: true }).waitFor()
          await page.getByLabel("Failed only (1)").check()
          await page.getByRole("button", { name: "batch/family/mail/7", exact: true }).click()
          await page.getByRole("link", { name: "batch/family/mail/7" }).waitFor()
        })
      })
    )

    it.scoped("filters 120 queues, draws the visible ones, and keeps actions in a menu", () =>
      Effect.gen(function* () {
        const { enter } = yield* ControlRoom
        const page = yield* enter("queues", "admin", wide)
        const rows = page.locator("table.queues tbody tr:not(.blank)")
        yield* step(() => queueRow(page, "queue001").waitFor())
        expect(yield* step(() => rows.count())).toBeLessThan(100)
        expect(yield* step(() => page.getByRole("button", { name: "Pause" }).count())).toBe(0)
        yield* step(() => picture(page, "queues"))
        yield* step(async () => {
          await scrollDownTo(queueRow(page, "queue120"))
          await page.evaluate("scrollTo(0, 0)")
          await page.keyboard.press("/")
          await page.keyboard.type("queue11")
          await queueRow(page, "queue119").waitFor()
          await page.getByText(/^10 of 12\d queues$/).waitFor()
          await button(page, "Actions of queue119").click()
        })
        yield* fits(page, "queues-filtered", 1_200)
        yield* step(async () => {
          await button(page, "Actions of queue119").click()
          await page.keyboard.press("Escape")
          await button(page, "Actions of queue119").press("Enter")
          await queueRow(page, "queue119").getByRole("button", { name: "Pause" }).press("Enter")
          await said(page, "queue119 paused")
          await page.getByLabel("State").selectOption("paused")
          await page.getByText(/^1 of 12\d queues$/).waitFor()
        })
      })
    )

    it.scoped("filters 120 schedules, and keeps their actions in a menu", () =>
      Effect.gen(function* () {
        const { enter } = yield* ControlRoom
        const page = yield* enter("schedules", "admin", wide)
        const cards = page.locator(".cards > .card")
        yield* step(() => page.getByRole("region", { name: "schedule001" }).waitFor())
        expect(yield* step(() => cards.count())).toBeLessThan(100)
        yield* step(async () => {
          await page.getByLabel("State").selectOption("paused")
          await page.getByRole("region", { name: "schedule120" }).waitFor()
        })
        expect(yield* step(() => cards.count())).toBe(1)
        yield* fits(page, "schedules", 1_000)
        yield* step(async () => {
          await button(page, "Actions of schedule120").click()
          await button(page, "Resume").click()
          await said(page, "schedule120 resumed")
          await page.getByText("No schedules match this filter.").waitFor()
        })
      })
    )
  }
)
