import { Histogram, type Sketch, type Summary } from "../telemetry/Histogram.js"

// Histograms as columns: two arrays side by side, the places and their counts, with sum and maximum beside them.

/** The columns of a histogram called `name`, as JSON gives them to the statement that stores it. */
export const fields = (name: string, { counts, max, places, sum }: Sketch) => ({
  [`${name}_sum`]: sum,
  [`${name}_max`]: max,
  [`${name}_places`]: places,
  [`${name}_counts`]: counts
})

export const columns = (name: string) => [`${name}_sum`, `${name}_max`, `${name}_places`, `${name}_counts`]

export const types = (name: string) =>
  `${name}_sum float8, ${name}_max float8, ${name}_places smallint[], ${name}_counts int[]`

/** The start of the bucket of a width, in epoch milliseconds, in which a row's minute lies. */
export const bucketStart = (width: string) => `floor(extract(epoch from minute) * 1000 / ${width})::float8 * ${width}`

/** The histograms of a source by its keys, as `<name>_places` and `<name>_counts`: equal places are added up. */
export const merged = (name: string, source: string, keys: string) => `
  select ${keys}, array_agg(place order by place) as ${name}_places, array_agg(n order by place) as ${name}_counts
  from (
    select ${keys}, h.place, sum(h.n)::float8 as n
    from ${source} cross join lateral unnest(${name}_places, ${name}_counts) as h(place, n)
    group by ${keys}, h.place
  ) one
  group by ${keys}`

/** What a row says of a merged histogram; it is empty where nothing was merged. */
export const summary = (
  places: ReadonlyArray<number> | null,
  counts: ReadonlyArray<number> | null,
  sum: number | null,
  max: number | null
): Summary => Histogram.of({ places: places ?? [], counts: counts ?? [], sum: sum ?? 0, max: max ?? 0 }).summary()
