// Upper limit of the SQL: Nightshift's schema, claim and finalize over plain pg, without handlers or runtime.
import { randomBytes, randomUUID } from "node:crypto"
import { readdirSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import pg from "pg"

const migrations = fileURLToPath(new URL("../../../migrations", import.meta.url))
const zero = "00000000-0000-0000-0000-000000000000"
const batch = 500

// Payloads are sent as one JSON text: in a text array each would be quoted and parsed twice.
const insert = `insert into job (id, run_at, created_at, updated_at, max_attempts, queue, kind, payload)
select id, $3, $4, $4, 5, 'noop', 'noop', payload
from rows from (unnest($1::uuid[]), jsonb_array_elements($2::jsonb)) as new (id, payload)`

// Starts where the last claim ended, so that claimed and dead rows before it are not scanned again.
const claim = `with due as (
  select id from job
  where queue = $1 and priority = $2 and finished_at is null and lease is null
    and (run_at, id) >= ($3, $4) and run_at <= $5
  order by run_at, id
  limit ${batch}
  for update skip locked
), leased as (
  insert into lease (id, pod_id, claimed_at, jobs) select $6, $7, $5, array_agg(id) from due having count(*) > 0
)
update job
set status = 'running', lease = $6, pod_id = $7, started_at = $5, heartbeat_at = $5, updated_at = $5,
  attempt = attempt + 1
from due
where job.id = due.id
returning job.id, job.run_at, job.kind, job.version, job.attempt, job.payload`

// Only the lease row proves that the run is still valid. It is deleted with the batch.
const finalize = `with closed as (delete from lease where id = any($2::uuid[]))
update job
set status = 'done', lease = null, pod_id = null, heartbeat_at = null, finished_at = $3, updated_at = $3
from unnest($1::uuid[], $2::uuid[]) as ended (id, held)
where job.id = ended.id and job.lease = ended.held
returning job.id`

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

const store = (client, payloads, runAt) => {
  const now = new Date()
  const values = [uuidv7s(payloads.length), JSON.stringify(payloads), runAt ?? now, now]
  return client.query({ name: "insert", text: insert, values })
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

const earlier = (a, b) => a.run_at < b.run_at || (a.run_at.getTime() === b.run_at.getTime() && a.id < b.id)

const claimer = (client) => {
  const pod = randomUUID()
  let cursor = { run_at: new Date(0), id: zero }
  return async () => {
    const lease = randomUUID()
    const values = ["noop", 0, cursor.run_at, cursor.id, new Date(), lease, pod]
    const { rows } = await client.query({ name: "claim", text: claim, values })
    if (rows.length > 0) cursor = rows.reduce((last, row) => (earlier(last, row) ? row : last))
    return rows.map(({ id, payload }) => ({ id, lease, payload }))
  }
}

const end = async (client, jobs) => {
  const values = [jobs.map(({ id }) => id), jobs.map(({ lease }) => lease), new Date()]
  const { rowCount } = await client.query({ name: "finalize", text: finalize, values })
  if (rowCount !== jobs.length) throw new Error(`${jobs.length - rowCount} leases were lost`)
}

// Keeps both connections busy: claims the next batch while the last one is finalized.
const workOff = async (claiming, finalizing, onJob) => {
  const next = claimer(claiming)
  let ending = Promise.resolve()
  for (;;) {
    const jobs = await next()
    if (jobs.length === 0) break
    for (const { payload } of jobs) onJob(payload)
    await ending
    ending = end(finalizing, jobs)
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
  store: "postgres",
  peer: false,
  unavailable: async () => undefined,
  prepare,
  open
}
