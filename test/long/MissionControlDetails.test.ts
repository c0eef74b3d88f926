import { expect, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import type { Locator } from "playwright-core"
import { ControlRoom, tokens } from "../journeys/fixtures/ControlRoom.js"
import { button, drawer, inAnHour, openActions, query, said, step, until } from "../journeys/fixtures/OperatorSteps.js"
import { findings, sidewaysOf } from "../journeys/fixtures/PageChecks.js"
import { Browser } from "../support/Browser.js"

// What pages say about queues without a process, keys, erased executions, endpoints, events and causes, what forms send,
// and what broken links open.

const phone = { viewport: { width: 390, height: 844 } }
const laptop = { viewport: { width: 1440, height: 900 } }

const boxOf = async (element: Locator) => {
  const box = await element.boundingBox()
  if (box === null) throw new Error("the element is not shown")
  return { ...box, right: box.x + box.width, bottom: box.y + box.height }
}

/** Due jobs in queues that no process serves. */
const lost = query(`
  insert into nightshift.job (id, queue, kind, payload, max_attempts, status, run_at, created_at, updated_at)
  select gen_random_uuid(), 'lost' || lpad(n::text, 2, '0'), 'drop', '{}', 5, 'pending', now() - interval '90 minutes', 'now', 'now'
  from generate_series(1, 12) n`)

const erased = "019a0000-0000-7000-8000-00000000e5a5"

/** An execution as an erasure leaves it. */
const erasedExecution = query(
  `insert into nightshift.job (id, run_at, created_at, updated_at, finished_at, max_attempts, attempt, status, queue, kind,
     payload, dead_reason, woken, dedupe_key, dedupe_scope)
   values ('${erased}', now(), now(), now(), now(), 3, 0, 'dead', 'attic', 'order', 'null', 'cancelled', 1, 'erased:${erased}', 'retained')`
)

layer(Layer.merge(Browser.layer, ControlRoom.layer), { excludeTestServices: true, timeout: "3 minutes" })(
  "Mission Control",
  (it) => {
    it.scoped("names some of many queues without a process, lists all, and says on each how to serve it", () =>
      Effect.gen(function* () {
        const { api, enter } = yield* ControlRoom
        yield* lost
        yield* until(
          api<{ unservedQueues: ReadonlyArray<string> }>("GET", "pods"),
          ({ unservedQueues }) => unservedQueues.length === 12
        )
        const page = yield* enter("pods")
        const warning = page.getByText("Jobs are waiting in queues that no live process serves")
        yield* step(() => warning.getByRole("link", { name: "lost08" }).waitFor())
        expect(yield* step(() => warning.getByRole("link").allInnerTexts())).not.toContain("lost09")
        yield* step(async () => {
          await warning.getByRole("link", { name: "4 more" }).click()
          await page.getByText(/^12 of \d+ queues$/).waitFor()
          await page.getByRole("link", { name: "lost12" }).click()
          await page.getByText("No live process serves this queue.").waitFor()
          await page.getByText("NIGHTSHIFT_QUEUES=lost12 nightshift serve", { exact: true }).waitFor()
        })
        expect(yield* findings(page)).toEqual([])
        // All of the age is inside the row.
        const narrow = yield* enter("queues", "admin", phone)
        const age = narrow.getByRole("row").filter({ hasText: "lost01" }).locator('td[data-label="Oldest due"]')
        yield* step(() => age.waitFor())
        expect(yield* step(() => age.evaluate((cell) => cell.scrollWidth <= cell.clientWidth))).toBe(true)
      })
    )

    it.scoped("shows the key of a job and why it waits, in the words of the other pages", () =>
      Effect.gen(function* () {
        const { enqueue, enter } = yield* ControlRoom
        const job = yield* enqueue({ queue: "attic", key: "customer-7" })
        const page = yield* enter(`jobs/${job}`)
        yield* step(async () => {
          const why = page.getByRole("status").filter({ hasText: "No live process serves" })
          await why.getByText("no process", { exact: true }).waitFor()
          await why.locator("code").getByText("nightshift serve --app <module> --queues attic").waitFor()
          await page.getByRole("definition").getByText("customer-7", { exact: true }).waitFor()
          await page.getByRole("link", { name: "Jobs with this key" }).click()
          await page.getByRole("heading", { name: "Jobs", level: 1 }).waitFor()
          await page.getByRole("row").filter({ hasText: "attic" }).first().waitFor()
        })
      })
    )

    it.scoped("offers no retry of an erased execution", () =>
      Effect.gen(function* () {
        const { enter } = yield* ControlRoom
        yield* erasedExecution
        const page = yield* enter(`workflows/${encodeURIComponent(`erased:${erased}`)}`, "admin", laptop)
        yield* step(() => page.getByRole("heading", { name: "Payload", exact: true }).waitFor())
        expect(yield* step(() => button(page, "Retry").isDisabled())).toBe(true)
        // Its name is in one line of the list.
        yield* step(() => page.getByRole("link", { name: "Workflows" }).click())
        const link = page.getByRole("link", { name: `erased:${erased}` })
        yield* step(() => link.waitFor())
        expect(yield* step(() => link.evaluate((element) => element.getClientRects().length))).toBe(1)
      })
    )

    it.scoped("leaves room for the errors of endpoints, and shows the ids of publishers", () =>
      Effect.gen(function* () {
        const { api, enter } = yield* ControlRoom
        const url = "https://example.org/hooks"
        const { id } = yield* api<{ id: string }>("POST", "endpoints", { url, customer: "c".repeat(100) })
        yield* query([
          "update nightshift.endpoint set failures = 3, first_failed_at = now(), last_error = $1",
          [`example.org responded 500: ${"stack ".repeat(400)}`]
        ])
        const page = yield* enter("endpoints", "admin", laptop)
        const error = page.getByText("example.org responded 500").first()
        yield* step(() => error.waitFor())
        expect((yield* step(() => boxOf(error))).width).toBeGreaterThan(250)
        expect(yield* step(() => sidewaysOf(page))).toBe(0)
        yield* step(async () => {
          await page.goto(page.url().replace(/#.*/, `#/endpoints/${id}`))
          await button(page, "Show all").waitFor()
          await page.getByRole("region", { name: "Details" }).getByText("Failing since").waitFor()
        })
        expect(yield* findings(page)).toEqual([])
        yield* api("POST", `endpoints/${id}/disable`)
        yield* step(async () => {
          await page.goto(page.url().replace(/#.*/, "#/audit"))
          await page.getByRole("link", { name: `endpoint ${id} disabled` }).click()
          await page.getByText(", by an operator").waitFor()
        })
        yield* api("POST", "publish", { name: "order.paid", data: { order: 7 }, id: "payment-812" })
        const events = yield* enter("events", "admin", phone)
        yield* step(async () => {
          await events.getByRole("cell", { name: "payment-812", exact: true }).waitFor()
          await page.goto(page.url().replace(/#.*/, "#/events?name=order.lost"))
          await page.getByText("No events match this filter.").waitFor()
          await page.goto(page.url().replace(/#.*/, "#/endpoints?customer=nobody"))
          await page.getByText("No endpoints match this filter.").waitFor()
        })
        expect(yield* step(() => sidewaysOf(events))).toBe(0)
      })
    )

    it.scoped("shows the largest causes, and the others on request", () =>
      Effect.gen(function* () {
        const { bury, enter } = yield* ControlRoom
        for (const name of "abcdefghi") yield* bury(`kind_${name}`)
        const page = yield* enter("dead")
        const rows = page.getByRole("region", { name: "Dead jobs by error" }).locator("tbody tr")
        yield* step(() => rows.first().waitFor())
        expect(yield* step(() => rows.count())).toBe(8)
        yield* step(() => button(page, "Show 1 more").click())
        expect(yield* step(() => rows.count())).toBe(9)
        // On a phone, a count and the name beside it do not touch.
        const narrow = yield* enter("dead", "admin", phone)
        const first = narrow.getByRole("region", { name: "Dead jobs by error" }).locator("tbody tr").first()
        yield* step(() => first.waitFor())
        const count = yield* step(() => boxOf(first.locator(".pick")))
        expect((yield* step(() => boxOf(first.locator(".name")))).x).toBeGreaterThan(count.right + 5)
      })
    )

    it.scoped("keeps the token of a login link out of requests, whichever page it opens", () =>
      Effect.gen(function* () {
        const { url } = yield* ControlRoom
        for (const place of ["events", "endpoints", "jobs", "audit"]) {
          const page = yield* Browser.page()
          const requested: Array<string> = []
          page.on("request", (request) => requested.push(request.url()))
          yield* step(async () => {
            await page.goto(`${url}/ui/#/${place}?token=${tokens.admin}`)
            await page.locator("main h1").waitFor()
            await page.getByText("Loading…").first().waitFor({ state: "detached" })
          })
          expect(requested.filter((address) => address.includes("/api/v1/")).length).toBeGreaterThan(1)
          expect(requested.filter((address) => address.includes("token="))).toEqual([])
          expect(yield* step(() => page.locator("main .failure").count())).toBe(0)
        }
      })
    )

    it.scoped("saves only the settings of a queue that were changed in the form", () =>
      Effect.gen(function* () {
        const { api, enter } = yield* ControlRoom
        yield* api("PATCH", "queues/default", { maxWorkers: 3 })
        const page = yield* enter("queues/default")
        yield* step(async () => {
          await button(page, "Settings").click()
          await page.getByLabel("Keep done jobs").fill("12h")
        })
        const limits = { rate: { jobs: 50, per: "1s" }, perKey: null, depthCap: null }
        yield* api("PATCH", "queues/default", { maxWorkers: 4, limits })
        yield* step(async () => {
          await page.getByLabel("Maximum queue depth").fill("9000")
          await button(page, "Save").click()
          await said(page, "Settings saved")
        })
        type Settings = Readonly<Record<string, unknown>> & { readonly name: string }
        const { queues } = yield* api<{ queues: ReadonlyArray<Settings> }>("GET", "queues")
        expect(queues.find(({ name }) => name === "default")).toMatchObject({
          maxWorkers: 4,
          retainDone: "12h",
          limits: { ...limits, depthCap: 9000 }
        })
      })
    )

    it.scoped("saves only the fields of a schedule that were changed in the form", () =>
      Effect.gen(function* () {
        const { api, enter } = yield* ControlRoom
        yield* api("POST", "schedules", {
          name: "tidy",
          kind: "noop_echo",
          cron: "0 3 * * *",
          payload: { deep: false }
        })
        const page = yield* enter("schedules")
        yield* step(async () => {
          await button(page, "Actions of tidy").click()
          await button(page, "Edit").click()
          await page.getByLabel("Expression").fill("0 4 * * *")
        })
        yield* api("PATCH", "schedules/tidy", { payload: { deep: true }, overlap: "skip" })
        yield* step(async () => {
          await button(page, "Save").click()
          await said(page, "tidy saved")
        })
        expect(yield* api("GET", "schedules/tidy")).toMatchObject({
          cron: "0 4 * * *",
          overlap: "skip",
          payload: { deep: true }
        })
      })
    )

    it.scoped("saves only the fields of a job that were changed in the form, and no empty priority", () =>
      Effect.gen(function* () {
        const { api, enqueue, enter } = yield* ControlRoom
        const id = yield* enqueue({ queue: "attic", priority: 5, runAt: inAnHour() })
        const page = yield* enter(`jobs/${id}`)
        const form = page.getByRole("dialog", { name: "Edit noop_echo" })
        const runAt = "2126-01-31T09:00:00.000Z"
        yield* step(async () => {
          await button(page, "Edit").click()
          await form.getByLabel("Due (UTC)").fill(runAt)
        })
        yield* api("PATCH", `jobs/${id}`, { priority: 2 })
        yield* step(async () => {
          await page.getByRole("definition").getByText("2", { exact: true }).waitFor()
          await form.getByRole("button", { name: "Save" }).click()
          await said(page, "noop_echo saved")
        })
        expect(yield* api("GET", `jobs/${id}`)).toMatchObject({ priority: 2, runAt })
        const sent: Array<string> = []
        yield* step(async () => {
          page.on("request", (request) => request.method() === "PATCH" && sent.push(request.url()))
          await form.waitFor({ state: "detached" })
          await button(page, "Edit").click()
          await form.getByLabel("Priority").fill("")
          await form.getByRole("button", { name: "Save" }).click()
          await form.locator("input:invalid").waitFor()
        })
        expect(sent).toEqual([])
      })
    )

    it.scoped("duplicates a job with what its handler gets, so that an erasure of its subject finds both", () =>
      Effect.gen(function* () {
        const { api, enqueue, enter } = yield* ControlRoom
        const subject = "customer:duplicated"
        const given = { queue: "attic", priority: 3, attempts: 1, key: "customer-9", meta: { tenant: "acme" } }
        const id = yield* enqueue({ ...given, subject, dedupe: { key: "invoice-812" } })
        type Stored = Readonly<Record<string, unknown>> & { readonly meta: Readonly<Record<string, unknown>> }
        const { meta, ...original } = yield* api<Stored>("GET", `jobs/${id}`)
        const found = api<{ found: { states: unknown } }>("POST", "erase", { subject, dryRun: true })
        expect((yield* found).found.states).toMatchObject({ pending: 1 })
        const page = yield* enter(`jobs/${id}`)
        yield* step(async () => {
          await button(page, "Duplicate").click()
          await said(page, "noop_echo enqueued again")
          await page.waitForURL((url) => url.hash.startsWith("#/jobs/") && !url.hash.endsWith(id))
        })
        const { meta: copied, ...copy } = yield* api<Stored>("GET", `jobs/${page.url().replace(/.*\//, "")}`)
        const { attempts, key, kind, payload, priority, queue } = original
        expect(copy).toMatchObject({ attempts, key, kind, payload, priority, queue, dedupe: null })
        expect(copied).toEqual({ ...meta, traceparent: copied.traceparent })
        expect(copied).toMatchObject({ tenant: "acme", subjectDigest: expect.stringMatching(/^[0-9a-f]{64}$/) })
        expect((yield* found).found.states).toMatchObject({ pending: 2 })
      })
    )

    it.scoped("opens links that are not encoded properly, and finds no job by the steps of a path", () =>
      Effect.gen(function* () {
        const { enqueue, enter } = yield* ControlRoom
        yield* enqueue({ queue: "attic" })
        const page = yield* enter("jobs/100%")
        yield* step(async () => {
          await page.getByRole("heading", { name: "Job not found" }).waitFor()
          await page.getByText("There is no job 100%.").waitFor()
          await page.evaluate(`location.hash = "#/events/a%2Fb"`)
          await page.getByRole("heading", { name: "Event not found" }).waitFor()
          await page.getByText("There is no event a/b. It was deleted, or its retention has passed.").waitFor()
          await page.evaluate(`location.hash = "#/endpoints/100%"`)
          await page.getByRole("heading", { name: "Endpoint not found" }).waitFor()
          await page.getByText("There is no endpoint 100%. It was deleted.").waitFor()
          await page.evaluate(`location.hash = "#/queues/50%"`)
          await page.getByRole("heading", { name: "50%" }).waitFor()
          await page.evaluate(`location.hash = "#/jobs?search=.."`)
          await page.getByText("No jobs match this filter.").waitFor()
        })
        expect(yield* step(() => page.getByRole("region", { name: "Found by id or key" }).count())).toBe(0)
      })
    )

    it.scoped("stays on the page if the service did not end the session", () =>
      Effect.gen(function* () {
        const { enter } = yield* ControlRoom
        const page = yield* enter("overview")
        yield* step(async () => {
          await page.route("**/api/v1/session", (route) =>
            route.request().method() === "DELETE" ? route.abort() : route.continue()
          )
          await button(page, "Log out").click()
          await said(page, "The service is not reachable.")
        })
        expect(yield* step(() => page.getByLabel("Token").count())).toBe(0)
        yield* step(async () => {
          await page.unroute("**/api/v1/session")
          await button(page, "Log out").click()
          await page.getByLabel("Token").waitFor()
        })
      })
    )

    it.scoped("says that a proxy responded in place of the service, and keeps what was typed", () =>
      Effect.gen(function* () {
        const { enqueue, enter } = yield* ControlRoom
        const page = yield* enter(`jobs/${yield* enqueue({ queue: "attic" })}`)
        const form = page.getByRole("dialog", { name: "Edit noop_echo" })
        yield* step(async () => {
          await page.route("**/api/v1/jobs/*", (route) =>
            route.request().method() === "PATCH"
              ? route.fulfill({ contentType: "text/html", body: "<h1>Log in</h1>" })
              : route.continue()
          )
          await button(page, "Edit").click()
          await form.getByLabel("Priority").fill("7")
          await form.getByRole("button", { name: "Save" }).click()
          await form.getByText("Something else responded in place of the service").waitFor()
          await page.unroute("**/api/v1/jobs/*")
          await form.getByRole("button", { name: "Save" }).click()
          await said(page, "noop_echo saved")
          await page.getByRole("definition").getByText("7", { exact: true }).waitFor()
        })
      })
    )

    it.scoped("duplicates no job whose payload the service cannot open", () =>
      Effect.gen(function* () {
        const { enqueue, enter } = yield* ControlRoom
        const id = yield* enqueue({ queue: "attic" })
        yield* query([
          `update nightshift.job set payload = '{"card": {"$sealed": "lost.1.n.abc"}}' where id = $1`,
          [id]
        ])
        const page = yield* enter(`jobs/${id}`)
        yield* step(() => page.getByText(/sealed with key lost/).waitFor())
        expect(yield* step(() => button(page, "Duplicate").isDisabled())).toBe(true)
      })
    )

    it.scoped("has keyboard shortcuts and the palette beside the recent actions", () =>
      Effect.gen(function* () {
        const { enter } = yield* ControlRoom
        const page = yield* enter("overview")
        yield* step(async () => {
          await openActions(page)
          await drawer(page).waitFor()
          await page.keyboard.press("g")
          await page.keyboard.press("q")
          await page.getByRole("heading", { name: "Queues", level: 1 }).waitFor()
          await page.keyboard.press("Control+k")
          await page.getByRole("dialog", { name: "Command palette" }).waitFor()
          await page.keyboard.press("Escape")
          await page.getByRole("dialog", { name: "Command palette" }).waitFor({ state: "detached" })
          await drawer(page).waitFor()
        })
      })
    )

    it.scoped("has all of its navigation in the window of a laptop", () =>
      Effect.gen(function* () {
        const { enter } = yield* ControlRoom
        const page = yield* enter("overview", "admin", laptop)
        const last = yield* step(() => boxOf(page.getByRole("link", { name: "API docs" })))
        const actions = yield* step(() => boxOf(button(page, "Recent actions")))
        const logOut = yield* step(() => boxOf(button(page, "Log out")))
        expect(last.bottom).toBeLessThan(actions.y)
        expect(logOut.bottom).toBeLessThan(900)
      })
    )
  }
)
