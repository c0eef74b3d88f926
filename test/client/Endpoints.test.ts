import * as Http from "node:http"
import type { AddressInfo } from "node:net"
import { describe, expect, it } from "vitest"
import { connect, InvalidOptionError, webhookHandler, worker } from "../../src/client/index.js"
import { testShift } from "../../src/testing/index.js"
import { reading } from "../gateway/PushEndpoint.js"
import { dump, linesWith } from "../support/Dump.js"
import { useDatabase } from "./ClientDatabase.js"

const url = "https://customer.example.org/hooks"

describe("endpoints of a shift", () => {
  it("are created, listed, changed and deleted", async () => {
    await using shift = await testShift({ handlers: [webhookHandler()] })
    const { secret, ...made } = await shift.endpoints.create({ url, customer: "acme" })
    expect(secret).toMatch(/^whsec_/)
    expect(made).toMatchObject({ url, standing: "healthy", createdAt: expect.any(Date), disabledAt: undefined })
    expect(await shift.endpoints.list({ customer: "acme" }).toArray()).toEqual([made])
    expect(await shift.endpoints.change(made.id, { types: ["a"] })).toMatchObject({ types: ["a"] })
    expect((await shift.endpoints.rotate(made.id, { keep: "7d" })).secret).not.toBe(secret)
    expect(await shift.endpoints.disable(made.id)).toMatchObject({ standing: "disabled", disabledAt: expect.any(Date) })
    const [sent] = await shift.endpoints.send({ customer: "acme", type: "a" }, { order: 7 }, { id: "A-17" })
    await shift.settle()
    expect(await shift.job(sent?.id ?? "")).toMatchObject({ state: "dead", key: made.id })
    expect(await shift.endpoints.enable(made.id)).toMatchObject({ standing: "healthy" })
    await shift.endpoints.remove(made.id)
    await expect(shift.endpoints.get(made.id)).rejects.toThrow(InvalidOptionError)
  })

  it("are refused with mistakes", async () => {
    await using shift = await testShift({ handlers: [webhookHandler()] })
    await expect(shift.endpoints.create({ url: "x" })).rejects.toMatchObject({ option: "url" })
    await expect(shift.endpoints.create({ customer: "acme" } as never)).rejects.toMatchObject({ option: "url" })
    await expect(shift.endpoints.create({ url: null } as never)).rejects.toMatchObject({ option: "url" })
    const standing = "odd" as never
    expect(() => shift.endpoints.list({ standing })).toThrow("standing must be one of healthy, failing, disabled")
    await expect(shift.endpoints.create({ url, typs: [] } as never)).rejects.toThrow("typs is not a field")
    await expect(shift.endpoints.send({ customr: "a", type: "x" } as never, 1)).rejects.toThrow("customr is not")
    await expect(shift.endpoints.rotate("x", { keep: "soon" as never })).rejects.toMatchObject({ option: "keep" })
  })
})

/** Runs a test with the server of a customer. */
const withServer = async (listener: Http.RequestListener, run: (url: string) => Promise<void>) => {
  const server = Http.createServer(listener)
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  process.env.HTTP_HANDLER_ALLOW = "127.0.0.1"
  try {
    await run(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
  } finally {
    delete process.env.HTTP_HANDLER_ALLOW
    server.close()
    server.closeAllConnections()
  }
}

describe("endpoints on PostgreSQL", () => {
  const database = useDatabase()

  it("get what a committed transaction sent, and are disabled with an audit entry when they are gone", async () => {
    const received: Array<string> = []
    const listener: Http.RequestListener = (request, response) => {
      received.push(String(request.headers["webhook-id"]))
      request.resume()
      response.writeHead(received.length === 1 ? 200 : 410).end()
    }
    await withServer(listener, async (url) => {
      await using shift = await connect(database.url(), { log: false })
      await using _worker = await worker(shift, { handlers: [webhookHandler()], log: false })
      const { id } = await shift.endpoints.create({ url })
      const client = await database.pool().connect()
      const send = async (end: "commit" | "rollback") => {
        await client.query("begin")
        const [sent] = await shift.endpoints.send({ type: "order.paid" }, { order: 7 }, { tx: client })
        await client.query(end)
        return sent?.id ?? ""
      }
      await send("rollback")
      const first = await send("commit")
      expect(await shift.result(first, { timeout: "20s" })).toMatchObject({ status: 200 })
      const second = await send("commit")
      client.release()
      await expect(shift.result(second, { timeout: "20s" })).rejects.toThrow("responded 410")
      expect(received).toEqual([first, second])
      expect(await shift.endpoints.get(id)).toMatchObject({ disabledBecause: "gone", failures: 1 })
      const { rows } = await database.pool().query("select who, act, target, reason from nightshift.audit")
      expect(rows).toEqual([{ who: "nightshift", act: "endpoint.disable", target: id, reason: "gone" }])
    })
  })

  it("forget the webhooks of an erased subject, and what was answered to them", async () => {
    const [marker, subject] = ["Ada Lovelace", "customer:ada"]
    const listener = reading(({ body }, response) => {
      response.writeHead(410).end(`unknown: ${JSON.parse(body).data.name}`)
    })
    await withServer(listener, async (url) => {
      await using shift = await connect(database.url(), { log: false })
      await using _worker = await worker(shift, { handlers: [webhookHandler()], log: false })
      const { id } = await shift.endpoints.create({ url, customer: "acme" })
      const to = { type: "greeting", endpoint: id }
      const deleted = await shift.endpoints.create({ url, customer: "acme" })
      for (const endpoint of [id, deleted.id]) {
        const [sent] = await shift.endpoints.send({ ...to, endpoint }, { name: marker }, { subject })
        await expect(shift.result(sent?.id ?? "", { timeout: "20s" })).rejects.toThrow(`unknown: ${marker}`)
      }
      await shift.endpoints.remove(deleted.id)
      const client = await database.pool().connect()
      const linesOf = async () => new Set(linesWith(await dump(client), marker).map((line) => line.split(" ")[0]))
      expect(await linesOf()).toEqual(new Set(["audit", "endpoint", "job"]))
      expect(await shift.erase(subject)).toMatchObject({ erased: { jobs: 2 }, done: true })
      expect(await linesOf()).toEqual(new Set())
      client.release()
      expect(await shift.endpoints.get(id)).toMatchObject({ disabledBecause: "gone", lastError: undefined })
      await expect(shift.endpoints.send(to, 1, { subject: "" })).rejects.toMatchObject({ option: "subject" })
      await expect(shift.endpoints.send(to, "\0")).rejects.toThrow("data must not contain NUL")
    })
  })
})
