import { expect, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { ControlRoom } from "../journeys/fixtures/ControlRoom.js"
import {
  button,
  drawer,
  inAnHour,
  jobOf,
  openActions,
  query,
  said,
  state,
  step,
  until
} from "../journeys/fixtures/OperatorSteps.js"
import { Browser } from "../support/Browser.js"
import * as Nightshift from "../support/Nightshift.js"

// What operators did, and how they act on an incident.

layer(Layer.merge(Browser.layer, ControlRoom.layer), { excludeTestServices: true, timeout: "3 minutes" })(
  "at Mission Control an operator who acts",
  (it) => {
    it.scoped("finds recent actions of everybody in a drawer and undoes one, announced once", () =>
      Effect.gen(function* () {
        const { api, enqueue, enter } = yield* ControlRoom
        const id = yield* enqueue({ kind: "postcard", queue: "attic", runAt: inAnHour() })
        const before = yield* jobOf(id)
        yield* api("PATCH", "queues/imports", { paused: true })
        const page = yield* enter(`jobs/${id}`)
        yield* step(async () => {
          await state(page, "scheduled")
          await button(page, "Cancel").click()
          await state(page, "cancelled")
          const toast = page.locator(".toast")
          await toast.getByText("postcard cancelled", { exact: true }).waitFor()
          expect(await toast.getByRole("button", { name: "Undo" }).count()).toBe(0)
          // The announcement leads to the list, which stays when the announcement is gone.
          await toast.getByRole("button", { name: "Recent actions" }).click()
          await toast.waitFor({ state: "detached" })
          const rows = drawer(page).getByRole("listitem")
          await rows.first().getByText("postcard cancelled").waitFor()
          expect(await rows.first().innerText()).toMatch(/ui:admin, (now|.* ago)\s+(59 min|1 h) left/)
          expect(await rows.nth(1).innerText()).toMatch(/queue imports paused[\s\S]*api:admin/)
          await drawer(page).getByRole("button", { name: "Undo: postcard cancelled" }).click()
          await said(page, "Undone: postcard cancelled")
          await rows.first().getByText("undone").waitFor()
          await state(page, "scheduled")
          expect(await page.locator(".toast").count()).toBe(1)
          expect(await drawer(page).getByRole("button", { name: "Undo: postcard cancelled" }).count()).toBe(0)
        })
        expect(yield* jobOf(id)).toEqual(before)
        yield* step(async () => {
          await page.keyboard.press("Escape")
          await drawer(page).waitFor({ state: "detached" })
          await page.evaluate(`location.hash = "#/audit"`)
          const recent = page.getByRole("region", { name: "Recent actions" })
          await recent.getByRole("button", { name: "Undo: queue imports paused" }).click()
          await said(page, "Undone: queue imports paused")
          await recent.getByText("queue imports resumed").waitFor()
        })
        const guest = yield* enter("overview", "viewer")
        yield* step(async () => {
          await openActions(guest)
          await drawer(guest).getByText("queue imports resumed").waitFor()
          expect(await drawer(guest).getByRole("button", { name: /^Undo/ }).count()).toBe(0)
        })
      })
    )

    it.scoped("resumes a queue from its incident, copies a command, and snoozes another with a reason", () =>
      Effect.gen(function* () {
        const { api, enqueue, enter } = yield* ControlRoom
        yield* api("PATCH", "queues/imports", { paused: true })
        yield* Effect.forEach([1, 2], () => enqueue({ queue: "imports" }))
        yield* enqueue({ queue: "nobody" })
        const page = yield* enter("overview")
        const attention = page.getByRole("region", { name: "Needs attention" })
        const line = (text: RegExp) => attention.getByRole("listitem").filter({ hasText: text })
        yield* step(async () => {
          await page.context().grantPermissions(["clipboard-read", "clipboard-write"])
          await line(/has no worker|have no worker/)
            .getByRole("button", { name: "Copy command" })
            .click()
          await said(page, "Command copied")
          expect(await page.evaluate("navigator.clipboard.readText()")).toMatch(
            /^NIGHTSHIFT_QUEUES=\S*nobody\S* nightshift serve$/
          )
          await line(/Queue imports is paused/)
            .getByRole("button", { name: "Resume" })
            .click()
          await said(page, "imports resumed")
          await line(/Queue imports is paused/).waitFor({ state: "detached" })
          await line(/no worker/)
            .getByRole("button", { name: /^Snooze/ })
            .click()
          const dialog = page.getByRole("dialog", { name: "Snooze this incident?" })
          const save = dialog.getByRole("button", { name: "Snooze" })
          expect(await save.isDisabled()).toBe(true)
          await dialog.getByLabel("Reason").fill("the worker is deployed at nine")
          await save.click()
          await line(/no worker/).waitFor({ state: "detached" })
          await button(page, "Show 1 snoozed").click()
          await line(/no worker/)
            .getByText("the worker is deployed at nine")
            .waitFor()
          await line(/no worker/)
            .getByRole("button", { name: /^Show again/ })
            .click()
          await line(/no worker/)
            .getByRole("button", { name: "Copy command" })
            .waitFor()
        })
        const { entries } = yield* api<{ entries: ReadonlyArray<object> }>("GET", "audit?act=incident")
        expect(entries).toMatchObject([
          { act: "incident.wake", who: "ui:admin" },
          { act: "incident.snooze", who: "ui:admin", reason: "the worker is deployed at nine" }
        ])
      })
    )

    it.scoped("rehearses a requeue, which stops if the cause is not fixed and goes on if it is", () =>
      Effect.gen(function* () {
        const { api, enqueue, enter } = yield* ControlRoom
        const error = "the cable is cut"
        const jobs = Array.from({ length: 7 })
        yield* Effect.forEach(jobs, () => enqueue({ payload: { fail: error }, attempts: 1 }))
        const path = `jobs?text=${encodeURIComponent(error)}&state=dead`
        const dead = Effect.map(api<{ total: { count: number } }>("GET", path), ({ total }) => total.count)
        yield* until(dead, (count) => count === 7)
        const page = yield* enter(`dead?text=${encodeURIComponent(error)}`)
        const dialog = page.getByRole("dialog")
        const requeue = async () => {
          await button(page, "Requeue").click()
          await dialog.getByLabel(/^Rehearse/).check()
          await dialog.getByRole("button", { name: "Requeue 7 jobs" }).click()
        }
        yield* step(async () => {
          await requeue()
          await dialog
            .getByText(/rehearsed jobs? failed again: the cable is cut\. The others were not requeued\./)
            .waitFor()
          await dialog.getByRole("button", { name: "Close" }).click()
        })
        // The two jobs that were not rehearsed have died only once.
        expect(yield* until(dead, (count) => count === 7)).toBe(7)
        const { jobs: after } = yield* api<{ jobs: ReadonlyArray<{ history: ReadonlyArray<unknown> }> }>("GET", path)
        expect(after.filter(({ history }) => history.length === 1).length).toBe(2)
        yield* query(["update nightshift.job set payload = '{}' where last_error like '%' || $1 || '%'", [error]])
        yield* step(async () => {
          await page.reload()
          await requeue()
          // The rehearsal may have ended before it is shown.
          const shown = dialog.getByText(/^Rehearsal: \d of 5 succeeded\. The other 2 follow if all of them do\.$/)
          await shown.or(page.getByRole("status").getByText("7 jobs requeued")).first().waitFor()
          await said(page, "7 jobs requeued")
        })
        expect(yield* dead).toBe(0)
      })
    )

    it.scoped("rehearses on the command line, which reports why it stopped", () =>
      Effect.gen(function* () {
        const { api, database, enqueue } = yield* ControlRoom
        const error = "the bridge is closed"
        yield* Effect.forEach([1, 2, 3], () => enqueue({ payload: { fail: error }, attempts: 1 }))
        const path = `jobs?text=${encodeURIComponent(error)}&state=dead`
        const dead = Effect.map(api<{ total: { count: number } }>("GET", path), ({ total }) => total.count)
        yield* until(dead, (count) => count === 3)
        const running = yield* Nightshift.start(["jobs", "requeue", "--text", error, "--rehearse", "2"], {
          cwd: yield* Nightshift.folder,
          env: { DATABASE_URL: database }
        })
        const { code, stderr, stdout } = yield* running.finished
        expect({ code, stdout }).toEqual({ code: 1, stdout: "requeued 2 jobs\n" })
        expect(stderr).toMatch(
          /of 2 rehearsed jobs failed again: .*the bridge is closed\. The others were not requeued\./
        )
      })
    )

    it.scoped("chooses a rise of failures and reads what preceded it", () =>
      Effect.gen(function* () {
        const { api, bury, enter } = yield* ControlRoom
        yield* api("PATCH", "queues/attic", { paused: true })
        yield* Effect.forEach([1, 2, 3, 4, 5, 6], (n) => bury("leaflet", `no room for box ${n}`))
        yield* query([
          `insert into nightshift.job_bucket (minutes, start, queue, kind, pod_id, revision, enqueued, started, completed,
               retried, dead, cancelled, rescued, processing_sum, processing_max, processing, total_sum, total_max, total)
             values (1, date_trunc('minute', $1::timestamptz), 'attic', 'leaflet', gen_random_uuid(), 1, 6, 6, 0, 0, 6, 0, 0,
               0, 0, '', 0, 0, '')`,
          [new Date()]
        ])
        const page = yield* enter("queues/attic")
        const changed = page.getByRole("region", { name: "What changed" })
        yield* step(async () => {
          await changed.getByRole("button", { name: /failures rose from 0 to 6 per minute$/ }).click()
          const lines = changed.getByRole("listitem")
          await lines.getByText(/^\d+ s before, queue attic paused \(by api:admin, see the audit log\)$/).waitFor()
          await lines.getByText(/^100% of dead jobs have the same new error.*: leaflet: no room for box #$/).waitFor()
          await changed.getByRole("button", { name: "Show all changes" }).click()
          await changed
            .getByText(/(?<!same )new error: leaflet: no room for box #/)
            .first()
            .waitFor()
        })
        yield* api("PATCH", "queues/attic", { paused: false })
      })
    )

    it.scoped("reads why a bulk action stopped after its dialog was closed, and why its undo did", () =>
      Effect.gen(function* () {
        const { api, bury, enter } = yield* ControlRoom
        const error = "the lamp is broken"
        yield* Effect.forEach(Array.from({ length: 7 }), () => bury("lamp", error))
        const page = yield* enter(`dead?text=${encodeURIComponent(error)}`)
        const dialog = page.getByRole("dialog")
        yield* step(async () => {
          await button(page, "Requeue").click()
          await dialog.getByLabel(/^Rehearse/).check()
          await dialog.getByRole("button", { name: "Requeue 7 jobs" }).click()
          await dialog.getByText("Rehearsal: 0 of 5 succeeded. The other 2 follow if all of them do.").waitFor()
          await dialog.getByRole("button", { name: "Close" }).click()
          await dialog.waitFor({ state: "detached" })
        })
        const { jobs } = yield* api<{ jobs: ReadonlyArray<{ id: string }> }>("GET", "jobs?kind=lamp&state=pending")
        yield* api("POST", `jobs/${jobs[0]?.id}/cancel`)
        const why = "1 of 5 rehearsed jobs failed again. The others were not requeued."
        yield* step(async () => {
          await said(page, `5 jobs requeued. ${why}`)
          await openActions(page)
          await drawer(page).getByText(`Failed: ${why}`).waitFor()
        })
        yield* Effect.acquireRelease(
          query(
            "create function nightshift.refuse() returns trigger language plpgsql as $$ begin raise exception 'no'; end $$",
            `create trigger refuse before update on nightshift.job for each row when (old.kind = 'lamp')
               execute function nightshift.refuse()`
          ),
          () => query("drop function nightshift.refuse cascade")
        )
        yield* step(async () => {
          await drawer(page).getByRole("button", { name: "Undo: 5 jobs requeued" }).first().click()
          await said(page, "0 jobs restored. The database rejected a statement. See the log for details.")
        })
      })
    )

    it.scoped("sees that a queue is paused while live updates are paused", () =>
      Effect.gen(function* () {
        const { api, enqueue, enter } = yield* ControlRoom
        yield* enqueue({ queue: "attic" })
        const page = yield* enter("queues/attic")
        yield* step(async () => {
          await page.getByRole("button", { name: "Live" }).click()
          await button(page, "Paused").waitFor()
          await page.clock.install()
          await button(page, "Pause").click()
          await button(page, "Resume").waitFor()
          // Longer than the page waits for an event.
          await page.clock.runFor(6_000)
          await page.evaluate("new Promise(requestAnimationFrame)")
        })
        expect(yield* step(() => button(page, "Resume").count())).toBe(1)
        yield* api("PATCH", "queues/attic", { paused: false })
      })
    )
  }
)
