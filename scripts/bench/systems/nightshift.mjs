// Nightshift itself, as built in dist/ and as a program would use it: the public faces, a schema, a handler.
import { existsSync } from "node:fs"
import pg from "pg"

const face = new URL("../../../dist/index.js", import.meta.url)

const queueNames = (queues) => Array.from({ length: queues }, (_, index) => (index === 0 ? "default" : `line-${index}`))

const kindOf = async () => {
  const { Schema } = await import("effect")
  const { Job } = await import(face)
  const payload = Schema.Struct({ n: Schema.Number, at: Schema.String, text: Schema.String })
  return Job.make("noop", { payload, queue: "default" })
}

/** Runs a layer until its `close`; gives a function that runs effects on it. */
const start = async (layer) => {
  const { ConfigProvider, Layer, Logger, LogLevel, ManagedRuntime } = await import("effect")
  const settings = Layer.merge(
    Layer.setConfigProvider(ConfigProvider.fromMap(new Map([["NIGHTSHIFT_SLOTS", "64"]]))),
    Logger.minimumLogLevel(LogLevel.Warning)
  )
  const runtime = ManagedRuntime.make(Layer.provide(layer, settings))
  await runtime.runtime()
  return { run: (effect) => runtime.runPromise(effect), close: () => runtime.dispose() }
}

const open = async (url) => {
  const { DateTime, Effect, Redacted } = await import("effect")
  const { Handler, Nightshift, Queues } = await import(face)
  const kind = await kindOf()
  const databaseUrl = Redacted.make(url)
  const pool = new pg.Pool({ connectionString: url, max: 1 })
  // A program that works and enqueues does both on one layer; one that only enqueues has a client, started beforehand.
  const client = await start(Nightshift.client({ databaseUrl }))
  const oneAtATime = Effect.gen(function* () {
    const settings = yield* Queues
    yield* settings.declare(["default"])
    yield* settings.change("default", { perKey: { concurrency: 1, order: "serial" } })
  })
  let pod
  const service = () => pod ?? client

  return {
    enqueueBulk: async (payloads, { keys, runAt }) => {
      const options = runAt === undefined ? {} : { runAt: DateTime.unsafeMake(runAt) }
      const { run } = service()
      if (keys === undefined) return run(kind.enqueueAll(payloads, options))
      return run(
        Effect.forEach(payloads, (payload, index) => kind.enqueue(payload, { key: keys[index] }), {
          concurrency: "unbounded"
        })
      )
    },
    enqueue: (payload) => service().run(kind.enqueue(payload)),
    work: async ({ keyed, onJob, queues }) => {
      if (keyed) await client.run(oneAtATime)
      const handler = Handler.make(kind, (payload) =>
        Effect.suspend(() => {
          const busy = onJob(payload)
          return busy === undefined ? Effect.void : Effect.promise(() => busy)
        })
      )
      const started = await start(Nightshift.layer({ handlers: [handler], queues: queueNames(queues), databaseUrl }))
      pod = started
      return async () => {
        pod = undefined
        await started.close()
      }
    },
    unfinished: async () => {
      const query = `select exists (select from nightshift.job where status = 'running') or exists (
        select from nightshift.job where status = 'pending' and run_at <= clock_timestamp()) as some`
      return (await pool.query(query)).rows[0].some
    },
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
  store: "postgres",
  peer: false,
  unavailable: async () => (existsSync(face) ? undefined : "dist/ is not built: run npm run build"),
  prepare: async (url) => {
    const { Redacted } = await import("effect")
    const { Nightshift } = await import(face)
    await (await start(Nightshift.client({ databaseUrl: Redacted.make(url) }))).close()
  },
  open
}
