import * as Http from "node:http"
import type { AddressInfo } from "node:net"
import { expect, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { connect, type Shift, webhookHandler, worker } from "nightshift/client"
import type { Page } from "playwright-core"
import { ControlRoom } from "../journeys/fixtures/ControlRoom.js"
import { findings, sidewaysOf } from "../journeys/fixtures/PageChecks.js"
import { Browser } from "../support/Browser.js"

const step = <A>(act: () => Promise<A>) => Effect.promise(act)

/** Pictures to look at, if a folder is given. */
const picture = (page: Page, name: string) =>
  step(async () => {
    const folder = process.env.PICTURES
    if (folder !== undefined) await page.screenshot({ path: `${folder}/${name}.png`, fullPage: true })
  })

/** A worker beside the service, and a customer whose endpoint is gone. */
const customer = Effect.gen(function* () {
  const { database } = yield* ControlRoom
  const received: Array<string> = []
  const answer = { status: 200, body: "thanks" }
  const server = yield* Effect.acquireRelease(
    Effect.sync(() =>
      Http.createServer((request, response) => {
        received.push(String(request.headers["webhook-id"]))
        request.resume()
        response.writeHead(answer.status).end(answer.body)
      })
    ),
    (open) => Effect.sync(() => void open.close())
  )
  yield* step(() => new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve)))
  process.env.HTTP_HANDLER_ALLOW = "127.0.0.1"
  const shift = yield* Effect.acquireRelease(
    step(() => connect(database, { log: false })),
    (open) => step(() => open.close())
  )
  yield* Effect.acquireRelease(
    step(() => worker(shift, { handlers: [webhookHandler()], grace: "10ms", log: false })),
    (running) => step(() => running.stop())
  )
  delete process.env.HTTP_HANDLER_ALLOW
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hooks/of/acme`
  const { id } = yield* step(() =>
    shift.endpoints.create({ url, customer: "acme", types: ["order.paid", "order.shipped"] })
  )
  yield* step(() => shift.endpoints.create({ url: "https://other.example.org/", customer: "other" }))
  return { answer, id, received, shift }
})

/** Sends a webhook and waits for its end. */
const send = async (shift: Shift, type: string) => {
  const [sent] = await shift.endpoints.send({ customer: "acme", type }, { order: "A-17" })
  const job = sent?.id ?? ""
  await shift.result(job, { timeout: "20s" }).catch(() => undefined)
  return job
}

layer(Layer.merge(Browser.layer, ControlRoom.layer), { excludeTestServices: true, timeout: "3 minutes" })(
  "the endpoint pages of Mission Control",
  (it) => {
    it.scoped(
      "show what was sent, an incident for an endpoint that is gone, and enable it and resend what failed",
      () =>
        Effect.gen(function* () {
          const { enter } = yield* ControlRoom
          const { answer, id, received, shift } = yield* customer
          const failed = yield* step(async () => {
            await send(shift, "order.paid")
            Object.assign(answer, { status: 410, body: "we moved" })
            const gone = await send(shift, "order.shipped")
            return [gone, await send(shift, "order.paid")]
          })
          expect(received).toHaveLength(2)
          const page = yield* enter("overview")
          yield* step(() => page.getByText("of acme is disabled: it responded 410 Gone.").first().waitFor())
          yield* picture(page, "endpoint-incident")
          yield* step(async () => {
            await page.getByRole("link", { name: "Endpoints" }).first().click()
            await page.getByText("other.example.org").waitFor()
          })
          yield* picture(page, "endpoints")
          expect(yield* findings(page)).toEqual([])
          yield* step(async () => {
            await page.getByRole("link", { name: /hooks\/of\/acme$/ }).click()
            await page.getByText(/^200 in \d+ ms: thanks$/).waitFor()
            expect(await page.getByRole("row").count()).toBe(4)
          })
          yield* picture(page, "endpoint")
          expect(yield* findings(page)).toEqual([])
          yield* step(async () => {
            Object.assign(answer, { status: 200, body: "welcome back" })
            await page.getByRole("button", { name: "Enable", exact: true }).click()
          })
          yield* picture(page, "endpoint-enable")
          yield* step(async () => {
            await page.getByRole("button", { name: "Enable and resend failed" }).click()
            await page.getByRole("button", { name: "Requeue 2 jobs" }).click()
            await page.getByText("2 jobs requeued").waitFor()
            for (const job of failed) await shift.result(job, { timeout: "20s" })
            await page
              .getByText(/welcome back$/)
              .nth(1)
              .waitFor()
            await page.getByRole("button", { name: "Resend", exact: true }).last().click()
            await page.getByText("Sent again, with the same id").waitFor()
          })
          expect((yield* step(() => shift.endpoints.get(id))).standing).toBe("healthy")
          expect(received.slice(2, 4).sort()).toEqual([...failed].sort())
          const phone = yield* enter("endpoints", "viewer", {
            viewport: { width: 390, height: 844 },
            colorScheme: "dark"
          })
          yield* step(() => phone.getByText("other.example.org").waitFor())
          yield* picture(phone, "endpoints-phone")
          expect(yield* step(() => sidewaysOf(phone))).toBe(0)
          yield* step(async () => {
            await phone.getByRole("link", { name: /^http:/ }).click()
            await phone
              .getByText(/welcome back$/)
              .first()
              .waitFor()
            expect(await phone.getByRole("button", { name: /^(Resend|Disable)/ }).count()).toBe(0)
          })
          yield* picture(phone, "endpoint-phone")
          expect(yield* step(() => sidewaysOf(phone))).toBe(0)
        }),
      90_000
    )
  }
)
