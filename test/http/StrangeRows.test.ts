import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { Database } from "../../src/database/Database.js"
import { layerPostgres, TestServer } from "./TestServer.js"

// Rows that bypassed every check: written by SQL, or stored before a check existed.

const insert = (id: string, more: { readonly runAt?: string; readonly payload?: string }) =>
  Effect.flatMap(
    Database,
    ({ sql }) => sql`
      insert into nightshift.job (id, queue, kind, payload, max_attempts, run_at, created_at, updated_at)
      values (${id}::uuid, 'strange', 'plain', ${more.payload ?? "{}"}::jsonb, 5, ${more.runAt ?? "2026-01-01"}::timestamptz,
        '2026-01-01', '2026-01-01')`
  )

const ids = Array.from({ length: 4 }, (_, n) => `0198c0de-0000-7000-8000-00000000000${n}`)

describe("rows that no API would have accepted", () => {
  it.scopedLive("are listed, shown and explained like all others", () =>
    Effect.gen(function* () {
      const { admin, viewer } = yield* TestServer
      const deep = `${"[".repeat(5_000)}1${"]".repeat(5_000)}`
      yield* insert(ids[0] ?? "", { runAt: "infinity" })
      yield* insert(ids[1] ?? "", { runAt: "-infinity" })
      yield* insert(ids[2] ?? "", { runAt: "20000-01-01" })
      yield* insert(ids[3] ?? "", { payload: deep })
      for (const who of [admin, viewer]) {
        const list = yield* who("GET", "/api/v1/jobs?queue=strange")
        expect(list.status, list.text.slice(0, 200)).toBe(200)
        expect(list.json).toMatchObject({ jobs: ids.toReversed().map((id) => ({ id })) })
        for (const id of ids) {
          expect((yield* who("GET", `/api/v1/jobs/${id}`)).status).toBe(200)
          expect((yield* who("GET", `/api/v1/jobs/${id}/why`)).status).toBe(200)
        }
        expect((yield* who("GET", "/api/v1/queues")).status).toBe(200)
      }
      const [never, ever, far, nested] = yield* Effect.forEach(ids, (id) => admin("GET", `/api/v1/jobs/${id}`))
      expect(never?.json).toMatchObject({ runAt: "9999-12-31T23:59:59.999Z" })
      expect(ever?.json).toMatchObject({ runAt: "1970-01-01T00:00:00.000Z" })
      expect(far?.json).toMatchObject({ runAt: "9999-12-31T23:59:59.999Z" })
      expect(nested?.json).toMatchObject({ payload: "[nested more than 1000 levels deep]" })
      expect((yield* admin("DELETE", `/api/v1/jobs/${ids[3]}`)).status).toBe(200)
    }).pipe(Effect.provide(layerPostgres({ mask: ["password"] })))
  )
})
