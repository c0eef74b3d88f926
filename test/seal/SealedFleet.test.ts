import { Effect, Exit, Redacted, Scope } from "effect"
import pg from "pg"
import { afterAll, beforeAll, expect, it } from "vitest"
import { z } from "zod"
import { connect, type FleetDeclaration, job, worker } from "../../src/client/index.js"
import { testCodec } from "../support/TestCodec.js"
import * as TestDatabase from "../support/TestDatabase.js"

let scope: Scope.CloseableScope
const urls: Array<string> = []
beforeAll(async () => {
  scope = await Effect.runPromise(Scope.make())
  const made = await Effect.runPromise(Scope.extend(Effect.replicateEffect(TestDatabase.migrated, 2), scope))
  urls.push(...made.map(Redacted.value))
})
afterAll(() => Effect.runPromise(Scope.close(scope, Exit.void)))

it("a fleet seals jobs in every cell, and a worker of a cell opens them", async () => {
  const [main = "", mail = ""] = urls
  const fleet: FleetDeclaration = {
    cells: { main: { database: main }, mail: { database: mail } },
    queues: { letters: "mail" },
    default: "main"
  }
  const codec = testCodec("k1")
  const letter = job("letter", { payload: z.object({ text: z.string() }), queue: "letters" })
  const note = job("note", { payload: z.object({ text: z.string() }) })
  await using all = await connect({ fleet, pool: 2, log: false, codec })
  await using cell = await connect({ fleet, cell: "mail", pool: 2, log: false, codec })
  const { id } = await all.enqueue(letter, { text: "PLAINTEXT" })
  const other = await all.enqueue(note, { text: "PLAINTEXT" })
  await using _ = await worker(cell, { handlers: [letter.handle(({ text }) => `read ${text}`)], log: false })
  expect(await all.result(id, { timeout: "30s" })).toBe("read PLAINTEXT")
  expect(await all.job(other.id)).toMatchObject({ payload: { text: "PLAINTEXT" } })
  for (const url of urls) {
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    const { rows } = await client.query("select payload::text || coalesce(result::text, '') as row from nightshift.job")
    await client.end()
    expect(rows).toHaveLength(1)
    expect(rows[0].row).toMatch(/^\{"\$sealed": "k1\./)
    expect(rows[0].row).not.toContain("PLAINTEXT")
  }
})
