import { expect, layer } from "@effect/vitest"
import { Effect } from "effect"
import { Database } from "../../src/database/Database.js"
import * as ExecutionListSql from "../../src/queue/workflow/ExecutionListSql.js"
import * as TestDatabase from "../support/TestDatabase.js"

const statements = ExecutionListSql.make("nightshift")

/** The n-th id, and a job with it: every tenth is an execution. */
const id = `('018f0000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid`
const jobs = `insert into nightshift.job (id, queue, kind, payload, run_at, created_at, updated_at, max_attempts, dedupe_key, dedupe_scope, woken)
  select ${id}, 'q', 'k', '{}', now(), now(), now(), 5, case when n % 10 = 0 then 'k/' || n end,
    case when n % 10 = 0 then 'retained' end, case when n % 10 = 0 then 0 end from generate_series(1, 20000) n`
const tags = `insert into nightshift.workflow_tag (job_id, name, value)
  select ${id}, 'customer', (n / 10 % 4)::text from generate_series(10, 20000, 10) n`

layer(TestDatabase.layer, { excludeTestServices: true })("the list of executions with a tag", (it) => {
  it.scoped("reads the newest through the index of tags, without a sort, and no others", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      yield* sql.unsafe(jobs)
      yield* sql.unsafe(tags)
      yield* sql`analyze nightshift.job, nightshift.workflow_tag`
      const given = [null, null, null, null, 51, 0, null, null, null, null, "customer", "3", '{"customer":"3"}', 1]
      const rows = yield* sql.unsafe<Record<string, string>>(
        `explain (analyze, costs off, timing off, summary off) ${statements.listTagged}`,
        given
      )
      const plan = rows.map((row) => row["QUERY PLAN"]).join("\n")
      expect(plan).toMatch(/Index Only Scan Backward using workflow_tag_value on workflow_tag t \(actual rows=51/)
      expect(plan).not.toMatch(/Seq Scan on (job|workflow_tag)|Sort Key: t\.job_id/)
    })
  )
})
