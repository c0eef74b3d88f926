import { type AddressInfo, createServer } from "node:net"
import { Effect, Layer, Option, Redacted } from "effect"
import { describe, expect, it, vi } from "vitest"
import { z } from "zod"
import { connect, job, StartError, worker } from "../../src/client/index.js"
import * as NoopEcho from "../../src/handlers/NoopEcho.js"
import * as Health from "../../src/http/server/Health.js"
import { addressOf } from "../../src/http/server/HealthAddress.js"
import * as Nightshift from "../../src/worker/Nightshift.js"
import { useDatabase } from "./ClientDatabase.js"

const database = useDatabase()

/** A server on a free port, to hold it or to learn its number. */
const hold = async () => {
  const server = createServer()
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done))
  return {
    port: (server.address() as AddressInfo).port,
    close: () => new Promise<void>((done) => server.close(() => done()))
  }
}

const freePort = async () => {
  const { close, port } = await hold()
  await close()
  return port
}

const ask = async (url: string, headers: Record<string, string> = {}, method = "GET") => {
  const response = await fetch(url, { headers, method })
  return { status: response.status, text: await response.text() }
}

/** Waits until `/readyz` answers with this status, and returns its reasons. */
const untilReadyIs = (base: string, status: number): Promise<ReadonlyArray<string>> =>
  vi.waitFor(
    async () => {
      const answer = await ask(`${base}/readyz`)
      expect(answer.status).toBe(status)
      return JSON.parse(answer.text).reasons
    },
    { timeout: 10_000, interval: 20 }
  )

const deferred = () => {
  let resolve = () => {}
  const promise = new Promise<void>((done) => {
    resolve = done
  })
  return { promise, resolve }
}

describe("the health checks of a worker", () => {
  it("report it as not ready while it starts and drains, count its jobs, and end with it", async () => {
    const port = await freePort()
    const base = `http://127.0.0.1:${port}`
    const quick = job("quick", { payload: z.object({}), queue: "probed" })
    const held = job("held", { payload: z.object({}), queue: "probed" })
    const [started, released] = [deferred(), deferred()]
    await using shift = await connect(database.url(), { log: false })
    const options = {
      handlers: [
        quick.handle(() => "done"),
        held.handle(async () => {
          started.resolve()
          await released.promise
        })
      ],
      health: { port }
    }
    const blocker = await database.pool().connect()
    await blocker.query("begin; lock table nightshift.kind in access exclusive mode")
    const starting = worker(shift, options)
    expect(await untilReadyIs(base, 503)).toEqual([expect.stringMatching(/^starting: kinds, queues, .* not declared$/)])
    expect(await ask(`${base}/healthz`)).toMatchObject({ status: 200, text: expect.stringContaining('"ok"') })
    await blocker.query("rollback")
    blocker.release()
    const running = await starting
    expect(running.healthUrl).toBe(base)
    expect(await untilReadyIs(base, 200)).toEqual([])

    const { id } = await shift.enqueue(quick, {})
    await shift.result(id)
    const { text } = await ask(`${base}/metrics`)
    expect(text).toContain('nightshift_jobs{queue="probed",state="done"} 1')
    expect(text).toMatch(/^nightshift_jobs_completed_total\{.*kind="quick".*\} 1$/m)
    expect(text).toMatch(/^nightshift_database_op_seconds_count\{/m)
    expect(text).toMatch(/^nightshift_process_resident_memory_bytes \d/m)
    const missing = {
      status: 404,
      text: expect.stringContaining("serves only GET /healthz, GET /readyz and GET /metrics.")
    }
    expect(await ask(`${base}/api/v1/jobs`)).toMatchObject(missing)
    expect(await ask(`${base}/readyz`, {}, "POST")).toMatchObject(missing)
    for (const path of ["healthz", "readyz", "metrics"]) {
      expect(await ask(`${base}/${path}`, {}, "HEAD"), path).toEqual({ status: 200, text: "" })
    }

    await expect(worker(shift, { ...options, health: { port: 0 } })).rejects.toThrow(
      /^Another worker of this shift serves health checks\./
    )
    await shift.enqueue(held, {})
    await started.promise
    const stopped = running.stop()
    expect(await untilReadyIs(base, 503)).toContain("shutting down")
    released.resolve()
    await stopped
    await expect(fetch(`${base}/healthz`)).rejects.toThrow()

    const again = await worker(shift, options)
    expect(await untilReadyIs(base, 200)).toEqual([])
    await again.stop()
  })

  it("report it as not ready while its database is unreachable, and follow NIGHTSHIFT_METRICS_TOKEN but not PORT", async () => {
    const token = "a-token-for-the-metrics-of-workers"
    vi.stubEnv("NIGHTSHIFT_METRICS_TOKEN", token)
    vi.stubEnv("PORT", "not a port")
    const proxy = await database.proxy()
    await using shift = await connect(proxy.url, { log: false })
    const idle = job("idle", { payload: z.object({}), queue: "unreachable" })
    const { healthUrl = "" } = await worker(shift, { handlers: [idle.handle(() => {})], health: { port: 0 } })
    vi.unstubAllEnvs()
    expect(await ask(`${healthUrl}/metrics`)).toMatchObject({ status: 401 })
    expect(await ask(`${healthUrl}/metrics`, { authorization: `Bearer ${token}` })).toMatchObject({ status: 200 })
    expect(await untilReadyIs(healthUrl, 200)).toEqual([])
    await proxy.close()
    expect(await untilReadyIs(healthUrl, 503)).not.toEqual([])
    expect(await ask(`${healthUrl}/healthz`)).toMatchObject({ status: 200 })
    const back = await database.proxy(Number(new URL(proxy.url).port))
    expect(await untilReadyIs(healthUrl, 200)).toEqual([])
    await shift.close()
    await back.close()
  })

  it("refuse a port that is taken, and the worker does not start", async () => {
    const taken = await hold()
    const idle = job("idle", { payload: z.object({}), queue: "taken" })
    await using shift = await connect(database.url(), { log: false })
    const started = worker(shift, { handlers: [idle.handle(() => {})], health: { port: taken.port } })
    await expect(started).rejects.toThrow(StartError)
    await expect(started).rejects.toThrow(
      `Port ${taken.port} on 127.0.0.1 is already in use. Stop the process that uses it, or choose another port with health.port.`
    )
    const { rows } = await database.pool().query("select from nightshift.pod where 'taken' = any(queues)")
    expect(rows).toEqual([])
    await taken.close()
    const running = await worker(shift, { handlers: [idle.handle(() => {})], health: { port: taken.port } })
    expect((await ask(`${running.healthUrl}/readyz`)).status).toBe(200)
  })

  it("open on NIGHTSHIFT_WORKER_PORT in the first worker of the process, unless its options have a port", async () => {
    const idle = job("idle", { payload: z.object({}), queue: "environment" })
    const handlers = [idle.handle(() => {})]
    await using shift = await connect(database.url(), { log: false })
    await using other = await connect(database.url(), { log: false, pool: 3 })
    await expect(worker(shift, { handlers, health: {} })).rejects.toMatchObject({
      option: "health.port",
      message: "health.port is missing. Set it, or set NIGHTSHIFT_WORKER_PORT."
    })
    const [port, own] = [await freePort(), await freePort()]
    vi.stubEnv("NIGHTSHIFT_WORKER_PORT", String(port))
    vi.stubEnv("NIGHTSHIFT_WORKER_HOST", "127.0.0.2")
    const first = await worker(shift, { handlers })
    expect(first.healthUrl).toBe(`http://127.0.0.2:${port}`)
    expect((await ask(`${first.healthUrl}/healthz`)).status).toBe(200)
    const second = await worker(shift, { handlers })
    const third = await worker(other, { handlers })
    expect([second.healthUrl, third.healthUrl]).toEqual([undefined, undefined])
    await Promise.all([first.stop(), second.stop(), third.stop()])

    const named = await worker(shift, { handlers, health: { port: own, host: "127.0.0.1" } })
    expect(named.healthUrl).toBe(`http://127.0.0.1:${own}`)
    await named.stop()

    // A worker that names only the host uses the port of the environment too, until it has stopped.
    const hosted = await worker(shift, { handlers, health: { host: "127.0.0.1" } })
    expect(hosted.healthUrl).toBe(`http://127.0.0.1:${port}`)
    const fourth = await worker(other, { handlers })
    expect(fourth.healthUrl).toBeUndefined()
    await fourth.stop()
    await expect(worker(other, { handlers, health: { host: "127.0.0.1" } })).rejects.toThrow(StartError)
    const fifth = await worker(other, { handlers })
    expect(fifth.healthUrl).toBeUndefined()
    await Promise.all([hosted.stop(), fifth.stop()])
    const sixth = await worker(other, { handlers })
    expect(sixth.healthUrl).toBe(`http://127.0.0.2:${port}`)
    await sixth.stop()

    // Kubernetes sets this for a Service named nightshift-worker.
    for (const link of ["tcp://10.96.0.7:9090", "udp://10.96.0.7:9090"]) {
      vi.stubEnv("NIGHTSHIFT_WORKER_PORT", link)
      expect(await Effect.runPromise(addressOf({}))).toEqual(Option.none())
    }

    vi.stubEnv("NIGHTSHIFT_WORKER_HOST", "")
    const taken = await hold()
    vi.stubEnv("NIGHTSHIFT_WORKER_PORT", String(taken.port))
    await expect(worker(shift, { handlers })).rejects.toThrow("choose another port with NIGHTSHIFT_WORKER_PORT.")
    vi.stubEnv("NIGHTSHIFT_WORKER_PORT", "many")
    await expect(worker(shift, { handlers })).rejects.toThrow(
      'NIGHTSHIFT_WORKER_PORT: expected a whole number from 0 to 65535, got "many".'
    )
    vi.unstubAllEnvs()
    await taken.close()
  })

  it("are a layer around the worker for programs with Effect", async () => {
    const layered = Nightshift.worker({ handlers: [NoopEcho.handler], queues: ["layered"] })
    const pod = (port: number) =>
      layered.pipe(
        Health.serve({ port }),
        Layer.provide(Nightshift.client({ databaseUrl: Redacted.make(database.url()) }))
      )
    const seen = Effect.gen(function* () {
      const { url } = yield* Health.Health
      return yield* Effect.promise(() => ask(`${url}/readyz`))
    })
    expect(await Effect.runPromise(Effect.provide(seen, pod(0)))).toMatchObject({ status: 200 })
    expect(String(await Effect.runPromise(Effect.flip(Effect.provide(seen, pod(70_000)))))).toContain(
      "health.port must be a whole number from 0 to 65535, got 70000."
    )
  })
})
