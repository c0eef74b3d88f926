import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import pg from "pg"
import * as Nightshift from "../support/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"

describe("nightshift jobs", () => {
  it.scopedLive("shows the first line of the last error of failed jobs in lists and explanations", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const env = { DATABASE_URL: Redacted.value(yield* TestDatabase.migrated) }
      const run = (...args: ReadonlyArray<string>) => Nightshift.call(args, { cwd, env })
      const id = (yield* run("enqueue", "one", "--force")).stdout.trim().split(" ")[1] ?? ""
      const client = new pg.Client({ connectionString: env.DATABASE_URL })
      yield* Effect.promise(async () => {
        await client.connect()
        await client.query(
          `update nightshift.job set status = 'dead', dead_reason = 'rejected', finished_at = now(),
             last_error = E'no such card\\n    at charge (card.ts:7:3)' where id = $1`,
          [id]
        )
        await client.end()
      })
      const [heading, , row] = (yield* run("jobs", "list", "--state", "dead")).stdout.split("\n")
      expect(heading).toMatch(/ DUE +LAST ERROR$/)
      expect(row).toMatch(/ no such card$/)
      expect((yield* run("jobs", "why", id)).stdout).toContain("Last error: no such card.")
      expect((yield* run("jobs", "requeue", "--state", "dead")).stdout).toBe("requeued 1 job\n")
    })
  )
})
