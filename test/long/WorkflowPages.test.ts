import { expect, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { connect, event, worker, workflow } from "nightshift/client"
import type { Page } from "playwright-core"
import { z } from "zod"
import { ControlRoom } from "../journeys/fixtures/ControlRoom.js"
import { findings, sidewaysOf } from "../journeys/fixtures/PageChecks.js"
import { Browser } from "../support/Browser.js"
import { countStreams, streamsOf, turn } from "../support/HiddenTab.js"

const step = <A>(act: () => Promise<A>) => Effect.promise(act)

// The service's own pod does not serve this queue.
const queue = "orders"

const shipment = workflow("shipment", { payload: z.string(), queue }, (item, step) =>
  step.run("print label", () => `label of ${item}`)
)

const order = workflow(
  "order",
  { payload: z.object({ id: z.string(), items: z.array(z.string()) }), key: ({ id }) => id, queue },
  async ({ id, items }, step) => {
    const charge = ({ attempt }: { readonly attempt: number }) => {
      if (attempt === 1) throw new Error("the bank is closed")
      return { payment: `payment of ${id}` }
    }
    await step.run("charge", charge, { attempts: 3, backoff: "200ms", undo: () => undefined })
    await step.sleep("cool off", "300ms")
    const approval = await step.waitFor<{ by: string }>("approval", { timeout: "7d" })
    await step.all("ship", items, (item) => shipment(item))
    return { approvedBy: approval?.by }
  }
)

let startsCopying: () => void = () => {}
const isCopying = new Promise<void>((resolve) => {
  startsCopying = resolve
})

/** A step that runs until its process stops. A second execution waits for its permit. */
const copy = workflow(
  "copy",
  { payload: z.object({ table: z.string() }), key: ({ table }) => table, queue },
  (_, step) =>
    step.run(
      "rows",
      ({ heartbeat, signal }) => {
        heartbeat({ page: 7 })
        startsCopying()
        return new Promise((_, reject) => signal.addEventListener("abort", reject))
      },
      { concurrency: 1, timeout: "2h" }
    )
)

/** Writes a stream, and fails its first attempt. */
const chat = workflow(
  "chat",
  { payload: z.object({ id: z.string() }), key: ({ id }) => id, queue },
  async (_, step) => {
    await step.stream(
      "tokens",
      async function* ({ attempt }) {
        yield `attempt ${attempt}: `
        if (attempt === 1) throw new Error("the model is busy")
        yield { tool: "search" }
        yield "good evening"
      },
      { backoff: "200ms" }
    )
  }
)

let continuesTalk: () => void = () => {}
const isTalkContinued = new Promise<void>((resolve) => {
  continuesTalk = resolve
})

/** Writes a stream that ends when the test says so. */
const talk = workflow(
  "talk",
  { payload: z.object({ id: z.string() }), key: ({ id }) => id, queue },
  async (_, step) => {
    await step.stream("words", async function* () {
      yield "one "
      await isTalkContinued
      yield "two"
    })
  }
)

const packed = event("order.packed", z.object({ order: z.string() }))
const parcel = workflow("parcel", { payload: z.object({ id: z.string() }), key: ({ id }) => id, queue }, (_, step) =>
  step.waitForEvent(packed)
)

/** A worker beside the service, and executions that wait for an approval. */
const orderly = Effect.gen(function* () {
  const { database } = yield* ControlRoom
  const shift = yield* Effect.acquireRelease(
    step(() => connect(database, { log: false })),
    (shift) => step(() => shift.close())
  )
  yield* Effect.acquireRelease(
    step(() => worker(shift, { handlers: [order, shipment, copy, chat, talk, parcel], grace: "10ms" })),
    (running) => step(() => running.stop())
  )
  yield* step(async () => {
    await shift.start(chat, { id: "1" })
    await shift.start(talk, { id: "1" })
    await shift.start(parcel, { id: "1" })
    for (const id of ["A-17", "B-1"]) await shift.start(order, { id, items: ["book", "lamp"] })
    await shift.start(copy, { table: "users" })
    await isCopying
    await shift.start(copy, { table: "bills" })
  })
})

/** Pictures to look at, if a folder is given. */
const picture = (page: Page, name: string) =>
  step(async () => {
    const folder = process.env.PICTURES
    if (folder !== undefined) await page.screenshot({ path: `${folder}/${name}.png`, fullPage: true })
  })

const status = (page: Page, word: string) =>
  page.locator(".head .state").getByText(word, { exact: true }).waitFor({ timeout: 20_000 })

const ordered = Layer.provideMerge(Layer.scopedDiscard(orderly), ControlRoom.layer)

layer(Layer.merge(Browser.layer, ordered), { excludeTestServices: true, timeout: "3 minutes" })(
  "the workflow pages of Mission Control",
  (it) => {
    it.scoped(
      "list the streams of an execution and follow one",
      () =>
        Effect.gen(function* () {
          const { enter } = yield* ControlRoom
          const page = yield* enter("workflows/chat%2F1")
          yield* step(async () => {
            await status(page, "done")
            const row = page.getByRole("row").filter({ hasText: "tokens" }).filter({ hasText: "Follow" })
            expect(await row.getByRole("cell").allTextContents()).toEqual(
              expect.arrayContaining(["done", "tokens", "2", "3"])
            )
            await row.getByRole("button", { name: "Follow" }).click()
            await page.getByText("generation 2: The stream has ended.").waitFor()
            expect(await page.locator("pre.tail").textContent()).toBe('attempt 2: {"tool":"search"}\ngood evening')
          })
          yield* picture(page, "streams")
          expect(yield* findings(page)).toEqual([])
        }),
      60_000
    )

    it.scoped(
      "follow a stream only while they are shown, and continue behind its last chunk",
      () =>
        Effect.gen(function* () {
          const { enter, url } = yield* ControlRoom
          const page = yield* enter("overview")
          yield* step(async () => {
            await countStreams(page.context())
            await page.goto(`${url}/ui/?#/workflows/talk%2F1`)
            await page.getByRole("row").filter({ hasText: "words" }).getByRole("button", { name: "Follow" }).click()
            await page.getByText("words: Live.").waitFor()
            await page.locator("pre.tail").getByText("one").waitFor()
            expect(await streamsOf(page)).toBe(2)
            await turn(page, "hidden")
            await page.getByText("words: Connecting.").waitFor()
            await page.getByRole("button", { name: "Connecting…" }).waitFor()
            expect(await streamsOf(page)).toBe(0)
            continuesTalk()
            await turn(page, "visible")
            await page.getByText("words: The stream has ended.").waitFor()
            expect(await page.locator("pre.tail").textContent()).toBe("one two")
            await page.getByRole("button", { name: "Live" }).waitFor()
          })
        }),
      120_000
    )

    it.scoped(
      "grey the rows of the previous filter while another loads, and drop them if it is refused",
      () =>
        Effect.gen(function* () {
          const { enter } = yield* ControlRoom
          const page = yield* enter("workflows")
          const row = page.getByRole("link", { name: "order/B-1" })
          let answers: () => void = () => {}
          const isAnswered = new Promise<void>((resolve) => {
            answers = resolve
          })
          yield* step(async () => {
            await row.waitFor()
            expect(await page.locator(".card.gone").count()).toBe(0)
            await page.route(/v1\/workflows\?.*prefix=order/, async (route) => {
              await isAnswered
              await route.continue()
            })
            await page.getByLabel("Id starts with").fill("order/")
            await page.keyboard.press("Enter")
            await page.locator(".card.gone").filter({ has: row }).waitFor()
            answers()
            await page.locator(".card:not(.gone)").filter({ has: row }).waitFor()
            await page.getByLabel("Tag", { exact: true }).fill("nonsense")
            await page.keyboard.press("Enter")
            await page.getByRole("alert").waitFor()
          })
          expect(yield* step(() => row.count())).toBe(0)
        }),
      60_000
    )

    it.scoped(
      "list executions, show one to scale, send it a signal, fork it, cancel and retry another",
      () =>
        Effect.gen(function* () {
          const { enter } = yield* ControlRoom
          const page = yield* enter("workflows")
          yield* step(async () => {
            await page.getByText("signal approval").nth(1).waitFor({ timeout: 20_000 })
            await page.getByLabel("Id starts with").fill("order/A")
            await page.keyboard.press("Enter")
            await page.getByRole("link", { name: "order/B-1" }).waitFor({ state: "detached" })
            expect(page.url()).toContain("prefix=order%2FA")
            await page.goBack()
            await page.getByRole("link", { name: "order/B-1" }).waitFor()
          })
          yield* picture(page, "list")
          expect(yield* findings(page)).toEqual([])

          yield* step(async () => {
            await page.getByRole("link", { name: "order/A-17" }).click()
            await status(page, "waiting")
            await page.getByRole("img", { name: /^cool off: / }).waitFor()
            await page.getByRole("button", { name: "charge", exact: true }).last().press("Enter")
            await page.getByText('"payment of A-17"').waitFor()
          })
          yield* picture(page, "waiting")
          expect(yield* findings(page)).toEqual([])

          yield* step(async () => {
            await page.getByRole("button", { name: "Send signal" }).click()
            const dialog = page.getByRole("dialog")
            expect(await dialog.getByLabel("Name").inputValue()).toBe("approval")
            await dialog.getByLabel("Value (JSON)").fill("ada")
            await dialog.getByRole("button", { name: "Send signal" }).click()
            await dialog.getByText("The value is not valid JSON").waitFor()
          })
          yield* picture(page, "signal")
          expect(yield* findings(page)).toEqual([])
          yield* step(async () => {
            const dialog = page.getByRole("dialog")
            await dialog.getByLabel("Value (JSON)").fill('{"by": "ada"}')
            await dialog.getByRole("button", { name: "Send signal" }).click()
            await page.getByText("Signal approval sent").waitFor()
            // The page follows the execution without a reload.
            await status(page, "done")
            await page.getByRole("button", { name: "order/A-17/ship/1" }).waitFor()
            await page.getByRole("region", { name: "result" }).getByText('"ada"').waitFor()
          })
          yield* picture(page, "done")

          yield* step(async () => {
            await page.getByRole("button", { name: "Fork from here" }).click()
            await page.getByLabel("Id of the new execution").fill("order/A-17 again")
            await page.getByRole("button", { name: "Fork execution" }).click()
            await page.getByRole("heading", { name: "order/A-17 again" }).waitFor()
            await page.getByRole("link", { name: /^[0-9a-f-]{36}$/ }).click()
            await page.getByRole("link", { name: "order/A-17 again" }).click()
            await page.getByRole("heading", { name: "order/A-17 again" }).waitFor()
          })

          yield* step(async () => {
            await page.evaluate(`location.hash = "#/workflows/order%2FB-1"`)
            await page.getByRole("heading", { name: "order/B-1" }).waitFor()
            await page.getByRole("button", { name: "Cancel", exact: true }).click()
            await page.getByLabel("Skip undo").check()
            await page.getByRole("button", { name: "Cancel execution" }).click()
            await status(page, "cancelled")
            expect(await page.getByRole("button", { name: "undo:charge" }).count()).toBe(0)
            await page.getByRole("button", { name: "Retry", exact: true }).click()
            await page.getByRole("button", { name: "Retry execution" }).click()
            await status(page, "waiting")
            await page.getByRole("button", { name: "Cancel", exact: true }).click()
            await page.getByLabel("Reason").fill("a mistake")
          })
          yield* picture(page, "cancel")
          expect(yield* findings(page)).toEqual([])
          yield* step(async () => {
            await page.getByRole("button", { name: "Cancel execution" }).click()
            await status(page, "cancelled")
            await page.getByRole("button", { name: "undo:charge" }).waitFor()
          })
          yield* picture(page, "cancelled")
        }),
      120_000
    )

    it.scoped(
      "show the last heartbeat of a step that runs, and the limit that a step waits for",
      () =>
        Effect.gen(function* () {
          const { enter } = yield* ControlRoom
          const page = yield* enter("workflows")
          yield* step(() => page.getByText("limit concurrency of rows").waitFor({ timeout: 20_000 }))
          yield* step(async () => {
            await page.getByRole("link", { name: "copy/users" }).click()
            await page.getByText(/last heartbeat .*, times out in/).waitFor()
            await page.getByRole("button", { name: "rows", exact: true }).click()
            await page.getByText('"page"').waitFor()
          })
          yield* picture(page, "heartbeat")
          expect(yield* findings(page)).toEqual([])
        }),
      120_000
    )

    it.scoped(
      "name the event that an execution waits for, and do not offer it as a signal",
      () =>
        Effect.gen(function* () {
          const { enter } = yield* ControlRoom
          const page = yield* enter("workflows/parcel%2F1")
          yield* step(async () => {
            await status(page, "waiting")
            await page.getByText("event order.packed").waitFor()
            await page.getByRole("button", { name: "Send signal" }).click()
            expect(await page.getByLabel("Name", { exact: true }).inputValue()).toBe("")
          })
        }),
      120_000
    )

    it.scoped(
      "fit a phone in dark mode, and offer a viewer no action",
      () =>
        Effect.gen(function* () {
          const { enter } = yield* ControlRoom
          const page = yield* enter("workflows", "viewer", {
            colorScheme: "dark",
            viewport: { width: 390, height: 800 }
          })
          yield* step(() => page.getByRole("link", { name: "order/A-17", exact: true }).waitFor())
          yield* picture(page, "list-dark-390")
          expect(yield* step(() => sidewaysOf(page))).toBe(0)
          expect(yield* findings(page)).toEqual([])
          yield* step(async () => {
            await page.getByRole("link", { name: "order/A-17", exact: true }).click()
            await page.getByRole("button", { name: "charge", exact: true }).last().click()
            await page.getByRole("button", { name: "order/A-17/ship/0" }).click()
            expect(await page.getByRole("button", { name: /signal|retry|cancel|fork/i }).count()).toBe(0)
          })
          yield* picture(page, "done-dark-390")
          expect(yield* step(() => sidewaysOf(page))).toBe(0)
          expect(yield* findings(page)).toEqual([])
          yield* step(() => page.setViewportSize({ width: 1280, height: 800 }))
          yield* picture(page, "done-dark")
        }),
      120_000
    )
  }
)
