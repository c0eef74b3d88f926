// Prints a run as two tables and as JSON.
import { barsFrom, figure, judge, ratio, worst } from "./bars.mjs"
import { titleOf } from "./rows.mjs"

const compact = (value) => {
  if (value >= 100_000) return `${Math.round(value / 1000)}k`
  if (value >= 1000) return `${(value / 1000).toFixed(1)}k`
  return value >= 100 ? value.toFixed(0) : value.toFixed(value >= 10 ? 1 : 2)
}

const withUnit = (value, unit) => {
  if (value === undefined) return "-"
  if (unit === "") return String(value)
  if (unit === "x") return `${value.toFixed(2)}x`
  return unit === "/s" ? `${compact(value)}/s` : `${compact(value)} ${unit}`
}

const latency = (tail) => (results, row, system) =>
  `${figure(results, row, system).toFixed(2)} / ${figure(results, row, system, tail).toFixed(2)} ms`

const cells = {
  rate: (results, row, system) => {
    const beside = system === "graphile-batched" ? undefined : ratio(results, [row, system], [row, "graphile-batched"])
    return `${compact(figure(results, row, system))}/s${beside === undefined ? "" : ` ${beside.toFixed(2)}x`}`
  },
  ms: latency("p95"),
  "ms p99": latency("p99"),
  "CPU ms": (results, row, system) => `${figure(results, row, system).toFixed(0)} ms of CPU`,
  statements: (results, row, system) => `${figure(results, row, system).toFixed(1)}/s`,
  "MB/s": (results, row, system) =>
    `${compact(figure(results, row, system))} / ${compact(figure(results, row, system, "out"))} MB/s`,
  cost: (results, row, system) =>
    `${figure(results, row, system).toFixed(0)} s, ${(figure(results, row, system, "wal") / 1e9).toFixed(2)} GB WAL`,
  MB: (results, row, system) =>
    `${figure(results, row, system).toFixed(0)} MB ${(100 * figure(results, row, system, "growth")).toFixed(0)}%`
}

const cellOf = (results, { id, unit }, system) => {
  const samples = results[id]?.[system] ?? []
  if (samples.length === 0) return ""
  if (samples.every(({ error }) => error !== undefined)) return "failed"
  // Marks drains that were stopped at the limit, and those that ran two jobs of a key at once.
  const late = samples.some((sample) => sample.late) ? " (stopped)" : ""
  const broken = samples.some((sample) => sample.overlaps > 0) ? " (overlaps)" : ""
  return cells[unit](results, id, system) + late + broken
}

/** The cost of open tabs while the queue drains, in CPU milliseconds per tab and second. */
const tabCosts = (results) => {
  const of = (field) => {
    const [beside, alone] = ["tabs", "no-tabs"].map((row) => figure(results, row, "nightshift", field))
    const more = beside - alone
    const each =
      (1000 * more) / figure(results, "tabs", "nightshift", "seconds") / worst(results, "tabs", "slowest").tabs
    return Number.isFinite(each)
      ? `${each.toFixed(2)} ms (${beside.toFixed(1)} s, without tabs ${alone.toFixed(1)} s)`
      : "unknown"
  }
  return `CPU of a tab and its requests per second: Node ${of("cpu")}, PostgreSQL ${of("server")}.`
}

/** The slowest page and all rejected page requests. */
const pageLines = (results) => {
  const samples = (results.tabs?.nightshift ?? []).filter(({ error }) => error === undefined)
  if (samples.length === 0) return []
  const { requests, slowest, slowestPage, tabs } = worst(results, "tabs", "slowest")
  const refusals = samples.flatMap(({ refusals }) => refusals)
  return [
    "",
    `Slowest page with ${tabs} tabs open: ${slowestPage}, ${withUnit(slowest, "ms")}; ${requests} page requests.`,
    tabCosts(results),
    ...refusals.map(({ ms, path, refused }) => `Rejected after ${withUnit(ms, "ms")}: ${path}: ${refused}`)
  ]
}

const tableOf = (lines) => {
  const widths = lines[0].map((_, column) => Math.max(...lines.map((line) => line[column].length)))
  const format = (line) =>
    line
      .map((cell, column) => cell.padEnd(widths[column]))
      .join("  ")
      .trimEnd()
  return [format(lines[0]), widths.map((width) => "-".repeat(width)).join("  "), ...lines.slice(1).map(format)]
}

/** Prints the tables. Ratios are relative to graphile-worker batched. */
export const printTables = ({ jobs, results, rows, systems }) => {
  const head = ["", ...systems.map(({ title }) => title)]
  const body = rows.map((row) => [titleOf(row, jobs), ...systems.map(({ id }) => cellOf(results, row, id))])
  const bars = judge(results).map(({ floor, goal, unit, value, verdict, what }) => [
    what,
    withUnit(value, unit),
    withUnit(floor, unit),
    withUnit(goal, unit),
    verdict
  ])
  return [
    ...tableOf([head, ...body]),
    "",
    ...tableOf([["Nightshift against its bars", "measured", "floor", "goal", ""], ...bars]),
    ...pageLines(results),
    ...(jobs < barsFrom
      ? ["", `The bars apply to --jobs ${barsFrom}. A smaller run only shows that every row works.`]
      : [])
  ].join("\n")
}

const mediansOf = (results) =>
  Object.fromEntries(
    Object.entries(results).map(([row, bySystem]) => [
      row,
      Object.fromEntries(Object.keys(bySystem).map((system) => [system, figure(results, row, system) ?? null]))
    ])
  )

/** Returns all measurements as JSON. */
export const asJson = (run) => ({ ...run, medians: mediansOf(run.results), bars: judge(run.results) })
