import { readFileSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Clock, Duration, Effect, Layer, Redacted } from "effect"
import * as Checks from "../../src/cli/doctor/Checks.js"
import { sealedValues } from "../../src/cli/doctor/SealCheck.js"
import * as ClusterPg from "../../src/cluster/ClusterPg.js"
import { Pods } from "../../src/cluster/Pods.js"
import { makeGenerator, type PodId } from "../../src/core/Ids.js"
import { Database } from "../../src/database/Database.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as Listener from "../../src/database/Listener.js"
import { MinuteBuckets } from "../../src/history/MinuteBuckets.js"
import * as MinuteBucketsPg from "../../src/history/MinuteBucketsPg.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import { Tally } from "../../src/telemetry/Tally.js"
import * as Nightshift from "../support/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"

interface Finding {
  readonly check: string
  readonly status: string
  readonly found: string
  readonly fix?: string
}

const doctor = (env: Readonly<Record<string, string>>, ...args: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const cwd = yield* Nightshift.folder
    const finished = yield* Nightshift.call(["doctor", ...args], { cwd, env })
    const findings: ReadonlyArray<Finding> = args.includes("--json") ? JSON.parse(finished.stdout).findings : []
    return { ...finished, of: (check: string) => findings.filter((finding) => finding.check === check), findings }
  })

const house = Layer.provideMerge(MinuteBucketsPg.layer, TestDatabase.layer)

const settings = Effect.map(DatabaseUrl, (url) => ({
  DATABASE_URL: Redacted.value(url),
  NIGHTSHIFT_ADMIN_TOKEN: "sesame"
}))

/** Records deaths in the current hour. */
const die = (count: number) =>
  Effect.gen(function* () {
    const buckets = yield* MinuteBuckets
    const tally = yield* Effect.provide(Tally.make, Metrics.layer)
    const now = yield* Clock.currentTimeMillis
    tally.of("mail", "send_receipt").died(count, "exhausted", now)
    yield* buckets.record((yield* makeGenerator).pod(now), 1, tally.take())
  })

describe("nightshift doctor", () => {
  it("has every check on its page, in the order in which they run", () => {
    const page = readFileSync(join(Nightshift.root, "docs/operate/doctor.md"), "utf8")
    const rows = [...page.matchAll(/^\| `([a-z]+)` +\|/gm)].map(([, name]) => name)
    const names = [...Checks.checks, sealedValues(undefined)].map(({ name }) => name)
    expect(rows.slice(-names.length)).toEqual(names)
  })

  it.scopedLive("finds no problem in a healthy installation", () =>
    Effect.gen(function* () {
      const well = yield* doctor(yield* settings, "--json")
      expect(well).toMatchObject({ code: 0, stderr: "" })
      expect(well.findings.map(({ check, status }) => `${check} ${status}`)).toEqual([
        "config ok",
        "database ok",
        "schema ok",
        "writes ok",
        "notifications ok",
        "clock ok",
        "servers ok",
        "connections ok",
        "vacuum ok",
        "queues ok",
        "kinds ok",
        "followups ok",
        "deaths ok",
        "uploads ok",
        "pins ok",
        "journals ok",
        "keys ok"
      ])
      expect(well.of("database")[0]?.found).toMatch(/^PostgreSQL \d\d\.\d+ at /)
      expect(well.stdout).not.toContain("sesame")
    }).pipe(Effect.provide(house))
  )

  it.scopedLive(
    "names the processes last seen by another server, as after a failover that left the old primary up",
    () =>
      Effect.gen(function* () {
        const { sql } = yield* Database
        const ids = yield* makeGenerator
        const host = { name: "web-1", pid: 7, node: "v22" }
        const facts = { label: undefined, version: "1", queues: ["mail"], kinds: [], releases: {}, host, startedAt: 0 }
        const [stayed, moved] = [ids.pod(1), ids.pod(2)]
        const show = (id: PodId, label: string) =>
          Effect.flatMap(Pods, ({ beat }) =>
            beat({ ...facts, id, label }, { slots: [], draining: false }, Duration.minutes(1))
          )
        yield* show(stayed, "stayed")
        yield* show(moved, "moved")
        expect((yield* doctor(yield* settings, "--json")).of("servers")).toMatchObject([
          { status: "ok", found: expect.stringMatching(/: \S+ since 20\S+Z\.$/) }
        ])
        // The promoted replica still has the row that the old primary wrote.
        yield* sql`update nightshift.pod set server = '10.0.0.1:5432 since 2026-01-02T03:04:05.678901Z' where label = 'stayed'`
        const [finding] = (yield* doctor(yield* settings, "--json")).of("servers")
        expect(finding).toMatchObject({
          status: "warn",
          found: expect.stringMatching(
            /1 process sent its last heartbeat to another server: stayed \(web-1, pid 7\) on 10\.0\.0\.1:5432 since 2026-01-02T03:04:05Z, /
          ),
          fix: expect.stringContaining("stop that server")
        })
        expect(finding?.found).not.toContain("moved")
        yield* show(stayed, "stayed")
        expect((yield* doctor(yield* settings, "--json")).of("servers")).toMatchObject([{ status: "ok" }])
      }).pipe(Effect.provide(Layer.provideMerge(Layer.provide(ClusterPg.layer, Listener.layerPolling), house)))
  )

  it.scopedLive("treats one server under two names as one server", () =>
    Effect.gen(function* () {
      const given = yield* settings
      const { host } = new URL(given.DATABASE_URL)
      const twice = given.DATABASE_URL.replace(host, `${host},${host}`)
      const found = (yield* doctor({ ...given, DATABASE_URL: twice }, "--json")).of("servers")
      expect(found).toMatchObject([{ status: "ok" }])
    }).pipe(Effect.provide(house))
  )

  it("fails when two servers both accept writes, even if other servers do not answer", () => {
    const server = (address: string, start: string | undefined, takesWrites = true) => ({
      address,
      server: start === undefined ? undefined : `${address} since ${start}`,
      takesWrites
    })
    const [monday, tuesday] = ["2026-01-02T03:04:05.000001Z", "2026-01-02T03:04:05.000002Z"]
    const standby = server("c:5432", tuesday, false)
    expect(Checks.ofNamed([server("a:5432", monday), standby, server("d:5432", undefined, false)])).toEqual([])
    expect(Checks.ofNamed([server("a:5432", monday), server("b:5432", tuesday), standby])).toMatchObject([
      { status: "fail", found: expect.stringMatching(/^2 servers in DATABASE_URL accept writes: a:5432 .*, b:5432 /) }
    ])
  })

  it("names the job table in the schema of DATABASE_SCHEMA", () => {
    expect(Checks.ofTuples({ jobDeadTuples: 1_000_000, jobLiveTuples: 1 }, "eu")).toMatchObject([
      { status: "warn", fix: expect.stringContaining("VACUUM eu.job ") }
    ])
  })

  it.scopedLive("reports each problem, its subject and its fix, and continues past warnings", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const holder = yield* TestDatabase.connection
      const env = { ...(yield* settings), DATABASE_OLD_TRANSACTION: "1ms", NIGHTSHIFT_QUEUE: "mail" }
      const pid = yield* Effect.promise(async () => {
        await holder.query("begin isolation level repeatable read")
        return (await holder.query("select pg_backend_pid() as pid")).rows[0].pid
      })
      yield* sql`insert into nightshift.job (id, queue, kind, payload, max_attempts, run_at, created_at, updated_at)
        values (gen_random_uuid(), 'forlorn', 'k', '{}', 5, to_timestamp(1), to_timestamp(1), to_timestamp(1))`
      yield* sql`insert into nightshift.job
        (id, queue, kind, payload, max_attempts, run_at, created_at, updated_at, last_error, unknown_since)
        values (gen_random_uuid(), 'mail', 'send-recipt', '{}', 5, to_timestamp(1), to_timestamp(1), to_timestamp(1),
          'this process has no handler', to_timestamp(1))`
      yield* sql`with execution as (
          insert into nightshift.job
            (id, queue, kind, payload, max_attempts, run_at, created_at, updated_at, woken, dedupe_key, dedupe_scope)
          values (gen_random_uuid(), 'mail', 'order', '{}', 5, to_timestamp(1), to_timestamp(1), to_timestamp(1), 1,
            'order/A-17', 'retained') returning id
        ), step as (
          insert into nightshift.workflow_step (job_id, name, attempt, sequence, kind, outcome, exit, started_at, ended_at)
          select id, 'last', 1, 5000, 'run', 'done', '{}', now(), now() from execution
        )
        insert into nightshift.workflow_lifetime (job_id, release) select id, '1f0c9a7be402' from execution`
      yield* sql`insert into nightshift.follow_up_due (job_id, death, version, died_at, due_at, kind, dead_reason, payload)
        select gen_random_uuid(), 1, 1, to_timestamp(1), due_at, 'charge', 'poison', '{}'
        from unnest(array[to_timestamp(1), to_timestamp(2), now()]) due_at`
      yield* sql`create index my_own on nightshift.job (kind)`
      yield* die(40)
      const ill = yield* doctor(env, "--json")
      expect(ill.code).toBe(0)
      expect(ill.of("config")).toMatchObject([{ status: "warn", found: expect.stringContaining("NIGHTSHIFT_QUEUE ") }])
      expect(ill.of("schema")).toMatchObject([{ status: "warn", found: expect.stringContaining("my_own") }])
      expect(ill.of("vacuum")[0]).toMatchObject({ status: "warn", fix: expect.stringContaining(`(${pid})`) })
      expect(ill.of("queues")).toMatchObject([
        { status: "warn", found: expect.stringContaining("forlorn"), fix: expect.stringContaining("--queues forlorn") }
      ])
      expect(ill.of("kinds")).toMatchObject([
        { status: "warn", found: expect.stringContaining('"send-recipt" in mail (1).') }
      ])
      expect(ill.of("followups")).toMatchObject([
        {
          status: "warn",
          found: expect.stringMatching(/makes their follow-up, by kind: "charge" \(2, the first .+ ago\)\.$/)
        }
      ])
      expect(ill.of("pins")).toMatchObject([
        {
          status: "warn",
          found: '1 execution of "order" pinned to release 1f0c9a7be402, which no live process runs: order/A-17.',
          fix: expect.stringContaining("nightshift workflows unpin --release 1f0c9a7be402")
        }
      ])
      expect(ill.of("journals")).toMatchObject([
        { status: "warn", found: expect.stringContaining("order/A-17 (5000)") }
      ])
      expect(ill.of("deaths")).toMatchObject([
        { status: "warn", found: expect.stringContaining("send_receipt in mail (40)") }
      ])
    }).pipe(Effect.provide(house))
  )

  it.scopedLive("warns if DATABASE_LISTEN_URL leads to another database", () =>
    Effect.gen(function* () {
      const given = yield* settings
      const listeningOn = (url: string) =>
        Effect.map(doctor({ ...given, DATABASE_LISTEN_URL: url }, "--json"), ({ of }) => of("notifications"))
      expect(yield* listeningOn(`${given.DATABASE_URL}?sslmode=disable`)).toMatchObject([{ status: "ok" }])
      expect(yield* listeningOn(Redacted.value(yield* TestDatabase.empty))).toMatchObject([
        { status: "warn", found: expect.stringContaining("DATABASE_LISTEN_URL leads to another database") }
      ])
    }).pipe(Effect.provide(house))
  )

  it.scopedLive("fails when the tables differ from this release's schema", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      yield* sql`alter table nightshift.job alter column version drop not null`
      const drifted = yield* doctor(yield* settings)
      expect(drifted.code).toBe(1)
      expect(drifted.stdout).toMatch(/^fail +schema +Missing or changed: table job column version integer not null/m)
      expect(drifted.stdout).toMatch(/^ +-> The tables were changed manually\./m)
      expect(drifted.stderr).toMatch(/^nightshift: 1 of \d checks failed\.\n$/)
    }).pipe(Effect.provide(house))
  )

  it.scopedLive("fails on an empty database and says that it must be migrated", () =>
    Effect.gen(function* () {
      const empty = yield* doctor({ DATABASE_URL: Redacted.value(yield* TestDatabase.empty) }, "--json")
      expect(empty).toMatchObject({ code: 1 })
      expect(empty.of("schema")).toMatchObject([{ status: "fail", fix: "Run `nightshift migrate`." }])
      expect(JSON.parse(empty.stdout).ok).toBe(false)
    })
  )

  it.scopedLive("names every invalid setting and an unreachable database, without its password", () =>
    Effect.gen(function* () {
      const wrong = yield* doctor({ PORT: "many", LOG_LEVEL: "loud", HOST: "0.0.0.0" }, "--json")
      expect(wrong.code).toBe(1)
      expect(wrong.of("config").map(({ found }) => found.split(":")[0])).toEqual(["PORT", "LOG_LEVEL"])
      const open = yield* doctor({ HOST: "0.0.0.0" }, "--json")
      expect(open.of("config")).toMatchObject([{ status: "fail", found: expect.stringContaining("0.0.0.0") }])
      const env = { DATABASE_URL: "postgres://someone:hunter2@127.0.0.1:1/none", DATABASE_BOOT_TIMEOUT: "300ms" }
      const away = yield* doctor(env, "--json")
      expect(away.code).toBe(1)
      expect(away.of("database")).toMatchObject([
        { status: "fail", found: expect.stringContaining("127.0.0.1:1/none") }
      ])
      expect(away.stdout + away.stderr).not.toContain("hunter2")
    })
  )
})

describe("nightshift doctor --url", () => {
  it.scopedLive("reports whether a running process is alive and ready", () =>
    Effect.gen(function* () {
      const cwd = yield* Nightshift.folder
      const running = yield* Nightshift.start(["serve", "--port", "0"], { cwd })
      const [, url = ""] = yield* running.said(/"url":"(http:[^"]+)"/)
      const well = yield* doctor({}, "--json", "--url", url)
      expect(well).toMatchObject({ code: 0, findings: [{ status: "ok" }, { status: "ok" }] })
      expect(well.of("ready")[0]?.found).toBe("Ready, without queue, worker, uploads.")
      yield* running.signal("SIGKILL")
      yield* running.finished
      const gone = yield* doctor({}, "--url", url)
      expect(gone).toMatchObject({ code: 1, stdout: expect.stringMatching(/is not reachable \(ECONNREFUSED\)/) })
    })
  )

  it.scopedLive("does not accept an unrelated server's answer as healthy", () =>
    Effect.gen(function* () {
      const port = yield* Effect.acquireRelease(
        Effect.async<[number, () => void]>((resume) => {
          const server = createServer((request, response) => {
            const ready = request.url === "/readyz"
            response.writeHead(ready ? 503 : 404, { "content-type": "application/json" })
            response.end(ready ? '{"reasons":["the moon is \\u001b[31mred"]}' : "{}")
          }).listen(0, "127.0.0.1", () =>
            resume(Effect.succeed([(server.address() as AddressInfo).port, () => server.close()]))
          )
        }),
        ([, close]) => Effect.sync(close)
      )
      const other = yield* doctor({}, "--url", `http://127.0.0.1:${port[0]}`)
      expect(other.code).toBe(1)
      expect(other.stdout).toMatch(/^fail +health +\/healthz returned 404\.$/m)
      expect(other.stdout).toMatch(/^fail +ready +Not ready: the moon is \\u\{1b\}\[31mred\.$/m)
      expect(yield* doctor({}, "--url", "127.0.0.1:8787")).toMatchObject({ code: 2, stdout: "" })
    })
  )
})
