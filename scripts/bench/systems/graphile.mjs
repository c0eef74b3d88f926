// graphile-worker with and without batching.
import pg from "pg"
import { peer } from "../peers.mjs"

// As on its performance page.
const concurrency = { concurrentJobs: 24, maxPoolSize: 25 }
const batching = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 }

const taskNames = (queues) => Array.from({ length: queues }, (_, index) => (index === 0 ? "noop" : `noop_${index}`))

const prepare = async (url) => {
  const { runMigrations } = await peer("graphile-worker")
  await runMigrations({ preset: { worker: { connectionString: url } } })
}

const open = async (url, batched) => {
  const { Logger, makeWorkerUtils, run } = await peer("graphile-worker")
  const logger = new Logger(() => () => {})
  const preset = { worker: { connectionString: url, ...concurrency, ...(batched ? batching : {}), logger } }
  const utils = await makeWorkerUtils({ preset })
  const pool = new pg.Pool({ connectionString: url, max: 1 })
  // Future jobs are loaded first, so due jobs have higher ids.
  let firstDue

  return {
    enqueueBulk: (payloads, { keys, runAt }) =>
      utils.addJobs(
        payloads.map((payload, index) => ({ identifier: "noop", payload, runAt, queueName: keys?.[index] }))
      ),
    enqueue: (payload) => utils.addJob("noop", payload),
    work: async ({ onJob, queues }) => {
      const due = "select coalesce(min(id), 0) as id from graphile_worker._private_jobs where run_at <= now()"
      firstDue = (await pool.query(due)).rows[0].id
      const task = async (payload) => {
        const busy = onJob(payload)
        if (busy !== undefined) await busy
      }
      const taskList = Object.fromEntries(taskNames(queues).map((name) => [name, task]))
      const runner = await run({ preset, taskList, noHandleSignals: true })
      return () => runner.stop()
    },
    unfinished: async () => {
      const query = "select exists (select from graphile_worker._private_jobs where id >= $1) as some"
      return (await pool.query(query, [firstDue])).rows[0].some
    },
    kept: async () => undefined,
    close: async () => {
      await pool.end()
      await utils.release()
    }
  }
}

export const graphile = (batched) => ({
  title: `graphile-worker ${batched ? "batched" : "default"}`,
  peer: true,
  prepare,
  open: (url) => open(url, batched)
})
