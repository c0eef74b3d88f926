import { Histogram, type Sketch, type Summary } from "../telemetry/Histogram.js"

// Histograms as columns: two arrays side by side, the places and their counts, with sum and maximum beside them.

/** The columns of a histogram called `name`, as they are given to `jsonb_to_recordset`. */
export const fields = (name: string, { counts, max, places, sum }: Sketch) => ({
  [`${name}_sum`]: sum,
  [`${name}_max`]: max,
  [`${name}_places`]: places,
  [`${name}_counts`]: counts
})

export const columns = (name: string) => [`${name}_sum`, `${name}_max`, `${name}_places`, `${name}_counts`]

export const types = (name: string) =>
  `${name}_sum float8, ${name}_max float8, ${name}_places smallint[], ${name}_counts int[]`

/** Rows of `source` by `place`, their histograms called `name` merged: equal places are added up. */
export const merged = (name: string, source: string) => `
  select place, array_agg(at order by at) as places, array_agg(n order by at) as counts
  from (
    select s.place, h.at, sum(h.n)::float8 as n
    from ${source} s cross join lateral unnest(s.${name}_places, s.${name}_counts) as h(at, n)
    group by 1, 2
  ) one
  group by place`

/** What a row says of a merged histogram; it is empty where nothing was merged. */
export const summary = (
  places: ReadonlyArray<number> | null,
  counts: ReadonlyArray<number> | null,
  sum: number,
  max: number
): Summary => Histogram.of({ places: places ?? [], counts: counts ?? [], sum, max }).summary()
