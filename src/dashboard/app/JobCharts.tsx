import { useMemo, useState } from "preact/hooks"
import * as Api from "./Api"
import { secondsOf } from "./Durations"
import { Card } from "./parts/Card"
import { Chart } from "./parts/Chart"
import { Shown } from "./parts/Notice"
import type { Range } from "./parts/Range"
import { measured, shortSpan } from "./parts/Time"
import { type Resource, useResource } from "./Resource"
import { brief, type Change, type Series } from "./Views"
import { riseNear, useChanges, WhatChanged } from "./WhatChanged"

/** Seconds. Younger buckets have too few samples to show. */
const tooYoung = 15

type Drawn = Pick<Series, "bucket"> & {
  readonly points: ReadonlyArray<Omit<Series["points"][number], "processing" | "started" | "cancelled" | "rescued">>
}

const columns = (series: Drawn) => {
  const ageOf = (at: string) => (Date.now() - Date.parse(at)) / 1000
  const points = series.points.filter(({ at }) => ageOf(at) >= tooYoung)
  // The last bucket is incomplete: divide by its elapsed time, or every chart would end in a drop.
  const width = secondsOf(series.bucket) ?? 60
  const lasted = points.map(({ at }) => Math.min(width, ageOf(at)))
  const rates = (of: "completed" | "enqueued" | "retried" | "dead") =>
    points.map((point, index) => point[of] / (lasted[index] ?? width))
  return {
    times: points.map(({ at }) => Date.parse(at) / 1000),
    throughput: [
      { label: "done", colour: "--done", values: rates("completed") },
      { label: "enqueued", colour: "--pending", dash: [6, 3], values: rates("enqueued") },
      { label: "retried", colour: "--retrying", dash: [2, 2], values: rates("retried") },
      { label: "dead", colour: "--dead", values: rates("dead") }
    ],
    latency: [
      { label: "p50", colour: "--done", values: points.map(({ total }) => total.p50) },
      { label: "p95", colour: "--retrying", dash: [6, 3], values: points.map(({ total }) => total.p95) },
      { label: "p99", colour: "--dead", dash: [2, 2], values: points.map(({ total }) => total.p99) }
    ]
  }
}

/** Formats a tick of the rate axis. Two digits, so that no two ticks read the same. */
const rateTick = (value: number) => (value < 10 ? String(Number(value.toPrecision(2))) : brief(Math.round(value)))

const rate = (value: number) => (value < 10 ? String(Math.round(value * 100) / 100) : brief(Math.round(value)))

interface Of {
  readonly queue?: string
  readonly kind?: string
}

/** The numbers of all jobs, of one queue or of one kind over time. */
export const useSeries = (range: Range, of: Of = {}) =>
  useResource<Series>(`metrics/series${Api.query({ ...range.query, ...of })}`)

/** Throughput and latency charts, with what changed meanwhile. */
export const JobCharts = (props: { readonly range: Range; readonly series: Resource<Series>; readonly of?: Of }) => {
  const { of, range, series } = props
  const changes = useChanges(range, of)
  const [rise, setRise] = useState<string>()
  const pick = (at: number) => {
    const [since, until] = [range.query.since, range.query.until].map((end) => Date.parse(end) / 1000)
    const near = riseNear(changes, at, ((until ?? 0) - (since ?? 0)) / 20)
    if (near !== undefined) setRise(near)
  }
  const drawn = useMemo(() => (series.data === undefined ? undefined : columns(series.data)), [series.data])
  return (
    <Shown of={series}>
      {() =>
        drawn === undefined ? null : (
          <>
            <SeriesCharts drawn={drawn} marks={changes?.changes} onPick={pick} onZoom={range.zoom} />
            {changes === undefined ? null : <WhatChanged changes={changes} chosen={rise} onChoose={setRise} />}
          </>
        )
      }
    </Shown>
  )
}

/** The charts of all cells together. */
export const FleetCharts = ({ history }: { readonly history: Drawn }) => {
  const drawn = useMemo(() => columns(history), [history])
  return <SeriesCharts drawn={drawn} />
}

const SeriesCharts = (props: {
  readonly drawn: ReturnType<typeof columns>
  readonly marks?: ReadonlyArray<Change> | undefined
  readonly onPick?: (at: number) => void
  /** Without it, the range is fixed. */
  readonly onZoom?: Range["zoom"]
}) => {
  const { drawn, onZoom } = props
  const shared = {
    times: drawn.times,
    marks: props.marks,
    onZoom: onZoom ?? (() => {}),
    ...(props.onPick === undefined ? {} : { onPick: props.onPick })
  }
  const hint = onZoom === undefined ? "per second, in the last hour" : "per second; drag to zoom"
  return (
    <div class="grid">
      <Card name="Throughput" content="body" chips={<span class="quiet small">{hint}</span>}>
        <Chart label="Throughput" lines={drawn.throughput} format={rate} tick={rateTick} {...shared} />
      </Card>
      <Card name="Latency" content="body" chips={<span class="quiet small">from due to done</span>}>
        <Chart
          label="Latency"
          empty="No job ended in this range."
          lines={drawn.latency}
          format={measured}
          tick={shortSpan}
          {...shared}
        />
      </Card>
    </div>
  )
}
