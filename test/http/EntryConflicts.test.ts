import { describe, expect, it } from "@effect/vitest"
import { DateTime, Effect, Redacted, Schema } from "effect"
import pg from "pg"
import { z } from "zod"
import { connect, job as promiseJob, type Transaction } from "../../src/client/index.js"
import type { JobId } from "../../src/core/Ids.js"
import { Database } from "../../src/database/Database.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as Handler from "../../src/handlers/Handler.js"
import { registeredKinds, make as registryOf } from "../../src/handlers/Registry.js"
import * as Job from "../../src/queue/Job.js"
import { Kinds } from "../../src/queue/Kinds.js"
import type { Queue } from "../../src/queue/Queue.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import { Queues } from "../../src/queue/settings/QueueSettings.js"
import { layer, layerPostgres, TestServer } from "./TestServer.js"

// Every way to enqueue a job with options applies them, and decides conflicts, in the same way.

const Greet = Job.make("greet", { payload: Schema.Unknown })

interface Request {
  readonly payload?: unknown
  readonly id?: string
  readonly queue?: string
  readonly priority?: number
  readonly attempts?: number
  readonly key?: string
  readonly meta?: Readonly<Record<string, unknown>>
  readonly delay?: string
  readonly runAt?: string
  readonly dedupe?: { readonly key: string; readonly scope?: "active" | "retained"; readonly replace?: boolean }
}

/** Enqueues a job and returns its id. Fails if the job is refused. */
type Enter<R> = (request: Request) => Effect.Effect<string, unknown, R>

const posted = (path: string, json: unknown) =>
  Effect.gen(function* () {
    const { json: answer, status, text } = yield* (yield* TestServer).admin("POST", path, { json })
    if (status >= 400) return yield* Effect.fail(text)
    return (answer as { readonly jobs: ReadonlyArray<{ readonly id: string }> }).jobs[0]?.id ?? ""
  })

const optionsOf = ({ delay, id, payload: _, runAt, ...rest }: Request): Job.EnqueueOptions => ({
  ...rest,
  id: id as JobId | undefined,
  delay: delay as "1h" | undefined,
  runAt: runAt === undefined ? undefined : DateTime.unsafeMake(runAt)
})

const common: Readonly<Record<string, Enter<Queue | TestServer>>> = {
  code: (request) =>
    Effect.map(Greet.enqueue(request.payload === undefined ? {} : request.payload, optionsOf(request)), ({ id }) => id),
  http: ({ payload = {}, ...rest }) => posted("/api/v1/jobs", { jobs: [{ kind: "greet", payload, ...rest }] }),
  batch: ({ payload = {}, ...rest }) => posted("/api/v1/batches", { jobs: [{ kind: "greet", payload, ...rest }] })
}

const promised = promiseJob("greet", { payload: z.unknown() })

const connected = Effect.flatMap(DatabaseUrl, (url) =>
  Effect.acquireRelease(
    Effect.promise(() => connect(Redacted.value(url), { log: false })),
    (shift) => Effect.promise(() => shift.close())
  )
)

const onPostgres = Effect.gen(function* () {
  const shift = yield* connected
  const url = Redacted.value(yield* DatabaseUrl)
  const enqueue = ({ payload = {}, ...options }: Request, tx?: Transaction) =>
    shift.enqueue(promised, payload, { ...options, tx } as object).then(({ id }) => id as string)
  const inTransaction = async (request: Request) => {
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    try {
      await client.query("begin")
      return await enqueue(request, client).finally(() => client.query("commit"))
    } finally {
      await client.end()
    }
  }
  return {
    promise: (request) => Effect.tryPromise(() => enqueue(request)),
    "promise in a transaction": (request) => Effect.tryPromise(() => inTransaction(request)),
    sql: ({
      dedupe,
      delay = null,
      key = null,
      attempts = null,
      payload = {},
      priority = null,
      queue = null,
      ...rest
    }) =>
      Effect.flatMap(
        Database,
        ({ sql }) =>
          sql<{ id: string }>`select nightshift.enqueue('greet', ${JSON.stringify(payload)}::jsonb, queue => ${queue},
          run_at => ${rest.runAt ?? null}::timestamptz, priority => ${priority}::int, dedupe_key => ${dedupe?.key ?? null},
          attempts => ${attempts}::int, key => ${key}, meta => ${rest.meta === undefined ? null : JSON.stringify(rest.meta)}::jsonb,
          delay => ${delay}::interval, dedupe_scope => ${dedupe?.scope ?? null},
          dedupe_replace => ${dedupe?.replace ?? false}) as id`
      ).pipe(Effect.map(([row]) => row?.id ?? ""))
  } satisfies Readonly<Record<string, Enter<Database>>>
})

const stored = (id: string) => Effect.flatMap(JobSearch, (search) => search.get(id as JobId))
const refused = <A, R>(entered: Effect.Effect<A, unknown, R>) => Effect.map(Effect.either(entered), ({ _tag }) => _tag)

/** What holds for each entry. `own` is a text that no other entry uses. */
const cases: Readonly<
  Record<string, <R>(enter: Enter<R>, own: string) => Effect.Effect<void, unknown, R | JobSearch | Queues>>
> = {
  "applies options": (enter, own) =>
    Effect.gen(function* () {
      const given = { queue: "letters", priority: 3, attempts: 2, key: own, meta: { a: 1 } }
      expect(yield* stored(yield* enter(given))).toMatchObject(given)
    }),
  "counts a delay from now, and refuses it beside a start time": (enter) =>
    Effect.gen(function* () {
      const { createdAt, runAt } = yield* stored(yield* enter({ delay: "1h" }))
      expect(Math.abs(runAt - createdAt - 3_600_000)).toBeLessThan(60_000)
      expect(yield* refused(enter({ delay: "1h", runAt: "2030-01-01T00:00:00Z" }))).toBe("Left")
    }),
  "finds the job that holds a dedupe key": (enter, own) =>
    Effect.gen(function* () {
      const first = yield* enter({ payload: 1, dedupe: { key: own } })
      expect(yield* enter({ payload: 2, dedupe: { key: own, scope: "retained" } })).toBe(first)
      expect(yield* stored(first)).toMatchObject({ payload: 1, dedupe: { key: own, scope: "active" } })
    }),
  "replaces a pending job": (enter, own) =>
    Effect.gen(function* () {
      const first = yield* enter({ payload: 1, dedupe: { key: own } })
      expect(yield* enter({ payload: 2, delay: "1h", priority: 7, dedupe: { key: own, replace: true } })).toBe(first)
      const { payload, priority, runAt, updatedAt } = yield* stored(first)
      expect([payload, priority, runAt > updatedAt]).toEqual([2, 7, true])
      expect(yield* enter({ payload: null, dedupe: { key: own, replace: true } })).toBe(first)
      expect((yield* stored(first)).payload).toBe(null)
    }),
  "refuses jobs for a full queue, but not those that exist": (enter, own) =>
    Effect.gen(function* () {
      const queues = yield* Queues
      const queue = `full-${own}`
      yield* queues.declare([queue])
      yield* queues.change(queue, { depthCap: 1 })
      const first = yield* enter({ queue, dedupe: { key: own } })
      expect(yield* refused(enter({ queue }))).toBe("Left")
      expect(yield* refused(enter({ queue, dedupe: { key: `${own}, another` } }))).toBe("Left")
      expect(yield* enter({ queue, dedupe: { key: own } })).toBe(first)
    })
}

/** The SQL function makes the ids. */
const sameId = <R>(entry: string, enter: Enter<R>, id: string) =>
  Effect.gen(function* () {
    expect([entry, yield* enter({ id, payload: { a: 1, b: 2 } })]).toEqual([entry, id])
    expect([entry, yield* enter({ id, payload: { b: 2, a: 1 } })]).toEqual([entry, id])
    expect([entry, yield* refused(enter({ id, payload: 3 }))]).toEqual([entry, "Left"])
    expect([entry, (yield* stored(id)).payload]).toEqual([entry, { a: 1, b: 2 }])
  })

const hold = <R>(entries: Readonly<Record<string, Enter<R>>>) =>
  Effect.gen(function* () {
    const { register } = yield* Kinds
    yield* register(registeredKinds(registryOf([Handler.make(Greet, () => Effect.void)])))
    for (const [place, [entry, enter]] of Object.entries(entries).entries()) {
      for (const [name, holds] of Object.entries(cases)) {
        yield* holds(enter, `${entry.replaceAll(" ", "_")}-${name.length}`).pipe(
          Effect.catchAllCause((cause) => Effect.die(new Error(`${entry}: ${name}`, { cause })))
        )
      }
      if (entry !== "sql") yield* sameId(entry, enter, `0198c0de-0000-7000-8000-00000000000${place}`)
    }
  })

describe("every way to enqueue a job with options", () => {
  it.scopedLive("stores, finds, replaces and refuses it alike in memory", () => Effect.provide(hold(common), layer()))

  it.scopedLive("stores, finds, replaces and refuses it alike on PostgreSQL", () =>
    Effect.flatMap(onPostgres, (more) => hold<Queue | TestServer | Database>({ ...common, ...more })).pipe(
      Effect.provide(layerPostgres())
    )
  )
})
