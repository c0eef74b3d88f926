import { Array as Arr, type MetricPair, MetricState, Option } from "effect"
import type { Cell, Family } from "./MetricFamily.js"

type LabelPair = readonly [name: string, value: string]

const escapeValue = (text: string) => text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll('"', '\\"')
const escapeHelp = (text: string) => text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n")
const safeName = (name: string) => name.replace(/[^a-zA-Z0-9_:]/g, "_").replace(/^(?=\d)/, "_")
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

/** Renders metrics that the program records with Effect's `Metric`, so that handlers need no second registry. */
export const renderEffectMetrics = (pairs: ReadonlyArray<MetricPair.MetricPair.Untyped>): string => {
  const own = Arr.groupBy(
    pairs.filter((pair) => !isRuntimeMetric(pair)),
    (pair) => pair.metricKey.name
  )
  let text = ""
  for (const [rawName, group] of Object.entries(own)) {
    const name = safeName(rawName)
    const rendered = Arr.filterMap(group, ({ metricKey, metricState }) => {
      const labels = metricKey.tags.map((tag): LabelPair => [tag.key, tag.value])
      return Option.fromNullable(renderState(name, labels, metricState))
    })
    const first = rendered[0]
    if (first === undefined) continue
    const help = group[0].metricKey.description
    text += heading(
      name,
      Option.getOrElse(help, () => ""),
      first[0]
    )
    text += rendered.map(([, lines]) => lines).join("")
  }
  return text
}
