import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import pg from "pg"
import * as Nightshift from "../support/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"

describe("nightshift erase", () => {
  it.scopedLive("shows what is stored, erases it with --yes, and names jobs that run", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const env = { DATABASE_URL: Redacted.value(yield* TestDatabase.migrated) }
      const run = (...args: ReadonlyArray<string>) => Nightshift.call(args, { cwd, env })
      const erase = (...args: ReadonlyArray<string>) => run("erase", "--subject", "customer:42", ...args)
      const query = (text: string) =>
        Effect.promise(async () => {
          const client = new pg.Client({ connectionString: env.DATABASE_URL })
          await client.connect()
          try {
            return (await client.query(text)).rows
          } finally {
            await client.end()
          }
        })
      expect((yield* erase()).stdout).toMatch(/^Nothing is stored of sha256:\w{12}\.\n$/)
      const enqueue = ["enqueue", "greet", "--force", "--payload", '{"name":"Ada"}', "--subject", "customer:42"]
      const [, id = ""] = /^enqueued (\S+)\n$/.exec((yield* run(...enqueue, "--key", "Ada")).stdout) ?? []
      yield* run(...enqueue, "--delay", "1h")
      expect((yield* run("publish", "heard", "--data", '"Ada"', "--subject", "customer:42")).code).toBe(0)
      yield* run("endpoints", "create", "https://customer.example.org/hooks")
      expect((yield* run("endpoints", "send", "paid", "--data", '"Ada"', "--subject", "customer:42")).code).toBe(0)
      // In SQL the subject is a part of meta.
      yield* query(`select nightshift.enqueue('greet', '"Ada"', force => true,
        meta => '{"source": "sql"}' || nightshift.subject('customer:42'))`)
      const shown = (yield* erase()).stdout
      expect(shown).toMatch(/\njobs, scheduled +1\njobs, pending +3\n/)
      expect(shown).toMatch(/\nevents +1\n\nNothing was changed\. Add --yes/)
      expect(JSON.parse((yield* erase("--dry-run", "--json")).stdout)).toMatchObject({
        found: { states: { pending: 3 } }
      })

      // A pod that has just been killed.
      yield* query(`update nightshift.job set status = 'running', attempt = 1, started_at = now(), heartbeat_at = now(),
        lease = gen_random_uuid(), pod_id = gen_random_uuid() where id = '${id}'`)
      const late = yield* erase("--yes", "--deadline", "0s")
      expect(late).toMatchObject({
        code: 1,
        stdout: "erased 3 jobs, 1 event\n",
        stderr: expect.stringContaining(`greet (job ${id}) runs: its data is still stored.`)
      })
      expect(JSON.parse((yield* erase("--yes", "--running", "skip", "--json")).stdout)).toMatchObject({
        unfinished: [{ id, running: true }],
        done: true
      })
      yield* query(`update nightshift.job set status = 'dead', dead_reason = 'cancelled', finished_at = now(),
        heartbeat_at = null, lease = null, pod_id = null where id = '${id}'`)
      expect(yield* erase("--yes")).toMatchObject({
        code: 0,
        stdout: expect.stringMatching(/^erased 1 job\nDead row/)
      })
      const jobs = yield* query("select payload, key, meta ? 'subjectErasedAt' as erased from nightshift.job")
      expect(jobs).toEqual(Array.from({ length: 4 }, () => ({ payload: null, key: null, erased: true })))
      expect(yield* run("jobs", "show", id)).toMatchObject({ stdout: expect.stringMatching(/^payload +erased on 20/m) })
      expect(yield* run("jobs", "requeue", id)).toMatchObject({
        code: 1,
        stderr: expect.stringContaining("its data was erased on")
      })
      expect(yield* run("erase", "--yes")).toMatchObject({ code: 2 })
    })
  )
})
