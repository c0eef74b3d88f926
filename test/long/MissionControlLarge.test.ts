import { expect, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { ControlRoom, queueRow } from "../journeys/fixtures/ControlRoom.js"
import { button, query, said, step } from "../journeys/fixtures/OperatorSteps.js"
import { Browser } from "../support/Browser.js"

// Pages of a service with many queues and many jobs.

const pending = (queue: string, count: number) => `
  insert into nightshift.job (id, queue, kind, payload, max_attempts, status, run_at, created_at, updated_at)
  select gen_random_uuid(), '${queue}', 'drop', '{}', 5, 'pending', 'yesterday', 'now', 'now'
  from generate_series(1, ${count});`

const dead = (count: number) => `
  insert into nightshift.job (id, queue, kind, payload, max_attempts, attempt, status, run_at, created_at, updated_at,
    finished_at, dead_reason, last_error)
  select gen_random_uuid(), 'graves', 'sink', '{}', 3, 3, 'dead', 'now', 'now', 'now', 'now', 'exhausted', 'leak ' || n
  from generate_series(1, ${count}) as n;`

layer(Layer.merge(Browser.layer, ControlRoom.layer), { excludeTestServices: true, timeout: "3 minutes" })(
  "Mission Control with many jobs",
  (it) => {
    it.scoped("marks an estimate as one, and shows small queues exactly", () =>
      Effect.gen(function* () {
        const many = Array.from({ length: 112 }, (_, index) => pending(`small${index}`, 3)).join("\n")
        yield* query(`${pending("flood", 50_000)}\n${many}`)
        const { enter } = yield* ControlRoom
        const page = yield* enter("queues")
        yield* step(async () => {
          await queueRow(page, "flood").getByRole("link", { name: "~50K" }).waitFor()
          await page.getByLabel("Filter queues").fill("small7")
          await queueRow(page, "small7").getByRole("link", { name: "3", exact: true }).waitFor()
        })
      })
    )

    it.scoped("asks for the count before an action on many jobs, and acts on those that were counted", () =>
      Effect.gen(function* () {
        yield* query(dead(1_200))
        const { enter } = yield* ControlRoom
        const page = yield* enter("dead")
        const dialog = page.getByRole("dialog", { name: "Requeue 1,200 jobs?" })
        const confirm = dialog.getByRole("button", { name: "Requeue 1,200 jobs" })
        yield* step(async () => {
          const row = page.getByRole("row").filter({ hasText: "leak #" }).first()
          await row.getByRole("button", { name: "Requeue all" }).click()
          await dialog.getByText("Can be undone for an hour.").waitFor()
        })
        expect(yield* step(() => confirm.isDisabled())).toBe(true)
        yield* query(dead(5))
        yield* step(async () => {
          await dialog.getByLabel("Type 1,200 to confirm").fill("1,199")
        })
        expect(yield* step(() => confirm.isDisabled())).toBe(true)
        yield* step(async () => {
          await dialog.getByLabel("Type 1,200 to confirm").fill("1200")
          await confirm.click()
          await said(page, "1,200 jobs requeued")
        })
      })
    )

    it.scoped("shows queues without a worker as one incident, below the jobs that died", () =>
      Effect.gen(function* () {
        yield* query(dead(12))
        const { enter } = yield* ControlRoom
        const page = yield* enter("overview")
        const incidents = page.getByRole("region", { name: "Needs attention" }).getByRole("link")
        // About 51,500 jobs: the flood, the small queues and what was requeued. An estimate is right within 5 %.
        const unserved = /^11\d queues have no worker: ~(49|5[0-4]).*jobs due, oldest 1 d/
        yield* step(() => incidents.filter({ hasText: unserved }).waitFor())
        const texts = yield* step(() => incidents.allInnerTexts())
        expect(texts.length).toBeLessThanOrEqual(5)
        expect(texts[0]).toMatch(/sink jobs died \(exhausted\): leak #/)
      })
    )

    it.scoped("finds a job by its dedupe key above the list of other matches", () =>
      Effect.gen(function* () {
        const { enqueue, enter } = yield* ControlRoom
        const id = yield* enqueue({ queue: "attic", dedupe: { key: "order-A-17", scope: "retained" } })
        const page = yield* enter("jobs")
        yield* step(async () => {
          await page.getByLabel("Search", { exact: true }).fill("order-A-17")
          await page.keyboard.press("Enter")
          await page.getByRole("region", { name: "Found by id or key" }).getByRole("link", { name: id }).waitFor()
          await button(page, "Remove id, key, kind or error contains order-A-17").waitFor()
        })
      })
    )
  }
)
