// pg-boss: four workers with batches of 500, which fetch again immediately while batches are full and are woken by
// NOTIFY.
import pg from "pg"
import { peer } from "../peers.mjs"

const queueName = (index) => (index === 0 ? "noop" : `noop_${index}`)

const started = async (url) => {
  const { PgBoss } = await peer("pg-boss")
  const boss = new PgBoss({ connectionString: url, max: 25, useListenNotify: true })
  boss.on("error", () => {})
  await boss.start()
  return boss
}

const prepare = async (url) => {
  const boss = await started(url)
  for (let index = 0; index < 10; index++) await boss.createQueue(queueName(index), { notify: true })
  await boss.stop({ graceful: false })
}

const open = async (url) => {
  const boss = await started(url)
  const pool = new pg.Pool({ connectionString: url, max: 1 })

  return {
    enqueueBulk: (payloads, { runAt }) =>
      boss.insert(
        "noop",
        payloads.map((data) => ({ data, startAfter: runAt }))
      ),
    enqueue: (payload) => boss.send("noop", payload),
    work: async ({ onJob, queues }) => {
      const options = { localConcurrency: 4, batchSize: 500, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 }
      for (let index = 0; index < queues; index++) {
        await boss.work(queueName(index), options, async (jobs) => {
          for (const { data } of jobs) {
            const busy = onJob(data)
            if (busy !== undefined) await busy
          }
        })
      }
      return () => boss.stop()
    },
    unfinished: async () => {
      const query =
        "select exists (select from pgboss.job where name = 'noop' and state < 'completed' and start_after <= now()) as some"
      return (await pool.query(query)).rows[0].some
    },
    kept: async () => {
      const query = "select count(*)::int as n from pgboss.job where name = 'noop' and state = 'completed'"
      return (await pool.query(query)).rows[0].n
    },
    close: async () => {
      await pool.end()
      await boss.stop()
    }
  }
}

export const system = {
  title: "pg-boss",
  peer: true,
  prepare,
  open
}
