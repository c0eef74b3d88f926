// Rows that show how cost grows: with the rows in the table, and with pods, queues and keys.
import { share, times } from "./scale.mjs"

const base = 30_000

const short = (count) => (count >= 1e6 ? `${count / 1e6}m` : count >= 1e4 ? `${count / 1e3}k` : String(count))

/** Counts of a row scale with --jobs like all others. */
const scaled = (count) => times(count / base)

/**
 * Drains beside finished jobs, then lists. The cleanup deletes the expired ones when the workers start. Claim and purge
 * are the server's time per job.
 */
const besideRows =
  (count) =>
  async (bench, { jobs }) => {
    const expired = scaled(10_000)(jobs)
    const stored = scaled(count)(jobs)
    await bench.child("age", { prepare: true, jobs: expired, kept: stored })
    await bench.child("load", { jobs })
    await bench.settle()
    const drained = await bench.drain({ jobs, aged: expired, stored })
    const claim = await bench.timePerRow("%insert into nightshift.lease%update nightshift.job%")
    const purge = await bench.timePerRow("%delete from nightshift.job j using old%")
    const { list } = await bench.child("list", { samples: Math.max(3, Math.round(30 * share(jobs))) })
    return { ...drained, claim, purge, list }
  }

/** Several processes drain one queue. They boot while the queue is paused. */
const byPods =
  (count) =>
  async (bench, { jobs }) => {
    const total = times(5)(jobs)
    await bench.child("load", { prepare: true, jobs: total })
    await bench.settle()
    const pods = Array.from({ length: count }, () => bench.start("idle", { queues: 1, paused: true }))
    await Promise.all(pods.map(({ ready }) => ready))
    const rated = await bench.child("watch", { jobs: total })
    await Promise.all(pods.map(({ end }) => end()))
    return rated
  }

/** One process drains jobs that are spread evenly over its queues. */
const overQueues =
  (count) =>
  async (bench, { jobs }) => {
    const queues = Math.max(1, Math.round(count * share(jobs)))
    await bench.child("load", { prepare: true, jobs, queues })
    await bench.settle()
    return bench.drain({ jobs, queues })
  }

/** Each job has its own key, in a queue that runs one job of a key at a time. Rated by the first 30,000. */
const overKeys =
  (count) =>
  async (bench, { jobs }) => {
    const total = Math.max(jobs, scaled(count)(jobs))
    await bench.child("load", { prepare: true, jobs: total, keys: total })
    await bench.settle()
    return bench.drain({ jobs: total, keys: total, enough: jobs })
  }

const rowsOf = ({ counts, id, measure, title, ...more }) =>
  counts.map((count) => ({
    id: `${id}-${short(count)}`,
    title: `${title}: ${count.toLocaleString("en")}`,
    unit: "rate",
    systems: ["nightshift"],
    series: id,
    count,
    measure: measure(count),
    ...more
  }))

/** The largest table is measured only if listed in --rows. */
export const growthRows = [
  ...rowsOf({
    id: "growth",
    title: "drain of 30,000 beside finished jobs",
    counts: [10_000, 100_000, 1_000_000],
    tracked: true,
    measure: besideRows
  }),
  ...rowsOf({
    id: "growth",
    title: "drain of 30,000 beside finished jobs",
    counts: [10_000_000],
    tracked: true,
    onlyByName: true,
    measure: besideRows
  }),
  ...rowsOf({ id: "pods", title: "drain of 150,000 by processes", counts: [1, 2, 4], measure: byPods }),
  ...rowsOf({ id: "queues", title: "drain of 30,000 over queues", counts: [1, 100, 1000], measure: overQueues }),
  ...rowsOf({
    id: "many-keys",
    title: "drain of the first 30,000 of this many keys, one job each",
    counts: [30_000, 1_000_000],
    measure: overKeys
  })
]
