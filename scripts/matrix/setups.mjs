// The set-ups of the matrix. Each returns what it ran on and what it observed, or throws.
import { spawn } from "node:child_process"
import { rmSync } from "node:fs"
import { setTimeout as sleep } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { backUpAndRestore } from "./backup.mjs"
import { createDatabase, startCluster } from "./citus.mjs"
import { journey, nightshift } from "./journey.mjs"
import { checkManifests } from "./manifests.mjs"
import { startHAProxy, startPgBouncer } from "./middle.mjs"
import { binariesOf, define, execute, makeBase, makePair, onDatabase, releases } from "./servers.mjs"

const root = fileURLToPath(new URL("../..", import.meta.url))

/** Laws of the layers on PostgreSQL; those in memory do not depend on the server. */
const laws = ["Pg.laws.test", "History.laws.test"]
const journeys = ["test/journeys/Crashes.test.ts"]

const vitest = (files, env) =>
  new Promise((done, fail) => {
    const child = spawn(process.execPath, ["node_modules/vitest/vitest.mjs", "run", ...files], {
      cwd: root,
      env: { ...process.env, NO_COLOR: "1", ...env }
    })
    let output = ""
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk))
    child.once("close", (code) => {
      const passed = /Tests +(?:.*\| )?(\d+) passed/.exec(output)?.[1]
      if (code === 0 && passed !== undefined) return done(Number(passed))
      fail(new Error(`vitest ${files.join(" ")} failed:\n${output.slice(-6000)}`))
    })
  })

const inFolder = async (native, use) => {
  const place = makeBase(native)
  try {
    return await use(place)
  } finally {
    rmSync(place.base, { recursive: true, force: true })
  }
}

const seconds = (millis) => `${(millis / 1000).toFixed(1)} s`
const summaryOf = ({ jobs, longestPause, lost, ranAgain }) =>
  `${jobs} jobs, ${lost.length} lost, ${ranAgain} ran again, longest pause of enqueues ${seconds(longestPause)}`

const killTwoPods = async ({ killPod }) => {
  await killPod()
  await sleep(500)
  await killPod()
}

const onVersion = (major) => () =>
  inFolder(binariesOf(major).native, async (place) => {
    const server = await define(place, "server")
    await server.start()
    try {
      const passed = await vitest([...laws, ...journeys], { TEST_DATABASE_URL: server.url })
      return { on: `PostgreSQL ${releases[major].split("-")[0]}`, saw: `${passed} tests passed` }
    } finally {
      await server.stop()
    }
  })

/** The status of the doctor's check `notifications`. */
const notifications = async (cwd, env) => {
  const { output } = await nightshift(["doctor", "--json"], { cwd, env })
  const { findings } = JSON.parse(output.slice(output.indexOf("{")))
  return findings.find(({ check }) => check === "notifications")?.status
}

const throughPgBouncer = () =>
  inFolder(binariesOf(18).native, async (place) => {
    const server = await define(place, "server")
    await server.start()
    const pooler = await startPgBouncer(place, server)
    try {
      const passed = await vitest(laws, { TEST_DATABASE_URL: server.url, TEST_POOLER: `127.0.0.1:${pooler.port}` })
      const env = { DATABASE_LISTEN_URL: server.url }
      const common = { cwd: place.base, disturb: killTwoPods, readUrl: { before: server.url, after: server.url } }
      const polling = await journey({ ...common, url: pooler.url, env: {} })
      const listening = await journey({ ...common, url: pooler.url, env })
      const said = [
        await notifications(place.base, { DATABASE_URL: pooler.url }),
        await notifications(place.base, { DATABASE_URL: pooler.url, ...env })
      ]
      if (said.join() !== "warn,ok")
        throw new Error(`nightshift doctor should warn without DATABASE_LISTEN_URL and not with it, got ${said}`)
      const prepares = !listening.log.includes("does not support prepared statements")
      if (prepares !== pooler.prepares)
        throw new Error(`prepared statements should ${pooler.prepares ? "be used" : "not be used"}: ${listening.log}`)
      return {
        on: `PgBouncer ${pooler.version}, transaction mode, ${prepares ? "with" : "without"} prepared statements`,
        saw: `${passed} tests passed; two processes killed: ${summaryOf(polling)}; with DATABASE_LISTEN_URL: ${summaryOf(listening)}`,
        recoveryMillis: Math.max(polling.longestPause, listening.longestPause)
      }
    } finally {
      await pooler.stop()
      await server.stop()
    }
  })

const switchOver = () =>
  inFolder(binariesOf(18).native, async (place) => {
    const pair = await makePair(place, { synchronous: false })
    const proxy = await startHAProxy(place, [pair.primary, pair.standby])
    try {
      const seen = await journey({
        cwd: place.base,
        url: proxy.url,
        readUrl: { before: pair.primary.url, after: pair.standby.url },
        // A fast shutdown sends everything to the standby first.
        disturb: async () => {
          await pair.primary.stop()
          await pair.promote()
        }
      })
      const on = `HAProxy ${proxy.version}, planned switch-over`
      return { on, saw: summaryOf(seen), recoveryMillis: seen.longestPause }
    } finally {
      await proxy.stop()
      await pair.standby.stop()
      await pair.primary.stop()
    }
  })

/** The primary loses power while the standby has received nothing for `lag`; the standby is promoted a second later. */
const failover =
  ({ lag, synchronous }) =>
  () =>
    inFolder(binariesOf(18).native, async (place) => {
      const pair = await makePair(place, { synchronous })
      const at = { stopped: 0, crashed: 0 }
      try {
        const seen = await journey({
          cwd: place.base,
          url: `postgres://postgres@127.0.0.1:${pair.primary.port},127.0.0.1:${pair.standby.port}/postgres`,
          readUrl: { before: pair.primary.url, after: pair.standby.url },
          mayLose: !synchronous,
          disturb: async () => {
            await pair.stopSending()
            at.stopped = performance.now()
            await sleep(lag)
            await pair.primary.crash()
            at.crashed = performance.now()
            await sleep(1000)
            await pair.promote()
          }
        })
        const oldest = Math.min(...seen.lost.map(({ acknowledgedAt }) => acknowledgedAt))
        const window =
          seen.lost.length === 0 ? "" : `; all lost jobs were acknowledged in the last ${seconds(at.crashed - oldest)}`
        // Half a second of tolerance for data in transit to the standby.
        if (at.stopped - oldest > 500)
          throw new Error(`a job acknowledged ${seconds(at.stopped - oldest)} before the standby fell behind is lost`)
        return {
          on: `standby ${seconds(lag)} behind, ${synchronous ? "synchronous" : "asynchronous"}`,
          saw: `${summaryOf(seen)}${window}`,
          recoveryMillis: seen.longestPause
        }
      } finally {
        await pair.standby.stop()
        await pair.primary.stop()
      }
    })

/** A distributed schema is refused at the start, not at the first claim. */
const refusesDistributed = async (cwd, url) => {
  await execute(url, ["create schema spread"])
  const env = { DATABASE_URL: url, DATABASE_SCHEMA: "spread" }
  const { code, output } = await nightshift(["migrate"], { cwd, env })
  if (code === 0 || !output.includes("citus_schema_undistribute('spread')")) {
    throw new Error(`nightshift migrate should refuse a distributed schema, got code ${code}: ${output}`)
  }
}

const onCitus = () =>
  inFolder(undefined, async (place) => {
    const cluster = await startCluster(place)
    try {
      const [coordinator, ...workers] = [cluster.coordinator, ...cluster.workers].map(({ url }) => url)
      const passed = await vitest([...laws, ...journeys], {
        TEST_DATABASE_URL: coordinator,
        TEST_CITUS_WORKERS: workers.join(",")
      })
      for (const name of ["shop", "warehouse"]) await createDatabase(coordinator, workers, name)
      const onCoordinator = onDatabase(coordinator, "shop")
      const onWorker = onDatabase(workers[0], "warehouse")
      await refusesDistributed(place.base, onCoordinator)
      const common = { cwd: place.base, disturb: killTwoPods }
      // Transactional handlers write a distributed table in the transaction of their job.
      const atCoordinator = await journey({
        ...common,
        url: onCoordinator,
        readUrl: { before: onCoordinator, after: onCoordinator },
        ledger: ["create table ledger (n int not null)", "select create_distributed_table('ledger', 'n')"]
      })
      const atWorker = await journey({
        ...common,
        url: onWorker,
        readUrl: { before: onWorker, after: onWorker },
        ledger: ["set citus.enable_ddl_propagation = off", "create table ledger (n int not null)"]
      })
      return {
        on: `Citus ${cluster.version}, coordinator and two workers`,
        saw: `${passed} tests passed; two processes killed: ${summaryOf(atCoordinator)}; schema on a worker: ${summaryOf(atWorker)}`
      }
    } finally {
      await cluster.stop()
    }
  })

const restored = () =>
  inFolder(binariesOf(15).native, async (place) => {
    const server = await define(place, "server")
    await server.start()
    try {
      const readUrl = { before: server.url, after: server.url }
      await journey({ cwd: place.base, disturb: async () => {}, readUrl, url: server.url })
      const kept = await backUpAndRestore(server, place.base)
      return { on: "pg_dump and pg_restore, PostgreSQL 15", saw: `the commands of the page work; restored ${kept}` }
    } finally {
      await server.stop()
    }
  })

const inKubernetes = async () => {
  const kinds = await checkManifests(`${root}docs/operate/kubernetes.yaml`)
  return { on: "schemas and types of Kubernetes and KEDA", saw: `${kinds.join(", ")} are valid` }
}

export const setups = {
  ...Object.fromEntries(Object.keys(releases).map((major) => [`postgres-${major}`, onVersion(major)])),
  pgbouncer: throughPgBouncer,
  haproxy: switchOver,
  "failover-async": failover({ lag: 1000, synchronous: false }),
  "failover-sync": failover({ lag: 1000, synchronous: true }),
  citus: onCitus,
  backup: restored,
  kubernetes: inKubernetes
}
