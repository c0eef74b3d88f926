import { randomBytes } from "node:crypto"
import pg from "pg"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { z } from "zod"
import { connect, job, worker } from "../../src/client/index.js"
import { useDatabase } from "./ClientDatabase.js"

const database = useDatabase()
const role = `guest_${randomBytes(4).toString("hex")}`
const ring = job("ring", { payload: z.object({}), result: z.string() })

describe("a role that does not own the schema", () => {
  let owner: pg.Client
  const guestUrl = () => Object.assign(new URL(database.url()), { username: role, password: "guest" }).href

  beforeAll(async () => {
    owner = new pg.Client({ connectionString: database.url() })
    await owner.connect()
    await owner.query(`create role ${role} login password 'guest'`)
  })
  afterAll(async () => {
    await owner.query(`drop owned by ${role} cascade; drop role ${role}`)
    await owner.end()
  })

  it("is told the grants that it needs, and works with them", async () => {
    const refused = await connect(guestUrl(), { log: false }).catch(String)
    expect(refused).toMatch(new RegExp(`Role ${role} may not use the tables of Nightshift: permission denied`))
    const [, grants = ""] = /run "([^"]+)"/.exec(String(refused)) ?? []
    await owner.query(grants)
    await using shift = await connect(guestUrl(), { log: false })
    await using _ = await worker(shift, { handlers: [ring.handle(async () => "rung")] })
    const { id } = await shift.enqueue(ring, {})
    expect(await shift.result(id, { timeout: "30s" })).toBe("rung")
  })
})
