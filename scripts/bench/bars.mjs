// Performance targets, evaluated against the measurements.
import { median } from "./statistics.mjs"

const successes = (results, row, system) => (results[row]?.[system] ?? []).filter(({ error }) => error === undefined)

/** Median of one figure over all rounds. */
export const figure = (results, row, system, name = "value") =>
  median(successes(results, row, system).map((sample) => sample[name]))

// A system that ran two jobs of one key at once did not meet the requirement, so its speed does not count.
const comparable = (results, row, system) =>
  successes(results, row, system).filter(({ overlaps = 0 }) => overlaps === 0)

/** Median of the per-round ratios: a disturbance within a round affects both systems. */
export const ratio = (results, [row, system], [otherRow, otherSystem]) => {
  const others = new Map(comparable(results, otherRow, otherSystem).map((sample) => [sample.round, sample.value]))
  const pairs = comparable(results, row, system).filter(({ round }) => others.has(round))
  return median(pairs.map(({ round, value }) => value / others.get(round)))
}

const postgresPeers = ["graphile-batched", "graphile-default", "pg-boss", "bullmq-postgres"]

const againstBestPeer = (results, row) => {
  const ours = figure(results, row, "nightshift")
  const theirs = postgresPeers.map((id) => figure(results, row, id)).filter((each) => each !== undefined)
  return ours === undefined || theirs.length === 0 ? undefined : ours / Math.min(...theirs)
}

const against =
  (row, system, other, otherRow = row) =>
  (results) =>
    ratio(results, [row, system], [otherRow, other])
const ours = (row, name) => (results) => figure(results, row, "nightshift", name)

/** Nightshift's worst sample, for limits that must never be exceeded. */
export const worst = (results, row, name) =>
  successes(results, row, "nightshift").reduce(
    (found, sample) => (found !== undefined && found[name] >= sample[name] ? found : sample),
    undefined
  )

/** Statement timeout of page queries in milliseconds; see src/queue/search/BoundedQuery.ts. */
const pageLimit = 5_000

/** Minimum --jobs for meaningful bars. */
export const barsFrom = 30_000

const bars = [
  ["drain 30k, against graphile-worker batched", "x", 1.6, 2, against("drain", "nightshift", "graphile-batched")],
  ["drain 150k, against the same", "x", 2.2, 4, against("drain-long", "nightshift", "graphile-batched")],
  ["drain 150k right after loading, the same", "x", 3, 5, against("drain-burst", "nightshift", "graphile-batched")],
  ["drain 500k pinned, against the same", "x", 3, 5, against("drain-pinned", "nightshift", "graphile-batched")],
  [
    "drain 500k pinned, against our own unpinned",
    "x",
    0.9,
    1,
    against("drain-pinned", "nightshift", "nightshift", "drain-unpinned")
  ],
  ["drain 150k, against our own SQL limit", "x", 0.4, 0.7, against("drain-long", "nightshift", "sql-limit")],
  ["bulk enqueue, against graphile-worker", "x", 2, 4, against("enqueue", "nightshift", "graphile-batched")],
  ["single enqueues from many callers", "/s", 15_000, 40_000, ours("single")],
  ["the same, against our own SQL limit", "x", 0.8, 0.9, against("single", "nightshift", "sql-limit")],
  ["single enqueues from promises, against Effect", "x", 0.83, 1, against("single", "nightshift-client", "nightshift")],
  [
    "jobs of events to five subscribers, against single enqueues",
    "x",
    0.5,
    1,
    against("publish", "nightshift", "nightshift", "single")
  ],
  ["webhook to durable job, against bare node:http", "x", 1.2, 2, against("webhook", "nightshift", "bare-http")],
  ["remote worker, jobs over one connection", "/s", 2_000, 5_000, ours("pull")],
  ["pushed jobs, to a local endpoint", "/s", 800, 2_000, ours("push")],
  ["500 keys, against graphile-worker named queues", "x", 9, 15, against("keys", "nightshift", "graphile-default")],
  ["drain of sealed jobs, against plain ones", "x", 0.6, 0.8, against("sealed", "nightshift", "nightshift", "drain")],
  ["drain beside a million future jobs", "x", 0.8, 0.95, against("future", "nightshift", "nightshift", "drain")],
  [
    "drain beside the purge of a million",
    "x",
    0.7,
    0.9,
    against("drain-purge", "nightshift", "nightshift", "drain-long")
  ],
  ["longest statement of that purge", "ms", 1000, 1000, ours("drain-purge", "longest"), "less"],
  [
    "drain with 50 open tabs and searches, against no tabs",
    "x",
    0.85,
    0.95,
    against("tabs", "nightshift", "nightshift", "no-tabs")
  ],
  [
    "slowest page request meanwhile",
    "ms",
    pageLimit,
    pageLimit,
    (all) => worst(all, "tabs", "slowest")?.slowest,
    "less"
  ],
  ["page requests rejected or timed out meanwhile", "", 0, 0, (all) => worst(all, "tabs", "refused")?.refused, "less"],
  ["enqueue to handler start, p50", "ms", 2, 1, ours("latency"), "less"],
  ["enqueue to handler start, p95", "ms", undefined, 2, ours("latency", "p95"), "less"],
  ["the same p50, against the best Postgres peer", "x", 0.8, 0.5, (all) => againstBestPeer(all, "latency"), "less"],
  ["from another process, p50", "ms", 2, 1, ours("latency-remote"), "less"],
  ["the same, against the best Postgres peer", "x", 0.95, 0.6, (all) => againstBestPeer(all, "latency-remote"), "less"],
  ["statements of an idle process with 10 queues", "/s", 1.5, 1, ours("idle"), "less"],
  ["connections that it may open by default", "", 8, 5, ours("idle", "connections"), "less"],
  ["workflow executions of three no-op steps", "/s", 2_000, 5_000, ours("executions")],
  ["workflow steps recorded", "/s", 8_000, 15_000, ours("steps")],
  ["signal to the next step's start, p50", "ms", 5, 2.5, ours("signal"), "less"],
  ["signal to the execution's result, p50", "ms", 15, 8, ours("signal-result"), "less"],
  ["drain beside a million sleeping executions", "x", 0.9, 1, against("sleepers", "nightshift", "nightshift", "drain")],
  ["the same three steps, against DBOS", "x", 1, 3, against("executions-started", "nightshift", "dbos")],
  ["steps of long executions, against DBOS", "x", 1, 3, against("steps-started", "nightshift", "dbos")],
  ["peak RSS at full speed", "MB", 200, 150, ours("memory"), "less"],
  ["its growth, last quarter against second", "x", 0.1, 0.05, ours("memory", "growth"), "less"],
  ["CPU of a virtual month without jobs", "ms", 100, 100, ours("month"), "less"],
  ["CPU of a virtual month with 720 runs", "ms", 500, 500, ours("month-hourly"), "less"]
]

const verdictOf = (value, floor, goal, reaches) => {
  if (value === undefined) return "not measured"
  if (reaches(value, goal)) return "goal met"
  if (floor === undefined) return "goal missed"
  return reaches(value, floor) ? "floor met" : "BELOW FLOOR"
}

/** Returns every bar with its measurement and whether it is met. */
export const judge = (results) =>
  bars.map(([what, unit, floor, goal, measure, better = "more"]) => {
    const value = measure(results)
    const reaches = better === "less" ? (a, b) => a <= b : (a, b) => a >= b
    return { what, unit, floor, goal, better, value, verdict: verdictOf(value, floor, goal, reaches) }
  })
