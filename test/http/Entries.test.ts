import { describe, expect, it } from "@effect/vitest"
import { Effect, Exit, Layer, Option, Redacted, Schema } from "effect"
import { z } from "zod"
import { connect, job as promiseJob } from "../../src/client/index.js"
import { makeGenerator } from "../../src/core/Ids.js"
import { Database } from "../../src/database/Database.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as AuthSessionsMemory from "../../src/gateway/auth/AuthSessionsMemory.js"
import type { Source } from "../../src/gateway/Bots.js"
import { GatewayConfig } from "../../src/gateway/config/GatewayConfig.js"
import { type Received, WebhookIntake, type WebhookIntakeError } from "../../src/gateway/WebhookIntake.js"
import * as Handler from "../../src/handlers/Handler.js"
import { registeredKinds, make as registryOf } from "../../src/handlers/Registry.js"
import { End } from "../../src/queue/AttemptEnd.js"
import { Batches } from "../../src/queue/batch/Batches.js"
import * as Job from "../../src/queue/Job.js"
import { Kinds } from "../../src/queue/Kinds.js"
import { Queue } from "../../src/queue/Queue.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import { Routes } from "../../src/queue/settings/Routes.js"
import * as Nightshift from "../support/Nightshift.js"
import { isLong } from "../support/Scale.js"
import { TestServer } from "./TestServer.js"
import { acme, form, formType, layerMemory, layerPostgres, tokenFor } from "./UploadServer.js"

// Every way to enqueue a job applies the defaults of its kind in the same way.

const payload = Schema.Unknown
const after = (kind: string, more = {}) => ({
  kind,
  version: 1,
  queue: "default",
  payload: {},
  attempts: 5,
  ...more
})

const options = {
  "own.queue": {
    queue: "letters",
    version: 1,
    attempts: 7,
    priority: -3,
    onDead: after("late", { queue: "later" })
  },
  "routed.defaults": { version: 2, onDead: after("routed.late", { routed: true }) },
  "elsewhere.defaults": { priority: 4, attempts: 2 },
  "computed.defaults": { queue: "dying", onDead: () => after("apology") }
} as const
type Name = keyof typeof options
const names = Object.keys(options) as ReadonlyArray<Name>

/** What every job of the kind must have. */
const expected: Readonly<Record<Name, object>> = {
  "own.queue": { queue: "letters", version: 1, attempts: 7, priority: -3, onDead: { kind: "late", queue: "later" } },
  "routed.defaults": {
    queue: "lane",
    version: 2,
    attempts: 5,
    priority: 0,
    onDead: { kind: "routed.late", queue: "lane" }
  },
  "elsewhere.defaults": { queue: "default", version: 1, attempts: 2, priority: 4, onDead: undefined },
  "computed.defaults": { queue: "dying", version: 1, attempts: 5, priority: 0 }
}

const kinds = new Map(names.map((name) => [name, Job.make(name, { payload, ...options[name] })]))
const kindOf = (name: Name) => kinds.get(name) as Job.JobKind<unknown>

const registry = registryOf(names.map((name) => Handler.make(kindOf(name), () => Effect.void)))

const prepare = Effect.gen(function* () {
  const { register } = yield* Kinds
  yield* register(registeredKinds(registry))
  yield* Effect.flatMap(Routes, (routes) => routes.register({ "routed.": "lane" }))
})

type Entry<R> = (name: Name) => Effect.Effect<unknown, unknown, R>
type Common = Effect.Effect.Context<typeof prepare> | Queue | JobSearch | Batches | TestServer | WebhookIntake

const post = (path: string, json: unknown) =>
  Effect.gen(function* () {
    const answer = yield* (yield* TestServer).admin("POST", path, { json })
    expect([path, answer.status, answer.text]).toEqual([path, 201, answer.text])
    return answer.json
  })

/** Ends all jobs of the batch's queue, and closes the batch. */
const finish = Effect.gen(function* () {
  const queue = yield* Queue
  const pod = (yield* makeGenerator).pod(1)
  const runs = yield* queue.claim({ queue: "work", pod, limit: 100 })
  yield* queue.finalize(runs.map(({ id, lease }) => ({ id, lease, end: End.Done({ result: undefined }) })))
  yield* Effect.flatMap(Batches, ({ close }) => close)
})

const common: Readonly<Record<string, Entry<Common>>> = {
  code: (name) => kindOf(name).enqueue({}),
  "code, many": (name) => kindOf(name).enqueueMany([{}]),
  http: (name) => post("/api/v1/jobs", { jobs: [{ kind: name, payload: {} }] }),
  batch: (name) => post("/api/v1/batches", { jobs: [{ kind: name, payload: {} }] }),
  schedule: (name) =>
    Effect.gen(function* () {
      yield* post("/api/v1/schedules", { name: `every.${name}`, kind: name, cron: "0 0 1 1 *", payload: {} })
      const { admin } = yield* TestServer
      expect((yield* admin("POST", `/api/v1/schedules/every.${name}/trigger`)).status).toBe(200)
    }),
  webhook: (name) =>
    Effect.gen(function* () {
      const { deliver } = yield* WebhookIntake
      const source = { name: "ci", kind: name } as Source
      const exit = yield* Effect.async<Exit.Exit<Received, WebhookIntakeError>>((resume) =>
        deliver(source, { id: name, event: undefined, body: {} }, (exit) => resume(Effect.succeed(exit)))
      )
      expect(Exit.isSuccess(exit)).toBe(true)
    }),
  upload: () =>
    Effect.gen(function* () {
      const { ask } = yield* TestServer
      const body = form([{ content: "x" }])
      const sent = yield* ask("POST", "/uploads/acme", { body, headers: formType, token: yield* tokenFor(acme) })
      expect(sent.status).toBe(201)
    })
} as Readonly<Record<string, Entry<Common>>>

/** Jobs that follow others keep no follow-up of their own. */
const followUps: Readonly<Record<string, Entry<Common>>> = {
  "follow-up of a batch": (name) =>
    Effect.zipRight(
      post("/api/v1/batches", {
        jobs: [{ kind: "plain", queue: "work", payload: {} }],
        followUp: { kind: name, payload: {} }
      }),
      finish
    ),
  "follow-up of a death": (name) =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const onDead = Job.followUpOf(kindOf(name) as never, { payload: {} })
      const [stored] = yield* queue.enqueue([{ ...after("dying", { queue: "work" }), onDead } as never])
      const [run] = yield* queue.claim({ queue: "work", pod: (yield* makeGenerator).pod(1), limit: 1 })
      expect(run?.id).toBe(stored?.id)
      if (run === undefined) return
      const end = End.Dead({ reason: "rejected", counted: true, error: "no" })
      yield* queue.finalize([{ id: run.id, lease: run.lease, end }])
    })
}

const newest = (kind: string) =>
  Effect.flatMap(JobSearch, (search) => Effect.map(search.list({ kind }, { limit: 100 }), ({ jobs }) => jobs))

/** Runs an entry and returns the job that it stored. */
const storedBy = <R>(entry: Entry<R>, name: Name) =>
  Effect.gen(function* () {
    const before = new Set((yield* newest(name)).map(({ id }) => id))
    yield* entry(name)
    const added = (yield* newest(name)).filter(({ id }) => !before.has(id))
    expect(added).toHaveLength(1)
    return added[0]
  })

/** Declares the job dead. Its kind computes the follow-up in code. */
const hasOneFollowUp = (entry: string, id: string | undefined) =>
  Effect.gen(function* () {
    const queue = yield* Queue
    const before = yield* newest("apology")
    const runs = yield* queue.claim({ queue: "dying", pod: (yield* makeGenerator).pod(1), limit: 10 })
    const run = runs.find((each) => each.id === id)
    expect([entry, run?.id]).toEqual([entry, id])
    if (run === undefined) return
    const end = End.Dead({ reason: "rejected", counted: true, error: "no" })
    yield* queue.finalize([{ id: run.id, lease: run.lease, end }])
    yield* queue.makeFollowUps(["computed.defaults"], ({ kind, payload, version }) =>
      Option.getOrThrow(Option.fromNullable(registry.get(kind)?.followUp))(payload, version)
    )
    const made = (yield* newest("apology")).slice(0, -before.length || undefined)
    expect([entry, made]).toMatchObject([entry, [{ meta: { follows: id } }]])
  })

const holds = <R>(entries: Readonly<Record<string, Entry<R>>>, only: ReadonlyArray<Name> = names) =>
  Effect.gen(function* () {
    for (const [entry, run] of Object.entries(entries))
      for (const name of entry === "upload" ? (["routed.defaults"] as const) : only) {
        const job = yield* storedBy(run, name)
        const { onDead, ...rest } = expected[name] as { onDead: unknown }
        expect([entry, name, job]).toMatchObject([
          entry,
          name,
          entry.startsWith("follow-up") || name === "computed.defaults" ? rest : { ...rest, onDead }
        ])
        if (name === "computed.defaults" && !entry.startsWith("follow-up")) yield* hasOneFollowUp(entry, job?.id)
      }
  })

const intake = Layer.provide(WebhookIntake.layer, [AuthSessionsMemory.layer, GatewayConfig.layer])
const uploads = { jobKind: Option.some("routed.defaults") }

const sql: Entry<Database> = (name) =>
  Effect.flatMap(Database, ({ sql }) => sql`select nightshift.enqueue(${name}, '{}')`)

const promise: Entry<DatabaseUrl> = (name) =>
  Effect.gen(function* () {
    const url = Redacted.value(yield* DatabaseUrl)
    yield* Effect.promise(async () => {
      await using shift = await connect(url, { log: false })
      await shift.enqueue(promiseJob(name, { payload: z.object({}), ...options[name] } as never), {} as never)
    })
  })

const commandLine: Entry<DatabaseUrl> = (name) =>
  Effect.gen(function* () {
    const cwd = yield* Nightshift.folder
    const env = { DATABASE_URL: Redacted.value(yield* DatabaseUrl) }
    const { code, stderr } = yield* Nightshift.call(["enqueue", name, "--payload", "{}"], { cwd, env })
    expect([code, stderr]).toEqual([0, ""])
  }).pipe(Effect.scoped) as Effect.Effect<unknown, unknown, DatabaseUrl>

describe("every way to enqueue applies the defaults of the kind", () => {
  it.scopedLive("in memory", () =>
    Effect.zipRight(prepare, Effect.zipRight(holds(common), holds(followUps))).pipe(
      Effect.provide(Layer.provideMerge(intake, layerMemory(uploads)))
    )
  )

  it.scopedLive("on PostgreSQL", () =>
    Effect.gen(function* () {
      yield* prepare
      yield* holds(common)
      yield* holds(followUps)
      yield* holds<Database | DatabaseUrl>({ sql, promise })
      if (isLong) yield* holds({ commandLine })
    }).pipe(Effect.provide(Layer.provideMerge(intake, layerPostgres(uploads))))
  )
})
