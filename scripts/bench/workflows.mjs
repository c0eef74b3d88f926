// Rows about workflow executions. Counts are multiples of --jobs, as in rows.mjs.
import { share, times } from "./scale.mjs"

const callers = 256

/** CPU of client and server per execution, in microseconds. */
const perExecution = ({ cpu, executions }, before, after) => ({
  client: (cpu * 1e6) / executions,
  server: after.cpu === undefined ? undefined : ((after.cpu - before.cpu) * 1e6) / executions
})

/** Runs executions that another process has started. `unit`: executions or steps per second. */
const drainOf =
  (factor, steps, unit) =>
  async (bench, { jobs }) => {
    const executions = times(factor)(jobs)
    await bench.child("loadExecutions", { prepare: true, executions, steps, callers })
    await bench.settle()
    const before = await bench.used()
    const drained = await bench.child("drainExecutions", { executions, steps })
    const after = await bench.used()
    return { ...drained, ...perExecution(drained, before, after), value: drained[unit] }
  }

/** Starts and runs executions in one process. `unit` as in `drainOf`. */
const startedOf =
  (factor, steps, unit) =>
  async (bench, { jobs }) => {
    const rated = await bench.child("execute", { prepare: true, executions: times(factor)(jobs), steps, callers })
    return { ...rated, value: rated[unit] }
  }

const samplesOf = (jobs) => ({
  samples: Math.max(20, Math.round(200 * share(jobs))),
  warming: Math.max(5, Math.round(1_000 * share(jobs)))
})

/** The drain is the one of the row `drain`, its baseline. */
const measureSleepers = async (bench, { jobs }) => {
  const { disk } = await bench.child("sleepers", { prepare: true, executions: times(100 / 3)(jobs) })
  await bench.child("load", { jobs })
  await bench.settle()
  const drained = await bench.drain({ jobs })
  const { wake } = await bench.child("wake", { samples: Math.max(5, Math.round(50 * share(jobs))), warming: 5 })
  return { ...drained, disk, wake }
}

export const workflowRows = [
  {
    id: "executions",
    title: "{n} workflow executions of three no-op steps",
    factor: 1 / 3,
    unit: "rate",
    systems: ["nightshift"],
    measure: drainOf(1 / 3, 3, "value")
  },
  {
    id: "steps",
    title: "steps recorded, {n} executions of thirty",
    factor: 1 / 15,
    unit: "rate",
    systems: ["nightshift"],
    measure: drainOf(1 / 15, 30, "steps")
  },
  {
    id: "executions-started",
    title: "{n} executions of three steps, started and run in one process",
    factor: 1 / 3,
    unit: "rate",
    systems: ["nightshift", "dbos"],
    measure: startedOf(1 / 3, 3, "value")
  },
  {
    id: "steps-started",
    title: "steps recorded, {n} executions of thirty, started and run in one process",
    factor: 1 / 30,
    unit: "rate",
    systems: ["nightshift", "dbos"],
    measure: startedOf(1 / 30, 30, "steps")
  },
  {
    id: "signal",
    title: "signal to the next step's start, idle, p50 / p95",
    unit: "ms",
    systems: ["nightshift"],
    measure: (bench, { jobs }) => bench.child("signal", { prepare: true, ...samplesOf(jobs) })
  },
  {
    id: "signal-result",
    title: "signal to the execution's result, idle, p50 / p99",
    unit: "ms p99",
    systems: ["nightshift", "dbos"],
    measure: (bench, { jobs }) => bench.child("result", { prepare: true, ...samplesOf(jobs) })
  },
  {
    id: "stream",
    title: "{n} tokens written to a stream by a step and read by another caller",
    factor: 1 / 3,
    unit: "rate",
    systems: ["nightshift", "dbos"],
    measure: (bench, { jobs }) => bench.child("stream", { prepare: true, chunks: times(1 / 3)(jobs) })
  },
  {
    id: "sleepers",
    title: "drain beside {n} sleeping executions",
    factor: 100 / 3,
    unit: "rate",
    systems: ["nightshift"],
    measure: measureSleepers
  }
]
