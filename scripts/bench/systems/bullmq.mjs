// BullMQ on either store; only the connection differs.
import { peer } from "../peers.mjs"

const queueName = (index) => (index === 0 ? "noop" : `noop_${index}`)

/** Opens an instance on a connection, with a backend factory for PostgreSQL. */
export const openBullmq = async ({ backend, connection }) => {
  const { Queue, Worker } = await peer("bullmq")
  const queue = new Queue("noop", { connection }, backend)
  queue.on("error", () => {})

  return {
    enqueueBulk: (payloads, { runAt }) => {
      const opts = runAt === undefined ? {} : { delay: Math.max(0, runAt.getTime() - Date.now()) }
      return queue.addBulk(payloads.map((data) => ({ name: "noop", data, opts })))
    },
    enqueue: (payload) => queue.add("noop", payload),
    work: async ({ onJob, queues }) => {
      const handle = async ({ data }) => {
        const busy = onJob(data)
        if (busy !== undefined) await busy
      }
      const workers = Array.from({ length: queues }, (_, index) => {
        const worker = new Worker(queueName(index), handle, { connection, concurrency: 64 }, backend)
        worker.on("error", () => {})
        return worker
      })
      await Promise.all(workers.map((worker) => worker.waitUntilReady()))
      return () => Promise.all(workers.map((worker) => worker.close()))
    },
    unfinished: async () => {
      const counts = await queue.getJobCounts("waiting", "active", "prioritized")
      return Object.values(counts).some((count) => count > 0)
    },
    kept: async () => (await queue.getJobCounts("completed")).completed,
    close: () => queue.close()
  }
}
