// Upper limit of the SQL: the product's own statements over plain pg, without handlers or runtime.
import { randomBytes, randomUUID } from "node:crypto"
import { readdirSync, readFileSync, rmSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { build } from "esbuild"
import pg from "pg"

const root = fileURLToPath(new URL("../../..", import.meta.url))
const migrations = `${root}/migrations`
const zero = "00000000-0000-0000-0000-000000000000"
const batch = 500

// Bundled from the sources, so that this row always measures the statements that Nightshift runs.
const outfile = `${root}/node_modules/.cache/bench-statements-${process.pid}.mjs`
await build({
  stdin: {
    contents: `export { make as claims } from "./src/queue/claim/ClaimSql.ts"
      export { make as jobs } from "./src/queue/JobSql.ts"`,
    resolveDir: root,
    loader: "ts"
  },
  bundle: true,
  platform: "node",
  format: "esm",
  packages: "external",
  outfile
})
const { claims, jobs } = await import(outfile)
rmSync(outfile)
const { line: claim } = claims("nightshift")
const { finish, insertUniform } = jobs("nightshift")

// Draws the random bytes of all ids at once: one call per id would cost as much as storing the jobs.
const uuidv7s = (count) => {
  const time = Date.now().toString(16).padStart(12, "0")
  const head = `${time.slice(0, 8)}-${time.slice(8)}-7`
  const hex = randomBytes(10 * count).toString("hex")
  return Array.from({ length: count }, (_, index) => {
    const own = hex.slice(20 * index, 20 * index + 20)
    return `${head}${own.slice(0, 3)}-8${own.slice(3, 6)}-${own.slice(6, 18)}`
  })
}

const connected = async (url) => {
  const client = new pg.Client({ connectionString: url, options: "-c search_path=nightshift" })
  await client.connect()
  return client
}

const prepare = async (url) => {
  const client = await connected(url)
  await client.query("create schema nightshift")
  const files = readdirSync(migrations).filter((name) => name.endsWith(".sql"))
  for (const name of files.sort()) await client.query(readFileSync(`${migrations}/${name}`, "utf8"))
  await client.end()
}

const array = (values) => `{${values.join(",")}}`

const store = (client, payloads, runAt) => {
  const now = Date.now()
  const starts = runAt === undefined ? "{}" : array(payloads.map(() => runAt.getTime()))
  const values = [array(uuidv7s(payloads.length)), "noop", "noop", 1, JSON.stringify(payloads), 0, starts, 5, now, null]
  return client.query({ name: "insert", text: insertUniform, values })
}

// Collects new calls while a batch is being stored and flushes them together.
const batcher = (flush) => {
  const waiting = []
  let flushing = false
  const go = async () => {
    flushing = true
    while (waiting.length > 0) {
      const leaving = waiting.splice(0, 1000)
      try {
        await flush(leaving.map(({ payload }) => payload))
        for (const { done } of leaving) done()
      } catch (error) {
        for (const { fail } of leaving) fail(error)
      }
    }
    flushing = false
  }
  return (payload) =>
    new Promise((done, fail) => {
      waiting.push({ payload, done, fail })
      if (!flushing) go()
    })
}

// Columns of a claimed row.
const [idColumn, payloadColumn, runAtColumn] = [0, 3, 11]
const byStart = (a, b) => a[runAtColumn] - b[runAtColumn] || (a[idColumn] < b[idColumn] ? -1 : 1)

// Starts where the last claim ended, as the product's claim cursor does.
const claimer = (client) => {
  const pod = randomUUID()
  let start = [0, zero]
  return async () => {
    const lease = randomUUID()
    const values = ["noop", Date.now(), batch, lease, pod, "{0}", array([start[0]]), array([start[1]])]
    const { rows } = await client.query({ name: "claim", text: claim, values, rowMode: "array" })
    const last = rows.sort(byStart).at(-1)
    if (last !== undefined) start = [last[runAtColumn], last[idColumn]]
    return rows.map((row) => ({ id: row[idColumn], lease, payload: row[payloadColumn] }))
  }
}

// Also deletes the lease of the previous batch, whose end is committed.
const end = async (client, jobs, before) => {
  const values = [
    array(jobs.map(({ id }) => id)),
    array(jobs.map(({ lease }) => lease)),
    Date.now(),
    array(before.map(({ lease }) => lease)),
    array(before.map(({ id }) => id)),
    // No lock timeout for this statement.
    null
  ]
  const { rowCount } = await client.query({ name: "finish", text: finish, values })
  if (rowCount !== jobs.length) throw new Error(`${jobs.length - rowCount} leases were lost`)
}

// Keeps both connections busy: claims the next batch while the last one is finalized.
const workOff = async (claiming, finalizing, onJob) => {
  const next = claimer(claiming)
  let ending = Promise.resolve()
  let before = []
  for (;;) {
    const jobs = await next()
    if (jobs.length === 0) break
    for (const { payload } of jobs) onJob(payload)
    await ending
    ending = end(finalizing, jobs, before)
    before = jobs.slice(0, 1)
  }
  await ending
}

const open = async (url) => {
  const [first, second] = await Promise.all([connected(url), connected(url)])
  return {
    enqueueBulk: (payloads, { runAt }) => store(first, payloads, runAt),
    enqueue: batcher((payloads) => store(first, payloads)),
    work: async ({ onJob }) => {
      const working = workOff(first, second, onJob)
      return () => working
    },
    unfinished: async () => {
      const query = `select exists (
        select from job where queue = 'noop' and priority = 0 and finished_at is null and run_at <= $1) as some`
      return (await second.query(query, [new Date()])).rows[0].some
    },
    kept: async () => (await second.query("select count(*)::int as n from job where status = 'done'")).rows[0].n,
    close: () => Promise.all([first.end(), second.end()])
  }
}

export const system = {
  title: "SQL limit",
  prepare,
  open
}
