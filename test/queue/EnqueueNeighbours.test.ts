import { expect, layer } from "@effect/vitest"
import { Duration, Effect, Either, Fiber, Layer, Option } from "effect"
import { Database } from "../../src/database/Database.js"
import * as Listener from "../../src/database/Listener.js"
import type { NewJob } from "../../src/queue/NewJob.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import * as TestDatabase from "../support/TestDatabase.js"

// Many callers share an INSERT. One caller's input must never fail the others.

const house = QueuePg.layer.pipe(Layer.provide(Listener.layerPolling), Layer.provideMerge(TestDatabase.layer))

const job = (queue: string, more: Partial<NewJob> = {}): NewJob => ({
  kind: "test",
  version: 1,
  queue,
  payload: {},
  attempts: 5,
  ...more
})

const megabyte = "x".repeat(1024 * 1024 - 2)

layer(house, { excludeTestServices: true })("callers that share a batch", (it) => {
  it.scoped("send at most 16 MiB in one statement, however many wait with large payloads", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const { sql } = yield* Database
      const answers = yield* Effect.forEach(
        Array.from({ length: 40 }),
        () => queue.enqueue([job("large", { payload: megabyte })]),
        { concurrency: "unbounded" }
      )
      expect(answers).toHaveLength(40)
      // Rows of one statement carry the same transaction id.
      const statements = yield* sql<{ rows: number }>`
        select count(*)::int as rows from nightshift.job where queue = 'large' group by xmin::text`
      expect(statements.reduce((all, { rows }) => all + rows, 0)).toBe(40)
      expect(Math.max(...statements.map(({ rows }) => rows))).toBeLessThanOrEqual(16)
    })
  )

  it.scoped("may send a request larger than a statement, all or nothing, answered in order", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const { sql } = yield* Database
      const payloads = Array.from({ length: 20 }, (_, n) => `${n}${megabyte.slice(10)}`)
      const taken = yield* queue.enqueue([job("first", { id: undefined }), job("first")])
      const answers = yield* queue.enqueue(payloads.map((payload) => job("whole", { payload })))
      const rows = yield* sql<{ id: string; begin: string; tx: string }>`
        select id, left(payload #>> '{}', 2) as begin, xmin::text as tx from nightshift.job where queue = 'whole' order by id`
      expect(rows.map(({ begin }) => begin)).toEqual(payloads.map((payload) => payload.slice(0, 2)))
      expect(rows.map(({ id }) => id)).toEqual(answers.map(({ id }) => id))
      expect(new Set(rows.map(({ tx }) => tx)).size).toBe(1)
      const last = job("whole-2", { id: taken[0]?.id, payload: "other" })
      const refused = yield* Effect.flip(
        queue.enqueue([...payloads.map((payload) => job("whole-2", { payload })), last])
      )
      expect(refused).toMatchObject({ _tag: "JobIdTaken", index: 20 })
      expect(yield* sql`select id from nightshift.job where queue = 'whole-2'`).toEqual([])
    })
  )

  it.scoped("are not refused with a neighbour whose dedupe window is out of range", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const send = (n: number) => {
        const window = n === 20 ? Duration.days(1e9) : Duration.days(1)
        return Effect.either(
          queue.enqueue([job("window", { payload: n, dedupe: { key: `window-${n}`, scope: "retained", window } })])
        )
      }
      const answers = yield* Effect.forEach(
        Array.from({ length: 41 }, (_, n) => n),
        send,
        { concurrency: "unbounded" }
      )
      expect(answers.flatMap((answer, n) => (Either.isLeft(answer) ? [[n, answer.left._tag]] : []))).toEqual([
        [20, "InvalidJob"]
      ])
      expect(Either.getOrElse(answers[20] ?? Either.right([]), String)).toMatch(/dedupe.window must be at most/)
    })
  )

  it.scoped("are stored even if the server refuses a neighbour's values", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const { sql } = yield* Database
      yield* sql.unsafe(`
        create function nightshift.refuse() returns trigger language plpgsql as $$
        begin
          if new.payload = '"bad"' then raise exception 'out of range' using errcode = '22003'; end if;
          return new;
        end $$;
        create trigger refuse before insert on nightshift.job for each row execute function nightshift.refuse()`)
      const payloads = Array.from({ length: 30 }, (_, n) => (n === 7 ? "bad" : n))
      const answers = yield* Effect.forEach(
        payloads,
        (payload) => Effect.either(queue.enqueue([job("refused", { payload })])),
        { concurrency: "unbounded" }
      )
      yield* sql.unsafe(`drop trigger refuse on nightshift.job; drop function nightshift.refuse()`)
      expect(answers.flatMap((answer, n) => (Either.isLeft(answer) ? [[n, answer.left._tag]] : []))).toEqual([
        [7, "DatabaseFault"]
      ])
      expect(yield* sql`select id from nightshift.job where queue = 'refused'`).toHaveLength(29)
    })
  )

  it.scoped("replace the same twenty jobs in opposite order without a deadlock", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const keys = Array.from({ length: 20 }, (_, n) => `debounced-${n}`)
      const send = (order: ReadonlyArray<string>, payload: number) =>
        Effect.either(
          queue.enqueue(
            order.map((key) => job("debounced", { payload, dedupe: { key, scope: "active", replace: true } }))
          )
        )
      yield* send(keys, 0)
      const rounds = Array.from({ length: 40 }, (_, n) => send(n % 2 === 0 ? keys : keys.toReversed(), n))
      const answers = yield* Effect.all(rounds, { concurrency: "unbounded" })
      expect(answers.filter(Either.isLeft)).toEqual([])
    })
  )

  it.scoped("are stored once, and answered at once, beside a neighbour whose job waits for a lock", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const { onStatement, sql } = yield* Database
      const dedupe = { key: "locked", scope: "active", replace: true } as const
      const [holder] = yield* queue.enqueue([job("locked", { payload: 0, dedupe })])
      const other = yield* TestDatabase.connection
      yield* Effect.promise(() => other.query("begin"))
      yield* Effect.promise(() => other.query("select from nightshift.job where id = $1 for update", [holder?.id]))
      const decisions: Array<string> = []
      yield* onStatement((operation) => {
        if (operation.endsWith("enqueue_jobs")) decisions.push(operation)
      })
      const counts = Effect.map(
        sql<{ queue: string; jobs: number; payload: number }>`
          select queue, count(*)::int as jobs, max(payload::int)::int as payload
          from nightshift.job where queue in ('beside', 'locked') group by queue order by queue`,
        (rows) => rows.map(({ queue, jobs, payload }) => [queue, jobs, payload])
      )
      const [plain, replacing] = [
        yield* Effect.fork(Effect.either(queue.enqueue([job("beside", { payload: 1 })]))),
        yield* Effect.fork(Effect.either(queue.enqueue([job("locked", { payload: 2, dedupe })])))
      ]
      expect(yield* Fiber.join(plain)).toMatchObject({ _tag: "Right", right: [{ outcome: "enqueued" }] })
      // The statement of both failed on the lock, after the plain job was stored; then its job was stored on its own.
      expect(decisions.length).toBeGreaterThanOrEqual(2)
      expect(yield* counts).toEqual([
        ["beside", 1, 1],
        ["locked", 1, 0]
      ])
      expect(yield* Fiber.poll(replacing)).toEqual(Option.none())
      yield* Effect.promise(() => other.query("rollback"))
      expect(yield* Fiber.join(replacing)).toMatchObject({ _tag: "Right", right: [{ id: holder?.id }] })
      expect(yield* counts).toEqual([
        ["beside", 1, 1],
        ["locked", 1, 2]
      ])
    })
  )
})
