import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import pg from "pg"
import * as Nightshift from "../support/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"

describe("nightshift workflows", () => {
  it.scopedLive("shows step results as values, and takes the execution's id or its job's id", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const connectionString = Redacted.value(yield* TestDatabase.migrated)
      const run = (...args: ReadonlyArray<string>) =>
        Nightshift.call(args, { cwd, env: { DATABASE_URL: connectionString } })
      expect((yield* run("workflows", "list")).stdout).toMatch(/^No executions yet\./)
      expect((yield* run("workflows", "list", "--roots")).stdout).toMatch(/^No executions match this filter\./)
      for (const wrong of [
        ["start", "..", "A-1", "--force"],
        ["start", "unregistered", "A-1"],
        ["signal", "order/A-1", ""]
      ])
        expect((yield* run("workflows", ...wrong)).code, wrong.join(" ")).toBe(2)
      const { id } = JSON.parse((yield* run("workflows", "start", "order", "A-1", "--force", "--json")).stdout)
      yield* Effect.promise(async () => {
        const client = new pg.Client({ connectionString })
        await client.connect()
        const step = (sequence: number, name: string, outcome: string, exit: unknown) =>
          client.query(
            `insert into nightshift.workflow_step (job_id, name, attempt, sequence, kind, outcome, exit, started_at, ended_at)
            values ($1, $2, 1, $3, 'run', $4, $5, now(), now())`,
            [id, name, sequence, outcome, JSON.stringify(exit)]
          )
        await step(1, "reserve", "done", { value: { seats: 2 } })
        await step(2, "charge", "failed", { error: { name: "Error", message: "card declined" } })
        await step(3, "wait", "done", { timedOut: true })
        await step(4, "ask:add/1", "done", { value: "book", ask: "add" })
        await client.end()
      })
      const shown = yield* run("workflows", "show", "order/A-1")
      expect(shown.stdout).toMatch(/reserve .* \{"seats":2\}\n/)
      expect(shown.stdout).toMatch(/charge .* Error: card declined\n/)
      expect(shown.stdout).toMatch(/wait .* timed out\n?/)
      expect(shown.stdout).toMatch(/ask:add\/1 .* "book"\n?/)
      expect((yield* run("workflows", "show", id)).stdout).toContain("order/A-1")
      const why = yield* run("jobs", "why", "order/A-1")
      expect(why).toEqual(yield* run("jobs", "why", id))
      expect(why).toMatchObject({ code: 0, stdout: expect.stringContaining("no_pod") })
      expect(yield* run("jobs", "why", "order/A-2")).toMatchObject({
        code: 1,
        stderr: expect.stringContaining("order/A-2")
      })

      expect((yield* run("workflows", "signal", "order/A-1", "go")).stdout).toBe("sent go to order/A-1\n")
      expect((yield* run("workflows", "signal", "order/A-1", "go", "--id", "g2")).stdout).toContain(
        "appended to the values of go"
      )
      expect((yield* run("workflows", "signal", "order/A-1", "go", "--id", "g2")).stdout).toBe(
        "order/A-1 already has the value of go with the id g2, so nothing was sent\n"
      )
      expect(yield* run("workflows", "ask", "order/A-1", "add", "--timeout", "10ms")).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('did not answer the ask "add" within 10 ms')
      })
      expect((yield* run("workflows", "signal", "order/A-99", "go")).stdout).toBe(
        "kept go: order/A-99 does not exist yet and receives the signal when it starts\n"
      )
      yield* Effect.promise(async () => {
        const client = new pg.Client({ connectionString })
        await client.connect()
        await client.query(
          `insert into nightshift.workflow_deferred (execution, kind, name, created_at, due_at, waiting)
          values ('order/A-1', 'signal', 'approval', now(), now() + interval '7 days', true)`
        )
        await client.end()
      })
      expect((yield* run("workflows", "signal", "order/A-1", "aproval")).stdout).toBe(
        "kept aproval: order/A-1 does not wait for it now, but for approval. Did you mean approval?\n"
      )
      const waiting = (yield* run("workflows", "show", "order/A-1")).stdout
      expect(waiting).toContain('signal "approval", times out in 7 d')
      expect(waiting).toMatch(/unclaimed +signals go, aproval\n/)
      yield* Effect.promise(async () => {
        const client = new pg.Client({ connectionString })
        await client.connect()
        await client.query(
          "insert into nightshift.workflow_lifetime (job_id, continued, release) values ($1, 12, 'blue')",
          [id]
        )
        await client.query(
          `insert into nightshift.workflow_deferred (execution, kind, name, created_at, waiting)
          values ('order/A-1', 'signal', 'event:order.shipped@12', now(), true)`
        )
        await client.end()
      })
      const pinned = (yield* run("workflows", "show", "order/A-1")).stdout
      expect(pinned).toMatch(/continued +12 times\n/)
      expect(pinned).toContain('event "order.shipped"')
      expect(pinned).toMatch(/pinned to +release blue\n/)
      expect(yield* run("workflows", "unpin")).toMatchObject({
        code: 2,
        stderr: expect.stringContaining("Pass the id of an execution, or --release.")
      })
      expect((yield* run("workflows", "unpin", "--release", "blue")).stdout).toBe("unpinned 1 execution\n")
      expect((yield* run("workflows", "unpin", "order/A-1")).stdout).toBe("order/A-1 is not pinned, or has ended\n")
      expect(yield* run("workflows", "signal", "A-1", "go")).toMatchObject({
        code: 1,
        stderr: expect.stringContaining("the workflow's name, a slash and the key")
      })
    })
  )

  it.scopedLive("prints a stream as it was written, or a line per chunk, and fails if it is incomplete", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const connectionString = Redacted.value(yield* TestDatabase.migrated)
      const options = { cwd, env: { DATABASE_URL: connectionString } }
      const call = (...args: ReadonlyArray<string>) => Nightshift.call(args, options)
      const { id } = JSON.parse((yield* call("workflows", "start", "chat", "1", "--force", "--json")).stdout)
      const sql = (text: string, values: ReadonlyArray<unknown>) =>
        Effect.promise(async () => {
          const client = new pg.Client({ connectionString })
          await client.connect()
          await client.query(text, [...values])
          await client.end()
        })
      yield* sql(
        `insert into nightshift.workflow_stream (job_id, name, generation, attempt, started_at)
        values ($1, 'tokens', 2, 1, now()), ($1, 'cut', 1, 1, now())`,
        [id]
      )
      const chunks = JSON.stringify(["Good\n", "evening\u001b[31m", { stop: true }])
      yield* sql(
        `insert into nightshift.workflow_chunk (job_id, name, generation, number, count, bytes, chunks)
        values ($1, 'tokens', 2, 0, 3, 1536, $2), ($1, 'cut', 1, 0, 1, 3, '["a"]')`,
        [id, chunks]
      )
      yield* sql(
        `insert into nightshift.workflow_step (job_id, name, attempt, sequence, kind, outcome, exit, started_at, ended_at)
        values ($1, 'tokens', 1, 1, 'stream', 'done', '{}', now(), now()),
          ($1, 'cut', 1, 2, 'stream', 'failed', '{"error": {"message": "no model"}}', now(), now())`,
        [id]
      )
      expect((yield* call("workflows", "show", "chat/1")).stdout).toMatch(/tokens +done +2 +3 +1\.5 KiB/)
      // Chunks go straight to standard output.
      const stream = (...args: ReadonlyArray<string>) => Nightshift.run(["workflows", "stream", ...args], options)
      expect(yield* stream("chat/1", "tokens")).toMatchObject({
        code: 0,
        stdout: 'Good\nevening\\u{1b}[31m{"stop":true}\n'
      })
      expect((yield* stream(id, "tokens", "--after", "2-1", "--json")).stdout).toBe(
        '{"id":"2-2","generation":2,"number":2,"value":{"stop":true}}\n'
      )
      expect(yield* stream("chat/1", "cut")).toMatchObject({
        code: 1,
        stdout: "a\n",
        stderr: expect.stringContaining("is incomplete: its step failed: no model.")
      })
      const wrong = yield* call("workflows", "stream", "chat/1", "tokens", "--after", "x")
      expect(wrong).toMatchObject({ code: 2, stderr: expect.stringContaining("must be the id of a chunk") })
      for (const [args, message] of [
        [["stream", "chat/1", "tokens", "--after", "2-1", "--from", "0"], "Use --from or --after, not both."],
        [["tag", "chat/1", "--set", "a=1", "--remove", "a"], '--set and --remove both name the tag "a".']
      ] as const)
        expect(yield* call("workflows", ...args)).toMatchObject({ code: 2, stderr: `nightshift: ${message}\n` })
    })
  )
})
