/** What a metric is, declared once beside the code that counts. The name goes out as `nightshift_<name>`. */
export interface MetricSpec<Label extends string = string> {
  readonly type: "counter" | "gauge" | "histogram" | "summary"
  readonly name: string
  readonly help: string
  readonly labels: ReadonlyArray<Label>
  /** Upper bounds of a histogram's buckets, in the metric's unit. */
  readonly bounds: ReadonlyArray<number>
}

export const counter = <const Label extends string = never>(
  name: string,
  help: string,
  labels: ReadonlyArray<Label> = []
): MetricSpec<Label> => ({ type: "counter", name, help, labels, bounds: [] })

export const gauge = <const Label extends string = never>(
  name: string,
  help: string,
  labels: ReadonlyArray<Label> = []
): MetricSpec<Label> => ({ type: "gauge", name, help, labels, bounds: [] })

/** Seconds from a tenth of a millisecond to an hour: wide enough for a claim and for a long job. */
const secondsBounds = [0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300, 900, 3600]

export const histogram = <const Label extends string = never>(
  name: string,
  help: string,
  labels: ReadonlyArray<Label> = [],
  bounds: ReadonlyArray<number> = secondsBounds
): MetricSpec<Label> => ({ type: "histogram", name, help, labels, bounds })

/** Quantiles that were worked out here, one series each. The label is reserved for this type. */
export const summary = (name: string, help: string): MetricSpec<"quantile"> => ({
  type: "summary",
  name,
  help,
  labels: ["quantile"],
  bounds: []
})
