import { spawn } from "node:child_process"
import { once } from "node:events"
import type { AddressInfo } from "node:net"
import { drizzle } from "drizzle-orm/node-postgres"
import { Effect } from "effect"
import { connect } from "nightshift/client"
import { beforeAll, describe, expect, it } from "vitest"
import { createApp } from "../../examples/express-drizzle/src/app.js"
import "../../examples/express-drizzle/test/receipts.test.js"
import { useDatabase } from "../client/ClientDatabase.js"
import * as ExampleProject from "../examples/ExampleProject.js"

const database = useDatabase()
beforeAll(async () => {
  await database.pool().query("create table orders (id serial primary key, email text not null, cents int not null)")
})

/** The shop over HTTP, for as long as the body takes. */
const withShop = async (body: (url: string) => Promise<void>) => {
  await using shift = await connect(database.url(), { log: false })
  const server = createApp(drizzle(database.pool()), shift).listen(0)
  await once(server, "listening")
  try {
    await body(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  } finally {
    server.close()
    server.closeAllConnections()
  }
}

const order = (url: string, content: unknown) =>
  fetch(`${url}/orders`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(content)
  })

describe("the shop with Express and Drizzle", () => {
  it("stores an order with its job, and its worker process runs the job and stops on SIGTERM", () =>
    Effect.gen(function* () {
      const cwd = yield* ExampleProject.copied("express-drizzle")
      yield* ExampleProject.compiled(cwd)
      yield* Effect.promise(() =>
        withShop(async (url) => {
          const stored = await order(url, { email: "ada@example.org", cents: 1250 })
          expect(stored.status).toBe(201)
          const { job } = (await stored.json()) as { job: string }
          expect(await (await fetch(`${url}/jobs/${job}`)).json()).toMatchObject({ state: "pending", attempt: 0 })

          const env = { PATH: process.env.PATH, DATABASE_URL: database.url(), LOG_LEVEL: "error" }
          const process_ = spawn(process.execPath, ["src/worker.js"], {
            cwd,
            env,
            stdio: ["ignore", "pipe", "inherit"]
          })
          let said = ""
          for await (const chunk of process_.stdout) {
            said += chunk
            if (said.includes("mail to") && !process_.killed) process_.kill("SIGTERM")
          }
          expect(said).toContain("mail to ada@example.org: Your order 1")
          if (process_.exitCode === null) await once(process_, "exit")
          expect(process_.exitCode).toBe(0)
          expect(await (await fetch(`${url}/jobs/${job}`)).json()).toMatchObject({ state: "done", attempt: 1 })
        })
      )
    }).pipe(Effect.scoped, Effect.runPromise))

  it("stores neither when the order is refused, and says why", () =>
    withShop(async (url) => {
      const jobs = await database.count("send_receipt")
      expect((await order(url, { email: "nowhere", cents: 1 })).status).toBe(400)
      // The column is an integer: PostgreSQL refuses the row after the route has accepted it.
      expect((await order(url, { email: "ada@example.org", cents: 2 ** 40 })).status).toBe(500)
      expect(await database.count("send_receipt")).toBe(jobs)
      expect((await fetch(`${url}/jobs/0198c0de-0000-7000-8000-000000000000`)).status).toBe(404)
    }))
})
