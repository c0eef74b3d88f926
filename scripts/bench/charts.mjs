// Draws results as SVG: small bar charts side by side, each with its own scale that starts at 0.
import { mkdirSync, writeFileSync } from "node:fs"
import { join, resolve } from "node:path"
import { figure } from "./bars.mjs"
import { growthRows } from "./growth.mjs"

const panel = { width: 180, height: 190, gap: 24, top: 44, bottom: 26 }
const colors = ["#3b6ea5", "#9db8d2"]

const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;")
const text = (x, y, size, anchor, words) =>
  `<text x="${x}" y="${y}" font-size="${size}" text-anchor="${anchor}">${escaped(words)}</text>`

const shown = (value) => {
  if (value >= 10_000) return `${Math.round(value / 1000)}k`
  if (value >= 1000) return `${(value / 1000).toFixed(1)}k`
  return value >= 100 ? value.toFixed(0) : value.toFixed(value >= 10 ? 1 : 2)
}

/** One bar per label; its parts are stacked, and the sum is written above. */
const panelOf = ({ bars, title, unit }, left) => {
  const sums = bars.map(({ parts }) => parts.reduce((sum, value) => sum + value, 0))
  const floor = panel.height - panel.bottom
  const scale = (floor - panel.top - 14) / Math.max(...sums)
  const step = panel.width / bars.length
  const width = Math.min(44, step * 0.66)
  const drawn = bars.flatMap(({ label, parts }, place) => {
    const middle = left + step * (place + 0.5)
    let y = floor
    const rects = parts.map((value, part) => {
      y -= value * scale
      const height = (value * scale).toFixed(1)
      return `<rect x="${(middle - width / 2).toFixed(1)}" y="${y.toFixed(1)}" width="${width.toFixed(1)}" height="${height}" fill="${colors[part]}"/>`
    })
    return [
      ...rects,
      text(middle.toFixed(1), (y - 4).toFixed(1), 11, "middle", shown(sums[place])),
      text(middle.toFixed(1), floor + 16, 11, "middle", label)
    ]
  })
  return [
    text(left, 18, 13, "start", title),
    text(left, 34, 11, "start", unit),
    `<line x1="${left}" y1="${floor}" x2="${left + panel.width}" y2="${floor}" stroke="#888"/>`,
    ...drawn
  ]
}

/** Returns a picture of all panels that have values, or undefined if none has. */
const svgOf = (panels) => {
  const filled = panels.filter(({ bars }) => bars.length > 0)
  if (filled.length === 0) return undefined
  const width = filled.length * (panel.width + panel.gap) - panel.gap
  const body = filled.flatMap((each, place) => panelOf(each, place * (panel.width + panel.gap)))
  // A white ground, because dark pages would hide the text.
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="-12 -4 ${width + 24} ${panel.height + 8}" width="${width + 24}" font-family="sans-serif">`,
    `<title>${escaped(filled.map(({ title }) => title).join(", "))}</title>`,
    `<rect x="-12" y="-4" width="100%" height="100%" fill="#fff"/>`,
    ...body,
    "</svg>",
    ""
  ].join("\n")
}

const labelOf = (count) => (count >= 1e6 ? `${count / 1e6}M` : count >= 1e4 ? `${count / 1e3}k` : String(count))

const seriesOf = (results, series, name) =>
  growthRows
    .filter((row) => row.series === series)
    .map(({ count, id }) => ({ label: labelOf(count), parts: [figure(results, id, "nightshift", name)] }))
    .filter(({ parts: [value] }) => value !== undefined && value !== null)

const costOf = (results, names) =>
  [
    ["Nightshift", "nightshift"],
    ["graphile", "graphile-batched"],
    ["pg-boss", "pg-boss"]
  ]
    .map(([label, system]) => ({ label, parts: names.map(([name, by]) => figure(results, "cost", system, name) / by) }))
    .filter(({ parts }) => parts.every((value) => Number.isFinite(value)))

const chartsOf = (results) => ({
  growth: [
    { title: "Drain", unit: "jobs/s, by finished jobs in the table", bars: seriesOf(results, "growth") },
    { title: "Claim", unit: "µs per job", bars: seriesOf(results, "growth", "claim") },
    { title: "List", unit: "ms, newest 50 done jobs", bars: seriesOf(results, "growth", "list") },
    { title: "Purge", unit: "µs per deleted job", bars: seriesOf(results, "growth", "purge") }
  ],
  scaling: [
    { title: "Processes", unit: "jobs/s, one queue", bars: seriesOf(results, "pods") },
    { title: "Queues", unit: "jobs/s, one process", bars: seriesOf(results, "queues") },
    { title: "Keys", unit: "jobs/s, one job per key", bars: seriesOf(results, "many-keys") }
  ],
  cost: [
    {
      title: "CPU of a million jobs",
      unit: "s, client (dark) and server",
      bars: costOf(results, [
        ["client", 1],
        ["server", 1]
      ])
    },
    { title: "WAL of a million jobs", unit: "GB", bars: costOf(results, [["wal", 1e9]]) }
  ]
})

/** Writes the charts of everything that was measured; returns their files. */
export const drawCharts = (results, folder) => {
  mkdirSync(resolve(folder), { recursive: true })
  return Object.entries(chartsOf(results)).flatMap(([name, panels]) => {
    const svg = svgOf(panels)
    if (svg === undefined) return []
    const file = join(resolve(folder), `speed-${name}.svg`)
    writeFileSync(file, svg)
    return [file]
  })
}
