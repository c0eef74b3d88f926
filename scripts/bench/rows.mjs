// The measurements, their systems and their steps. Counts are multiples of --jobs; the bars apply to --jobs 30000.
import { rmSync } from "node:fs"
import { growthRows } from "./growth.mjs"
import { monthRows } from "./months.mjs"
import { share, times } from "./scale.mjs"
import { serveOf } from "./serving.mjs"
import { workflowRows } from "./workflows.mjs"

const allSystems = [
  "nightshift",
  "graphile-batched",
  "graphile-default",
  "pg-boss",
  "bullmq-postgres",
  "bullmq-redis",
  "sql-limit"
]
const inPostgres = allSystems.filter((id) => id !== "bullmq-redis")
const withHandlers = (ids) => ids.filter((id) => id !== "sql-limit")
const fastest = ["nightshift", "graphile-batched", "sql-limit"]

const drainOf = (factor, { pinned = false, sealed = false, settled = true } = {}) => {
  return async (bench, { jobs }) => {
    const total = times(factor)(jobs)
    await bench.child("load", { prepare: true, jobs: total, sealed })
    if (settled) await bench.settle()
    if (pinned) await bench.pin()
    return bench.drain({ jobs: total, sealed })
  }
}

const perMillion = (amount, jobs) => (amount * 1e6) / jobs

/**
 * CPU seconds and WAL bytes of a million jobs, from enqueue to the end. The client's CPU excludes boot. The vacuum and
 * checkpoint between loading and draining are not counted.
 */
const measureCost = async (bench, { jobs }) => {
  const total = times(5)(jobs)
  await bench.child("load", { prepare: true, jobs: 1 })
  const empty = await bench.used()
  const loaded = await bench.child("load", { jobs: total })
  const full = await bench.used()
  await bench.settle()
  const before = await bench.used()
  const drained = await bench.drain({ jobs: total + 1 })
  const after = await bench.used()
  const client = perMillion(loaded.cpu + drained.cpu, total)
  const server = perMillion(full.cpu - empty.cpu + after.cpu - before.cpu, total)
  const wal = perMillion(full.wal - empty.wal + after.wal - before.wal, total)
  return { value: client + server, client, server, wal, rate: drained.value }
}

/** 8 MiB per file over 4 connections. */
const measureUploads = async (bench, { jobs }) => {
  const receiver = bench.start("inbox", { prepare: true })
  const endpoint = await receiver.ready
  try {
    const files = Math.max(2, Math.round(48 * share(jobs)))
    return await bench.child("transfer", { ...endpoint, outside: true, connections: 4, files, size: 8 * 1024 * 1024 })
  } finally {
    await receiver.end()
    if (endpoint.folder !== undefined) rmSync(endpoint.folder, { recursive: true, force: true })
  }
}

const measureFuture = async (bench, { jobs }) => {
  await bench.child("load", { prepare: true, jobs: times(100 / 3)(jobs), inHours: 24 })
  await bench.child("load", { jobs })
  await bench.settle()
  return bench.drain({ jobs })
}

/** Inserts finished jobs past their retention, so that the purge starts together with the workers. */
const measurePurge = async (bench, { jobs }) => {
  const total = times(5)(jobs)
  const aged = times(100 / 3)(jobs)
  await bench.child("age", { prepare: true, jobs: aged })
  await bench.child("load", { jobs: total })
  await bench.settle()
  const rated = await bench.drain({ jobs: total, aged })
  return { ...rated, longest: await bench.longestStatement("%delete from nightshift.job%") }
}

const measureKeys = async (bench, { jobs }) => {
  const total = times(1 / 6)(jobs)
  const keys = Math.ceil(500 * share(jobs))
  await bench.child("load", { prepare: true, jobs: total, keys })
  await bench.settle()
  return bench.drain({ jobs: total, keys })
}

// Warm up first: a pod runs for weeks, so the JIT delay of its first jobs is irrelevant.
const samplesOf = (jobs) => ({
  samples: Math.max(20, Math.round(200 * share(jobs))),
  warming: Math.max(5, Math.round(1_000 * share(jobs)))
})

const measureRemoteLatency = async (bench, { jobs }) => {
  const counts = samplesOf(jobs)
  const listener = bench.start("listen", { prepare: true, ...counts })
  await listener.ready
  await Promise.race([bench.child("produce", counts), listener.result.then(() => new Promise(() => {}))])
  return listener.result
}

const measureIdle = async (bench, { jobs }) => {
  const pod = bench.start("idle", { prepare: true, queues: 10 })
  const { connections } = await pod.ready
  // Longer than the intervals of an idle process.
  const value = await bench.statements({ settle: 3 * share(jobs) + 0.5, seconds: Math.max(1, 60 * share(jobs)) })
  await pod.end()
  return { value, connections }
}

const measureMemory = async (bench, { jobs }) => {
  const ahead = Math.min(20_000, jobs)
  let feeder
  const seconds = Math.max(2, 120 * share(jobs))
  const onProgress = (done) => feeder?.send({ credit: done + ahead })
  const worker = bench.start("flow", { prepare: true, seconds }, onProgress)
  await worker.ready
  feeder = bench.start("feed", {})
  await Promise.race([worker.result, feeder.result])
  await feeder.end()
  return worker.result
}

const measureWebhook = async (bench, { jobs }) => {
  const receiver = bench.start("receive", { prepare: true })
  const endpoint = await receiver.ready
  const rated = await bench.child("deliver", { ...endpoint, jobs, connections: 50 })
  await receiver.end()
  return rated
}

const measurePull = async (bench, { jobs }) => {
  await bench.child("load", { prepare: true, jobs })
  const service = bench.start("offer", {})
  const endpoint = await service.ready
  const rated = await bench.child("pull", { ...endpoint, outside: true, jobs })
  await service.end()
  return rated
}

/** The endpoint runs in its own process, beside the worker. */
const measurePush = async (bench, { jobs }) => {
  const total = times(1 / 3)(jobs)
  await bench.child("load", { prepare: true, jobs: total })
  const endpoint = bench.start("accept", { outside: true })
  const rated = await bench.drain({ jobs: total, ...(await endpoint.ready) })
  await endpoint.end()
  return rated
}

const grouped = (count) => String(count).replace(/\B(?=(\d{3})+$)/g, ",")

/** Row title with its scaled count. */
export const titleOf = ({ factor = 1, title }, jobs) => title.replace("{n}", grouped(times(factor)(jobs)))

/** Rows in the order they are measured and printed. `once`: too slow to repeat in every round. */
export const rows = [
  {
    id: "enqueue",
    title: "bulk enqueue, batches of 1000, one caller",
    unit: "rate",
    systems: allSystems,
    measure: (bench, { jobs }) => bench.child("load", { prepare: true, jobs })
  },
  {
    id: "single",
    title: "single enqueues, 256 callers at once",
    unit: "rate",
    systems: [...allSystems, "nightshift-client"],
    measure: (bench, { jobs }) => bench.child("single", { prepare: true, jobs: times(1 / 3)(jobs), callers: 256 })
  },
  {
    id: "publish",
    title: "events to five subscribers, 256 callers at once",
    unit: "rate",
    systems: ["nightshift"],
    measure: (bench, { jobs }) =>
      bench.child("publish", { prepare: true, jobs: times(1 / 3)(jobs), callers: 256, subscribers: 5 })
  },
  { id: "drain", title: "drain of {n} no-op jobs", unit: "rate", systems: allSystems, measure: drainOf(1) },
  {
    id: "sealed",
    title: "drain of {n} sealed jobs",
    unit: "rate",
    systems: ["nightshift"],
    measure: drainOf(1, { sealed: true })
  },
  { id: "drain-long", title: "drain of {n}", factor: 5, unit: "rate", systems: fastest, measure: drainOf(5) },
  {
    id: "drain-burst",
    title: "drain of {n}, right after loading",
    factor: 5,
    unit: "rate",
    systems: fastest,
    measure: drainOf(5, { settled: false })
  },
  {
    id: "drain-pinned",
    title: "drain of {n}, with a transaction held open",
    factor: 50 / 3,
    unit: "rate",
    systems: fastest,
    measure: drainOf(50 / 3, { pinned: true })
  },
  {
    id: "drain-unpinned",
    title: "drain of {n}, without an open transaction",
    factor: 50 / 3,
    unit: "rate",
    systems: ["nightshift", "sql-limit"],
    measure: drainOf(50 / 3)
  },
  {
    id: "future",
    title: "drain beside {n} jobs scheduled for tomorrow",
    factor: 100 / 3,
    unit: "rate",
    systems: fastest,
    measure: measureFuture
  },
  {
    id: "drain-purge",
    title: "drain of 150,000 while {n} finished jobs are purged",
    factor: 100 / 3,
    unit: "rate",
    systems: ["nightshift"],
    tracked: true,
    measure: measurePurge
  },
  {
    id: "tabs",
    title: "drain of 150,000 in serve, beside {n} jobs and 50 open tabs",
    factor: 100 / 3,
    unit: "rate",
    systems: ["nightshift"],
    measure: serveOf({ visited: true })
  },
  {
    id: "no-tabs",
    title: "the same, without open tabs",
    unit: "rate",
    systems: ["nightshift"],
    measure: serveOf({ visited: false })
  },
  {
    id: "keys",
    title: "drain of {n}, ten per key, one of a key at a time",
    factor: 1 / 6,
    unit: "rate",
    // With batching, graphile-worker runs jobs of one named queue in parallel; only its default mode keeps them serial.
    systems: ["nightshift", "graphile-default"],
    measure: measureKeys
  },
  {
    id: "webhook",
    title: "webhook to durable job, 50 connections",
    unit: "rate",
    systems: ["nightshift", "bare-http"],
    measure: measureWebhook
  },
  {
    id: "pull",
    title: "drain of {n} by a remote worker, one connection",
    unit: "rate",
    systems: ["nightshift"],
    measure: measurePull
  },
  {
    id: "push",
    title: "drain of {n}, each pushed to a local endpoint",
    factor: 1 / 3,
    unit: "rate",
    systems: ["nightshift"],
    measure: measurePush
  },
  {
    id: "latency",
    title: "enqueue to handler start, idle, p50 / p95",
    unit: "ms",
    systems: withHandlers(allSystems),
    measure: (bench, { jobs }) => bench.child("latency", { prepare: true, ...samplesOf(jobs) })
  },
  {
    id: "latency-remote",
    title: "the same, between two processes",
    unit: "ms",
    systems: withHandlers(allSystems),
    measure: measureRemoteLatency
  },
  {
    id: "idle",
    title: "one idle process that serves 10 queues",
    unit: "statements",
    systems: withHandlers(inPostgres),
    tracked: true,
    measure: measureIdle
  },
  {
    id: "uploads",
    title: "files of 8 MiB, 4 connections, MB/s in / out",
    unit: "MB/s",
    systems: ["nightshift", "bare-disk"],
    measure: measureUploads
  },
  {
    id: "cost",
    title: "CPU and WAL of a million jobs, enqueue to end",
    unit: "cost",
    systems: ["nightshift", "graphile-batched", "pg-boss"],
    measure: measureCost
  },
  {
    id: "memory",
    title: "RSS at full speed, peak and growth",
    unit: "MB",
    systems: ["nightshift", "graphile-batched"],
    once: true,
    measure: measureMemory
  },
  ...workflowRows,
  ...growthRows,
  ...monthRows
]

export const rowIds = rows.map(({ id }) => id)

/** Default rows. */
export const usualRowIds = rows.filter(({ onlyByName }) => onlyByName !== true).map(({ id }) => id)
