/** Declares a metric, next to the code that counts. It is exported as `nightshift_<name>`. */
export interface MetricSpec<Label extends string = string> {
  readonly type: "counter" | "gauge" | "histogram" | "summary"
  readonly name: string
  readonly help: string
  readonly labels: ReadonlyArray<Label>
  /** Upper bounds of the histogram's buckets, in the metric's unit. */
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

/** From 0.1 milliseconds to one hour: covers both claims and long jobs. */
const secondsBounds = [0.0001, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300, 900, 3600]

export const histogram = <const Label extends string = never>(
  name: string,
  help: string,
  labels: ReadonlyArray<Label> = [],
  bounds: ReadonlyArray<number> = secondsBounds
): MetricSpec<Label> => ({ type: "histogram", name, help, labels, bounds })

/** Precomputed quantiles, one series each. Prometheus reserves the `quantile` label for this type. */
export const summary = (name: string, help: string): MetricSpec<"quantile"> => ({
  type: "summary",
  name,
  help,
  labels: ["quantile"],
  bounds: []
})
