import { expect, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import type { Page } from "playwright-core"
import { ControlRoom, queueRow, tokens } from "../journeys/fixtures/ControlRoom.js"
import { button, inAnHour, step } from "../journeys/fixtures/OperatorSteps.js"
import { Browser } from "../support/Browser.js"
import { jobListStories } from "./JobListStories.js"

/** The region of a page with this name. */
const region = (page: Page, name: string) => page.getByRole("region", { name, exact: true })
const said = (page: Page, text: string) => page.getByRole("status").getByText(text).waitFor()

/** Makes charts log the text that they draw on their canvas. */
const tellText = `{
  const write = CanvasRenderingContext2D.prototype.fillText
  CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
    console.debug(text)
    return write.call(this, text, ...place)
  }
}`

layer(Layer.merge(Browser.layer, ControlRoom.layer), { excludeTestServices: true, timeout: "3 minutes" })(
  "at Mission Control an operator",
  (it) => {
    it.scoped("sees the page in a browser whose language Intl rejects", () =>
      Effect.gen(function* () {
        const { url } = yield* ControlRoom
        for (const language of ["en-US@posix", ""]) {
          const page = yield* Browser.page()
          const problems: Array<string> = []
          page.on("pageerror", (error) => problems.push(error.message))
          yield* step(async () => {
            const tag = JSON.stringify(language)
            await page.addInitScript(`Object.defineProperty(Navigator.prototype, "language", { get: () => ${tag} })`)
            await page.request.post(`${url}/api/v1/session`, { data: { token: tokens.viewer } })
            await page.goto(`${url}/ui/`)
            await page.getByRole("heading", { name: "Overview" }).waitFor()
            await page.locator("canvas").first().waitFor()
          })
          expect(problems).toEqual([])
        }
      })
    )

    it.scoped("pauses a queue so that none of its jobs start, and resumes it", () =>
      Effect.gen(function* () {
        const { enqueue, enter, url } = yield* ControlRoom
        const page = yield* enter("queues")
        yield* step(async () => {
          await button(page, "Actions of default").click()
          await queueRow(page, "default").getByRole("button", { name: "Pause" }).click()
          await said(page, "default paused")
        })
        const id = yield* enqueue()
        yield* step(async () => {
          await page.goto(`${url}/ui/#/jobs/${id}`)
          await button(page, "Cancel").waitFor()
          await said(page, 'Queue "default" is paused')
          await page.getByRole("link", { name: "Queues", exact: true }).click()
          await button(page, "Actions of default").press("Enter")
          await queueRow(page, "default").getByRole("button", { name: "Resume" }).press("Enter")
          await page.goto(`${url}/ui/#/jobs/${id}`)
          await button(page, "Requeue").waitFor()
          await said(page, "It is done.")
        })
      })
    )

    it.scoped("sees what runs in the slots of a pod, and gets there from the job", () =>
      Effect.gen(function* () {
        const { enqueue, enter } = yield* ControlRoom
        const id = yield* enqueue({ payload: { sleep_ms: 60_000 } })
        const page = yield* enter(`jobs/${id}`)
        yield* step(async () => {
          const details = region(page, "Details")
          const name = await details.locator('a[href*="/pods/"]').innerText()
          // One name everywhere: in the details, in the reason and on the page of the pod.
          await page.getByRole("status").getByRole("link", { name }).click()
          const runs = region(page, name).getByRole("row", { name: /noop_echo/ })
          await runs.getByText(/^\d+(\.\d)? (ms|s)$/).waitFor()
          await runs.getByRole("link", { name: "noop_echo" }).click()
          await button(page, "Cancel").click()
          await page.locator(".head .state.cancelled").waitFor()
        })
      })
    )

    it.scoped("requeues a group of dead jobs after seeing their number", () =>
      Effect.gen(function* () {
        const { api, bury, enter } = yield* ControlRoom
        const ids = yield* Effect.forEach([1, 2, 3], () => bury("parcel"))
        const page = yield* enter("dead")
        yield* step(async () => {
          const group = region(page, "Dead jobs by error").getByRole("row").filter({ hasText: "parcel" })
          await group.getByRole("button", { name: "Requeue all" }).click()
          const dialog = page.getByRole("dialog")
          await dialog.getByText("Requeue 3 jobs?").waitFor()
          await dialog.getByLabel("Reason (for the audit log)").fill("the attic is open again")
          await dialog.getByRole("button", { name: "Requeue 3" }).click()
          await said(page, "3 jobs requeued")
          await group.waitFor({ state: "detached" })
        })
        const jobs = yield* Effect.forEach(ids, (id) => api<{ state: string }>("GET", `jobs/${id}`))
        expect(jobs.map(({ state }) => state)).toEqual(["pending", "pending", "pending"])
        const audit = yield* api("GET", "audit?act=jobs&limit=1")
        expect(JSON.stringify(audit)).toContain("the attic is open again")
      })
    )

    it.scoped("cancels a running job", () =>
      Effect.gen(function* () {
        const { enqueue, enter } = yield* ControlRoom
        const id = yield* enqueue({ payload: { sleep_ms: 600_000 } })
        const page = yield* enter(`jobs/${id}`)
        yield* step(async () => {
          await page.locator(".head .state.running").waitFor()
          await button(page, "Cancel").click()
          await page.locator(".head .state.cancelled").waitFor()
          await region(page, "Timeline").getByText("cancelled").first().waitFor()
        })
      })
    )

    it.scoped("changes the payload of a waiting job, and sees an error when it is not JSON", () =>
      Effect.gen(function* () {
        const { api, enqueue, enter } = yield* ControlRoom
        const id = yield* enqueue({ payload: { message: "before" }, runAt: inAnHour() })
        const page = yield* enter(`jobs/${id}`)
        yield* step(async () => {
          await button(page, "Edit").click()
          const dialog = page.getByRole("dialog")
          await dialog.getByLabel("Payload").fill('{"message": ')
          await dialog.getByRole("button", { name: "Save" }).click()
          await dialog.getByRole("alert").getByText("The payload is not valid JSON").waitFor()
          await dialog.getByLabel("Payload").fill('{"message": "after"}')
          // The message stays for five seconds only.
          await Promise.all([said(page, "noop_echo saved"), dialog.getByRole("button", { name: "Save" }).click()])
          await region(page, "payload").getByText('"after"').waitFor()
        })
        expect(yield* api("GET", `jobs/${id}`)).toMatchObject({ payload: { message: "after" } })
      })
    )

    it.scoped("creates a schedule and sees it fire", () =>
      Effect.gen(function* () {
        const { enter } = yield* ControlRoom
        const page = yield* enter("schedules")
        yield* step(async () => {
          await button(page, "New schedule").click()
          const form = page.getByRole("form", { name: "New schedule" })
          await form.getByLabel("Name").fill("every_second")
          await form.getByLabel("Kind").fill("noop_echo")
          await form.getByLabel("Expression").fill("* 25 * * *")
          await form.getByText("The expression is invalid: its hour").waitFor()
          await form.getByLabel("Expression").fill("* * * * * *")
          await form.getByText("every second", { exact: true }).waitFor()
          await form.getByRole("button", { name: "Save" }).click()
          await said(page, "every_second created")
          const card = region(page, "every_second")
          await card.getByText("every second", { exact: true }).waitFor()
          await card.getByRole("button", { name: "History" }).click()
          const runs = region(page, "History of every_second").getByRole("listitem")
          const fired = runs.filter({ hasText: /ago\s*fired/ }).filter({ hasText: "done" })
          await fired.first().waitFor()
          await button(page, "Actions of every_second").click()
          await card.getByRole("button", { name: "Trigger" }).click()
          await runs.filter({ hasText: "triggered by ui:admin" }).filter({ hasText: "done" }).waitFor()
          await fired.last().getByRole("link", { name: "done" }).click()
          await page.getByRole("heading", { name: "noop_echo" }).waitFor()
          await page.goBack()
          await region(page, "every_second").getByRole("link", { name: "view job" }).click()
          await page.getByRole("heading", { name: "noop_echo" }).waitFor()
          await page.goBack()
          await button(page, "Actions of every_second").click()
          await region(page, "every_second").getByRole("button", { name: "Delete" }).click()
          await said(page, "every_second deleted")
        })
      })
    )

    it.scoped("finds a job by a payload field, at an address that can be shared", () =>
      Effect.gen(function* () {
        const { enqueue, enter } = yield* ControlRoom
        for (const order of ["o-6", "o-7"]) yield* enqueue({ payload: { message: { order } }, runAt: inAnHour() })
        const page = yield* enter("jobs")
        yield* step(async () => {
          await page.getByLabel("Payload contains").fill('{"message":{"order":"o-7"}}')
          await page.keyboard.press("Enter")
          await page.getByText("o-6").waitFor({ state: "detached" })
        })
        const address = page.url()
        expect(address).toContain("o-7")
        const other = yield* enter("overview", "viewer")
        yield* step(async () => {
          await other.goto(address)
          await other.getByRole("row").filter({ hasText: "o-7" }).waitFor()
        })
        expect(yield* step(() => other.locator("tbody tr").count())).toBe(1)
      })
    )

    jobListStories(it)

    it.scoped("sees a queue's outcomes of the last hour at a glance", () =>
      Effect.gen(function* () {
        const { enqueue, enter } = yield* ControlRoom
        yield* enqueue({ payload: { message: "done" } })
        yield* enqueue({ payload: { fail: "on purpose" }, attempts: 1 })
        const page = yield* enter("queues")
        const card = queueRow(page, "default")
        // The chart takes the space that was reserved before it had data.
        const line = card.locator("svg.spark")
        const place = step(async () => {
          const [inner, outer] = [await line.boundingBox(), await card.boundingBox()]
          // Numbers in other columns may move it sideways.
          return { below: (inner?.y ?? 0) - (outer?.y ?? 0), high: outer?.height }
        })
        const before = yield* place
        yield* step(async () => {
          await card.getByRole("img", { name: /In the last hour [1-9]\d* done, [1-9]\d* dead/ }).waitFor()
          await card.getByText(/^(<0\.1|\d+(\.\d)?)\/min$/).waitFor()
        })
        expect(yield* place).toEqual(before)
        for (const shape of ["done", "dead"]) {
          expect(yield* step(() => line.locator(`path.${shape}`).getAttribute("d"))).toMatch(/^M\d/)
        }
        const idle = queueRow(page, "bot-helper").getByRole("img", {
          name: "No jobs finished in the last hour"
        })
        yield* step(() => idle.waitFor())
      })
    )

    it.scoped("zooms into a chart by dragging, and back out", () =>
      Effect.gen(function* () {
        const { enter } = yield* ControlRoom
        const page = yield* enter("overview")
        yield* step(async () => {
          // The notice line always exists, so that a warning does not shift the chart.
          await page.locator(".notice").waitFor()
          const chart = page.getByRole("img", { name: "Throughput" }).locator(".u-over")
          const box = await chart.boundingBox()
          if (box === null) throw new Error("The chart is not shown.")
          const middle = box.y + box.height / 2
          await page.mouse.move(box.x + box.width * 0.4, middle)
          await page.mouse.down()
          await page.mouse.move(box.x + box.width * 0.6, middle, { steps: 4 })
          await page.mouse.up()
          await button(page, "Zoom out").click()
          await button(page, "Zoom out").waitFor({ state: "detached" })
          await button(page, "30 m").and(page.locator("[aria-pressed=true]")).waitFor()
        })
        // Axis labels: 24-hour times, and dates when the range has several days.
        const written: Array<string> = []
        const range = async (name: string, expected: RegExp) => {
          const seen = page.waitForEvent("console", (message) => expected.test(message.text()))
          await button(page, name).click()
          await seen
        }
        yield* step(async () => {
          page.on("console", (message) => written.push(message.text()))
          await page.evaluate(tellText)
          await range("24 h", /^\d\d:00$/)
          await range("7 d", /^[A-Z][a-z]+ \d+$/)
        })
        expect(written.filter((text) => /\d *[ap]m/i.test(text))).toEqual([])
      })
    )

    it.scoped("sees deliveries to bots with their jobs, and pending files", () =>
      Effect.gen(function* () {
        const { deliver, enter, push, upload } = yield* ControlRoom
        const update = {
          update_id: 77,
          message: { message_id: 1, date: 1, chat: { id: 5, type: "private" }, text: "hi" }
        }
        for (let time = 0; time < 3; time += 1) expect((yield* deliver("helper", update)).status).toBe(200)
        expect((yield* deliver("parrot", update)).status).toBe(200)
        expect((yield* push("d-1")).status).toBe(200)
        yield* upload("acme", "report.pdf")
        const page = yield* enter("bots")
        yield* step(async () => {
          const helper = region(page, "helper")
          await helper.getByText("2 duplicate").waitFor()
          await helper.getByRole("button", { name: "Deliveries" }).click()
          const row = helper.getByRole("row").filter({ hasText: "77" })
          await row.getByText("2×").waitFor()
          await row.getByText("stored").waitFor()
          await region(page, "parrot").getByRole("button", { name: "Deliveries" }).click()
          await region(page, "parrot").getByRole("row").filter({ hasText: "answered" }).getByText("none").waitFor()
          await region(page, "ci").getByRole("button", { name: "Deliveries" }).click()
          await region(page, "ci").getByRole("row").filter({ hasText: "d-1" }).getByRole("link").click()
          await page.getByRole("heading", { name: "noop_echo" }).waitFor()
          await page.keyboard.press("g")
          await page.keyboard.press("u")
          await page.getByRole("row").filter({ hasText: "report.pdf" }).getByText("waiting").waitFor()
          await page.getByLabel("State").selectOption("acked")
          await page.getByText("No files match this filter.").waitFor()
        })
      })
    )

    it.scoped("finds a job by whatever is at hand, and reads its run to scale", () =>
      Effect.gen(function* () {
        const { enqueue, enter, bury } = yield* ControlRoom
        const payload = { order: { id: 7 } }
        const dedupe = { key: "order-7", scope: "active" }
        const id = yield* enqueue({ kind: "quest", queue: "attic", payload, dedupe, runAt: inAnHour() })
        yield* enqueue({ kind: "quest", queue: "attic", payload: { order: { id: 8 } }, runAt: inAnHour() })
        yield* bury("quest", "the bridge is closed")
        const page = yield* enter("jobs")
        const search = async (text: string, count: string) => {
          await page.keyboard.press("/")
          await page.keyboard.press("Control+a")
          await page.keyboard.type(text)
          await page.keyboard.press("Enter")
          await page.locator(".head .chip").getByText(count, { exact: true }).waitFor()
          await page.keyboard.press("Escape")
        }
        yield* step(async () => {
          await search("quest", "3")
          await search(id.slice(4, 30), "1")
          await search("order-7", "1")
          await search("bridge is", "1")
          await search("order.id=7", "1")
          await page.keyboard.press("/")
          await page.keyboard.type('{"order":')
          await page.keyboard.press("Enter")
          await page.getByRole("alert").getByText("The search is not valid JSON").waitFor()
          await page.keyboard.press("Control+a")
          await page.keyboard.type(id)
          await page.keyboard.press("Enter")
          await page.getByRole("heading", { name: "quest" }).waitFor()
          await page
            .getByRole("region", { name: "Timeline" })
            .getByRole("img", { name: /^not due: / })
            .waitFor()
          await page.waitForFunction(`/^production · \\d.* dead.*Mission Control$/.test(document.title)`)
        })
      })
    )

    it.scoped("enqueues a job by hand, and goes from it to its kind and its queue", () =>
      Effect.gen(function* () {
        const { enqueue, enter } = yield* ControlRoom
        yield* enqueue({ payload: { fail: "boom 17" }, attempts: 1 })
        const page = yield* enter("jobs")
        yield* step(async () => {
          await button(page, "Enqueue").click()
          const dialog = page.getByRole("dialog", { name: "Enqueue a job" })
          await dialog.getByLabel("Kind").fill("noop_echo")
          const payload = dialog.getByLabel("Payload")
          await payload.fill('{"message":')
          await dialog.getByText("The payload is not valid JSON").first().waitFor()
          // A message says what is wrong and where, and a wrong value is found by it.
          await payload.fill('{\n  "message": "a",\n  "sleep_ms": "soon"\n}')
          await dialog.getByRole("status").getByText("sleep_ms must be").waitFor()
          await dialog.getByRole("button", { name: "Line 3" }).click()
          await page.waitForFunction(`getSelection().toString() === '"soon"'`)
          await dialog.getByLabel("Payload").fill('{"message":"by hand"}')
          await dialog.getByLabel("Delay").fill("soon")
          await dialog.getByRole("button", { name: "Enqueue" }).click()
          await dialog.getByText("delay must be a duration like 90s, 30m, 1h30m or 7d").waitFor()
          await dialog.getByLabel("Delay").fill("30d")
          await dialog.getByRole("button", { name: "Enqueue" }).click()
          await page.locator(".head .state.scheduled").waitFor()
          await page.getByText("in 29 d 23 h").or(page.getByText("in 30 d")).first().waitFor()
          const details = page.getByRole("region", { name: "Details" })
          await details.getByRole("link", { name: "noop_echo" }).click()
          await page.getByText("error rate").waitFor()
          await page.getByRole("region", { name: "Recent failures" }).getByText("boom 17").waitFor()
          await page.goBack()
          await details.getByRole("link", { name: "default" }).click()
          await page.getByRole("region", { name: "Newest jobs" }).getByText("by hand").waitFor()
          await page.getByRole("region", { name: "default" }).getByRole("button", { name: "Pause" }).waitFor()
        })
      })
    )

    it.scoped("gets live updates again after the service is restarted", () =>
      Effect.gen(function* () {
        const { enqueue, enter, restart } = yield* ControlRoom
        const page = yield* enter("jobs?kind=postcard")
        yield* step(() => page.getByText("No jobs match this filter.").waitFor())
        yield* restart
        yield* step(async () => {
          await button(page, "Live").waitFor({ timeout: 30_000 })
          await page.getByLabel("Search", { exact: true }).fill("half a wo")
        })
        yield* enqueue({ kind: "postcard", queue: "attic" })
        yield* step(() => page.getByRole("link", { name: "postcard" }).waitFor())
        // Live updates do not overwrite text that is being typed.
        expect(yield* step(() => page.getByLabel("Search", { exact: true }).inputValue())).toBe("half a wo")
      })
    )
  }
)
