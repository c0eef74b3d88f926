import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted, Schedule } from "effect"
import * as FaultServer from "../faults/FaultServer.js"
import * as Nightshift from "../support/Nightshift.js"
import { at } from "./RestartableServer.js"

const token = "sesame"

/** Starts the service without workers; returns how to ask its API. */
const serve = (env: Readonly<Record<string, string>>) =>
  Effect.gen(function* () {
    const cwd = yield* Nightshift.folder
    const service = yield* Nightshift.start(["serve", "--port", "0", "--queues", "none"], {
      cwd,
      env: { ...env, NIGHTSHIFT_ADMIN_TOKEN: token, LOG_FORMAT: "json" }
    })
    const [, url = ""] = yield* service.said(/"url":"(http[^"]+)"/)
    const ask = (method: string, path: string, body?: unknown) =>
      Effect.promise(async () => {
        const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" }
        const content = body === undefined ? null : JSON.stringify(body)
        const response = await fetch(`${url}${path}`, { method, headers, body: content })
        const text = await response.text()
        expect(response.ok, `${method} ${path}: ${text}`).toBe(true)
        return text.startsWith("{") ? JSON.parse(text) : text
      })
    const listed = Effect.map(ask("GET", "/api/v1/jobs"), ({ jobs }) =>
      jobs.map(({ id, state }: { readonly id: string; readonly state: string }) => `${id} ${state}`)
    )
    const replica = Effect.map(ask("GET", "/api/v1/metrics/database"), ({ replica }) => replica)
    const enqueue = Effect.map(
      ask("POST", "/api/v1/jobs", { kind: "noop", payload: {}, force: true }),
      ({ id }) => id as string
    )
    return { ...service, ask, enqueue, listed, replica }
  })

const until = <A>(read: Effect.Effect<A>, holds: (value: A) => boolean): Effect.Effect<A> =>
  Effect.filterOrFail(read, holds, () => "not yet").pipe(Effect.retry(Schedule.spaced("50 millis")), Effect.orDie)

describe("DATABASE_READ_URL", () => {
  it.scopedLive("reads lists from a replica, and from the primary while the replica is too far behind or down", () =>
    Effect.gen(function* () {
      const primary = yield* FaultServer.make()
      const DATABASE_URL = Redacted.value(primary.url)
      const cwd = yield* Nightshift.folder
      expect(yield* Nightshift.call(["migrate"], { cwd, env: { DATABASE_URL } })).toMatchObject({ code: 0 })
      const standby = yield* primary.replica
      const DATABASE_READ_URL = Redacted.value(standby.url)
      const onReplica = at(DATABASE_READ_URL)
      const env = { DATABASE_URL, DATABASE_READ_URL }
      const patient = yield* serve({ ...env, DATABASE_READ_MAX_LAG: "1h" })
      const strict = yield* serve({ ...env, DATABASE_READ_MAX_LAG: "1ms" })

      const first = yield* patient.enqueue
      const address = `${new URL(DATABASE_READ_URL).host}/postgres`
      expect(yield* until(patient.replica, ({ unused }) => unused === null)).toMatchObject({ address })
      yield* until(onReplica.query("select 1 from nightshift.job"), ({ length }) => length === 1)

      // A replica that no longer replays shows which reads it answers.
      yield* onReplica.query("select pg_wal_replay_pause()")
      yield* until(
        onReplica.query<{ state: string }>("select pg_get_wal_replay_pause_state() as state"),
        ([row]) => row?.state === "paused"
      )
      const second = yield* patient.enqueue
      expect(yield* until(patient.listed, ({ length }) => length === 1)).toEqual([`${first} pending`])
      yield* until(patient.ask("GET", `/api/v1/jobs/find/${second}`), ({ jobs }) => jobs.length === 0)
      expect(yield* patient.ask("GET", `/api/v1/jobs/${second}`)).toMatchObject({ state: "pending" })
      expect(yield* patient.ask("GET", `/api/v1/jobs/${second}/why`)).toMatchObject({ reason: "no_pod" })
      const { lagSeconds } = yield* until(patient.replica, ({ lagSeconds }) => lagSeconds > 0)
      expect(yield* patient.ask("GET", "/metrics")).toMatch(/^nightshift_database_replica_lag_seconds [\d.]+$/m)
      expect(lagSeconds).toBeLessThan(3600)

      // Too far behind for the other service.
      yield* until(strict.listed, (jobs) => jobs.includes(`${second} pending`))
      const isBehind = /is \S+ behind, more than DATABASE_READ_MAX_LAG \(1ms\)/
      yield* until(strict.replica, ({ unused }) => isBehind.test(unused))
      yield* strict.said(/reads use the primary: the replica at \S+ is \S+ behind/)
      const doctor = Nightshift.call(["doctor"], { cwd, env: { ...env, DATABASE_READ_MAX_LAG: "1ms" } })
      yield* until(doctor, ({ stdout }) => stdout.includes("Lists and charts use the primary") && isBehind.test(stdout))

      // An operator sees their own acts.
      yield* patient.ask("POST", `/api/v1/jobs/${second}/cancel`)
      expect(yield* patient.listed).toEqual([`${second} cancelled`, `${first} pending`])

      yield* onReplica.query("select pg_wal_replay_resume()")
      yield* until(strict.replica, ({ unused }) => unused === null)
      yield* strict.said(/reads use the replica at \S+ again/)

      yield* standby.signal("SIGINT")
      yield* standby.ended
      expect(yield* patient.listed).toEqual([`${second} cancelled`, `${first} pending`])
      expect(yield* until(patient.replica, ({ unused }) => unused !== null)).toMatchObject({
        lagSeconds: null,
        unused: expect.stringMatching(/^does not answer: /)
      })
      yield* patient.said(/reads use the primary: the replica at \S+ does not answer/)
      yield* standby.start
      yield* until(patient.replica, ({ unused }) => unused === null)
    })
  )

  it.scopedLive("reads from the next of several replicas, and still shows the process its own acts", () =>
    Effect.gen(function* () {
      const primary = yield* FaultServer.make()
      const DATABASE_URL = Redacted.value(primary.url)
      const cwd = yield* Nightshift.folder
      expect(yield* Nightshift.call(["migrate"], { cwd, env: { DATABASE_URL } })).toMatchObject({ code: 0 })
      const standbys = [yield* primary.replica, yield* primary.replica] as const
      const [one, two] = standbys.map(({ url }) => new URL(Redacted.value(url))) as [URL, URL]
      const DATABASE_READ_URL = one.href.replace(one.host, `${one.host},${two.host}`)
      const env = { DATABASE_URL, DATABASE_READ_URL, DATABASE_READ_MAX_LAG: "1h" }
      const [acting, watching] = [yield* serve(env), yield* serve(env)]
      const onSecond = at(two.href)

      const first = yield* acting.enqueue
      yield* until(acting.replica, ({ unused }) => unused === null)
      yield* until(onSecond.query("select 1 from nightshift.job"), ({ length }) => length === 1)
      yield* onSecond.query("select pg_wal_replay_pause()")
      yield* until(
        onSecond.query<{ state: string }>("select pg_get_wal_replay_pause_state() as state"),
        ([row]) => row?.state === "paused"
      )
      yield* acting.ask("POST", `/api/v1/jobs/${first}/cancel`)
      yield* until(watching.listed, ([shown]) => shown === `${first} cancelled`)
      expect(yield* acting.listed).toEqual([`${first} cancelled`])

      yield* standbys[0].signal("SIGINT")
      yield* standbys[0].ended
      // The second replica answers the other service, which knows of no act that it lacks.
      yield* until(watching.listed, ([shown]) => shown === `${first} pending`)
      yield* until(acting.replica, ({ lagSeconds, unused }) => unused === null && lagSeconds > 0)
      expect(yield* acting.listed).toEqual([`${first} cancelled`])
    })
  )

  it.scopedLive("refuses a server that is no replica of the primary", () =>
    Effect.gen(function* () {
      const [primary, other] = [yield* FaultServer.make(), yield* FaultServer.make()]
      const service = yield* serve({
        DATABASE_URL: Redacted.value(primary.url),
        DATABASE_READ_URL: Redacted.value(other.url)
      })
      const id = yield* service.enqueue
      expect(yield* service.listed).toEqual([`${id} pending`])
      const { unused } = yield* until(service.replica, ({ unused }) => !String(unused).startsWith("does not answer"))
      expect(unused).toBe("is not a replica of the database in DATABASE_URL")
    })
  )
})
