import { Array as Arr, type MetricPair, MetricState, Option } from "effect"
import type { Cell, Family } from "./MetricFamily.js"

type LabelPair = readonly [name: string, value: string]

const escapeValue = (text: string) => text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll('"', '\\"')
const escapeHelp = (text: string) => text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n")
const safeName = (name: string) => name.replace(/[^a-zA-Z0-9_:]/g, "_").replace(/^(?=\d|$)/, "_")
const number = (value: number) =>
  value === Infinity ? "+Inf" : value === -Infinity ? "-Inf" : Number.isNaN(value) ? "NaN" : String(value)

const sample = (name: string, labels: ReadonlyArray<LabelPair>, value: number | bigint) => {
  const inside = labels.map(([label, text]) => `${safeName(label)}="${escapeValue(text)}"`).join(",")
  return `${name}${inside === "" ? "" : `{${inside}}`} ${typeof value === "bigint" ? value : number(value)}\n`
}

const heading = (name: string, help: string, type: string) =>
  `${help === "" ? "" : `# HELP ${name} ${escapeHelp(help)}\n`}# TYPE ${name} ${type}\n`

/** Prometheus buckets are cumulative and end with `+Inf`. */
const histogram = (
  name: string,
  labels: ReadonlyArray<LabelPair>,
  cumulative: ReadonlyArray<readonly [bound: number, count: number]>,
  sum: number,
  count: number
) =>
  cumulative
    .map(([bound, below]) => sample(`${name}_bucket`, [...labels, ["le", number(bound)]], below))
    .concat(
      sample(`${name}_bucket`, [...labels, ["le", "+Inf"]], count),
      sample(`${name}_sum`, labels, sum),
      sample(`${name}_count`, labels, count)
    )
    .join("")

const renderCell = (name: string, labelNames: ReadonlyArray<string>, type: string, cell: Cell) => {
  const labels = Arr.zip(labelNames, cell.labelValues)
  if (type !== "histogram") return sample(name, labels, cell.value)
  let below = 0
  const cumulative = Arr.zip(cell.bounds, cell.buckets).map(([bound, count]) => {
    below += count
    return [bound, below] as const
  })
  return histogram(name, labels, cumulative, cell.value, cell.count)
}

/** Renders Nightshift's own metrics in the order of first use. */
export const renderFamilies = (families: Iterable<Family>): string => {
  let text = ""
  for (const { series, spec } of families) {
    const name = `nightshift_${spec.name}`
    text += heading(name, spec.help, spec.type)
    for (const cell of series) text += renderCell(name, spec.labels, spec.type, cell)
  }
  return text
}

const renderState = (
  name: string,
  labels: ReadonlyArray<LabelPair>,
  state: MetricPair.MetricPair.Untyped["metricState"]
) => {
  if (MetricState.isCounterState(state)) return ["counter", sample(name, labels, state.count)] as const
  if (MetricState.isGaugeState(state)) return ["gauge", sample(name, labels, state.value)] as const
  if (MetricState.isHistogramState(state)) {
    const finite = state.buckets.filter(([bound]) => Number.isFinite(bound))
    return ["histogram", histogram(name, labels, finite, state.sum, state.count)] as const
  }
  if (MetricState.isFrequencyState(state)) {
    const lines = Array.from(state.occurrences, ([key, count]) => sample(name, [...labels, ["key", key]], count))
    return ["counter", lines.join("")] as const
  }
  return undefined
}

/** Effect's own fiber metrics, which would add forty lines per scrape. */
const isRuntimeMetric = (pair: MetricPair.MetricPair.Untyped) => pair.metricKey.name.startsWith("effect_fiber_")

/** Label names that Prometheus reserves for histograms and summaries. */
const reserved = new Set(["le", "quantile"])

/** Label names may not contain a colon or start with `__`. If several tags map to one label, the last one wins. */
const labelsOf = ({ metricKey: { tags } }: MetricPair.MetricPair.Untyped): ReadonlyArray<LabelPair> => {
  const labels = new Map<string, string>()
  for (const { key, value } of tags) {
    const name = safeName(key).replaceAll(":", "_").replace(/^__+/, "_")
    labels.set(reserved.has(name) ? `exported_${name}` : name, value)
  }
  return [...labels].sort(([a], [b]) => (a < b ? -1 : 1))
}

/** The names of a family's samples. */
const sampleNames = (name: string, type: string) =>
  type === "histogram" ? [name, `${name}_bucket`, `${name}_sum`, `${name}_count`] : [name]

/**
 * Renders metrics that the program records with Effect's `Metric`, so that handlers need no second registry. Prometheus
 * rejects the whole page if a family or series appears twice, so later duplicates are left out and named in a comment.
 */
export const renderEffectMetrics = (
  pairs: ReadonlyArray<MetricPair.MetricPair.Untyped>,
  families: Iterable<Family>
): string => {
  const taken = new Set([...families].flatMap(({ spec }) => sampleNames(`nightshift_${spec.name}`, spec.type)))
  const own = Arr.groupBy(
    pairs.filter((pair) => !isRuntimeMetric(pair)),
    (pair) => safeName(pair.metricKey.name)
  )
  let text = ""
  for (const [name, group] of Object.entries(own)) {
    let type: string | undefined
    const series = new Map<string, string>()
    for (const pair of group) {
      const labels = labelsOf(pair)
      const rendered = renderState(name, labels, pair.metricState)
      if (rendered === undefined) continue
      type ??= rendered[0]
      const key = JSON.stringify(labels)
      if (rendered[0] !== type || series.has(key)) text += leftOut(pair, "another metric has its name and labels")
      else series.set(key, rendered[1])
    }
    if (type === undefined) continue
    const names = sampleNames(name, type)
    if (names.some((each) => taken.has(each))) {
      text += leftOut(group[0], "another metric has its name")
      continue
    }
    for (const each of names) taken.add(each)
    text += heading(
      name,
      Option.getOrElse(group[0].metricKey.description, () => ""),
      type
    )
    text += [...series.values()].join("")
  }
  return text
}

const leftOut = ({ metricKey }: MetricPair.MetricPair.Untyped, why: string) =>
  `# left out: ${JSON.stringify(metricKey.name)}, because ${why}\n`
