// Nightshift from dist/, used through its public API.
import { existsSync } from "node:fs"
import { fileURLToPath } from "node:url"
import pg from "pg"
import * as stock from "./nightshift-stock.mjs"

const face = new URL("../../../dist/index.js", import.meta.url)

const nameOf = (index) => (index === 0 ? "default" : `line-${index}`)
const queueNames = (queues) => Array.from({ length: queues }, (_, index) => nameOf(index))

const app = new URL("./nightshift-app.mjs", import.meta.url)

/** Seals values with a fixed key. */
const codecOf = async ({ sealed = false }) => {
  if (!sealed) return undefined
  const { seal } = await import(new URL("../../../dist/codec.js", import.meta.url))
  return seal({ keys: [{ id: "bench", key: Buffer.alloc(32, 7) }] })
}

/** Builds a layer. Returns a function that runs effects on it, and `close`. */
const start = async (layer, settings = {}) => {
  const { ConfigProvider, Layer, Logger, LogLevel, ManagedRuntime } = await import("effect")
  const surroundings = Layer.merge(
    Layer.setConfigProvider(ConfigProvider.fromMap(new Map(Object.entries(settings)))),
    Logger.minimumLogLevel(LogLevel.Warning)
  )
  const runtime = ManagedRuntime.make(Layer.provide(layer, surroundings))
  await runtime.runtime()
  return { run: (effect) => runtime.runPromise(effect), close: () => runtime.dispose() }
}

const door = new URL("../../../dist/main.js", import.meta.url)

const adminToken = "bench"

/** Runs the service in this process, with an async bot whose jobs no pod runs. Returns its port. */
const serve = async (url, args = []) => {
  // The folder with its bots.yaml.
  process.chdir(fileURLToPath(new URL("./nightshift-service", import.meta.url)))
  Object.assign(process.env, {
    DATABASE_URL: url,
    NIGHTSHIFT_ADMIN_TOKEN: adminToken,
    NIGHTSHIFT_QUEUES: "default",
    BOT_BENCH_TOKEN: "1:bench",
    BOT_BENCH_SECRET: "bench",
    LOG_LEVEL: "error",
    LOG_FORMAT: "json"
  })
  process.argv = [process.argv[0], "nightshift", "serve", "--port", "0", ...args]
  const port = new Promise((resolve) => {
    const write = process.stdout.write.bind(process.stdout)
    process.stdout.write = (text, ...rest) => {
      const [, found] = /"url":"http:\/\/[^:]+:(\d+)"/.exec(text) ?? []
      if (found !== undefined) resolve(Number(found))
      return write(text, ...rest)
    }
  })
  await import(door)
  return port
}

const open = async (url, params = {}) => {
  const codec = await codecOf(params)
  const { DateTime, Effect, Redacted } = await import("effect")
  const { JobSearch, Nightshift, Push, Queues } = await import(face)
  const { event, handlers, kind, whenJob } = await import(app)
  const databaseUrl = Redacted.make(url)
  const pool = new pg.Pool({ connectionString: url, max: 1 })
  // A program that works and enqueues uses one layer. A program that only enqueues uses a client, started before
  // timing.
  const client = await start(Nightshift.client({ databaseUrl, codec }))
  /** Uses the maximum number of slots; the peers also run with their best concurrency. */
  const widen = (queues, keyed) =>
    Effect.gen(function* () {
      const settings = yield* Queues
      yield* settings.declare(queues)
      const maxWorkers = Math.ceil(64 / queues.length)
      yield* Effect.forEach(queues, (queue) => settings.change(queue, { maxWorkers }), { concurrency: 8 })
      if (keyed) yield* settings.change("default", { perKey: { concurrency: 1, order: "serial" } })
    })
  const secret = Redacted.make(`whsec_${Buffer.alloc(32).toString("base64")}`)
  /** Sends jobs to a URL, and counts the starts as other handlers do. */
  const pushing = (to, onJob) => {
    const handler = Push.make(kind, { url: to, secret })
    const counted = (run) => (payload, job) => {
      onJob(payload)
      return run(payload, job)
    }
    return { ...handler, open: Effect.map(handler.open, counted) }
  }
  let pod
  const service = () => pod ?? client

  return {
    enqueueBulk: async (payloads, { keys, queue, runAt }) => {
      const options = {}
      if (runAt !== undefined) options.runAt = DateTime.unsafeMake(runAt)
      if (queue !== undefined) options.queue = nameOf(queue)
      if (keys !== undefined) options.key = (payload) => keys[payload.n - payloads[0].n]
      return service().run(kind.enqueueMany(payloads, options))
    },
    enqueue: (payload) => service().run(kind.enqueue(payload)),
    enqueueFrom: (callers, next) => {
      const caller = Effect.gen(function* () {
        for (let payload = next(); payload !== undefined; payload = next()) yield* kind.enqueue(payload)
      })
      return service().run(Effect.replicateEffect(caller, callers, { concurrency: "unbounded", discard: true }))
    },
    subscribe: async (count) => {
      await pool.query(
        `insert into nightshift.kind (name, queue, version, max_attempts, registered_at, updated_at)
         select 'subscriber-' || n, 'default', 1, 5, now(), now() from generate_series(1, $1) as n`,
        [count]
      )
      await pool.query(
        `insert into nightshift.subscription (event, kind, created_at, updated_at)
         select $1, name, now(), now() from nightshift.kind where name like 'subscriber-%'`,
        [event.name]
      )
    },
    publishFrom: (callers, next) => {
      const caller = Effect.gen(function* () {
        for (let payload = next(); payload !== undefined; payload = next()) yield* event.publish(payload)
      })
      return service().run(Effect.replicateEffect(caller, callers, { concurrency: "unbounded", discard: true }))
    },
    delivered: async () =>
      Number((await pool.query("select count(*) from nightshift.job where kind like 'subscriber-%'")).rows[0].count),
    work: async ({ keyed, onJob, paused = false, pushTo, queues }) => {
      await client.run(widen(queueNames(queues), keyed))
      if (paused) await client.run(Effect.flatMap(Queues, (settings) => settings.change("default", { paused })))
      whenJob(onJob)
      const own = pushTo === undefined ? handlers : [pushing(pushTo, onJob)]
      const layer = Nightshift.layer({ handlers: own, queues: queueNames(queues), databaseUrl, codec })
      const started = await start(layer, { HTTP_HANDLER_ALLOW: "127.0.0.1" })
      pod = started
      return async () => {
        pod = undefined
        await started.close()
      }
    },
    age: (count, days = 30) =>
      pool.query(
        `insert into nightshift.job (id, kind, version, queue, payload, status, priority, run_at, attempt, max_attempts,
           created_at, updated_at, started_at, finished_at)
         select gen_random_uuid(), 'noop', 1, 'default', '{"n":0}', 'done', 0, old, 1, 5, old, old, old, old
         from (select now() - make_interval(days => $2) - n * make_interval(secs => $3) as old
           from generate_series(1, $1) as n) as past`,
        [count, days, days === 0 ? 0.01 : 1]
      ),
    list: () => client.run(Effect.flatMap(JobSearch, (search) => search.list({ state: "done" }, { limit: 50 }))),
    span: async () => {
      const query = `select extract(epoch from max(finished_at) - min(started_at))::float8 as seconds from nightshift.job`
      return (await pool.query(query)).rows[0].seconds
    },
    stock: async (count) => {
      await pool.query(stock.jobs, [count])
      await pool.query(stock.minutes, [count])
      await pool.query(stock.schedule)
    },
    unfinished: async (queues = 1) => {
      // Uses the claim index, which also covers running jobs. A query by status would scan the whole table during the
      // measurement.
      const query = `select exists (select from nightshift.job where queue = any($2) and priority = 0
        and finished_at is null and run_at <= $1) as some`
      return (await pool.query(query, [new Date(), queueNames(queues)])).rows[0].some
    },
    serve: async ({ onJob }) => {
      await client.run(widen(queueNames(1), false))
      await client.run(Effect.flatMap(Queues, (settings) => settings.change("default", { paused: true })))
      whenJob(onJob)
      return { port: await serve(url, ["--app", fileURLToPath(app)]), token: adminToken }
    },
    resume: () => client.run(Effect.flatMap(Queues, (settings) => settings.change("default", { paused: false }))),
    receive: async () => ({
      port: await serve(url),
      path: "/hooks/telegram/bench",
      headers: { "x-telegram-bot-api-secret-token": "bench" }
    }),
    offer: async () => {
      await client.run(widen(queueNames(1), false))
      await client.run(Effect.flatMap(Queues, (settings) => settings.change("default", { maxWorkers: 1_000 })))
      return { port: await serve(url, ["--queues", "none"]), token: adminToken }
    },
    inbox: async () => {
      const port = await serve(url)
      const tokens = `http://127.0.0.1:${port}/api/v1/workspaces/bench/tokens`
      const made = await fetch(tokens, { method: "POST", headers: { authorization: `Bearer ${adminToken}` } })
      const { token } = await made.json()
      const headers = { authorization: `Bearer ${token}` }
      return { port, path: "/uploads/bench", contentPath: "/uploads/bench/{id}/content", headers }
    },
    received: async () =>
      Number((await pool.query("select count(*) from nightshift.job where kind = 'telegram.bench'")).rows[0].count),
    // Loads zod, which other rows do not use.
    workflows: async () => (await import("./nightshift-workflows.mjs")).openWorkflows(url),
    /** The most connections that the worker may open. */
    connections: async () => (await pool.query("select max(connections) as most from nightshift.pod")).rows[0].most,
    kept: async () =>
      Number((await pool.query("select count(*) from nightshift.job where status = 'done'")).rows[0].count),
    close: async () => {
      await pool.end()
      await client.close()
    }
  }
}

export const system = {
  title: "nightshift",
  unavailable: async () => (existsSync(face) ? undefined : "dist/ is not built: run npm run build"),
  prepare: async (url) => {
    const { Redacted } = await import("effect")
    const { Nightshift } = await import(face)
    await (await start(Nightshift.client({ databaseUrl: Redacted.make(url) }))).close()
  },
  open
}
