import { secondsOf } from "../Durations"
import { brief, type QueueSeries } from "../Views"
import { clockText, span } from "./Time"

// Drawn as two SVG paths, because a page may show a hundred sparklines. The size is fixed to avoid a layout shift.

const height = 26
const pitch = 4
const bar = 3

/** Width of 31 buckets, the maximum an hour touches. */
const width = 31 * pitch

const sum = (counts: ReadonlyArray<number>) => counts.reduce((all, count) => all + count, 0)

/** Minimum height, so that small counts stay visible. */
const tall = (count: number, highest: number, minHeight: number) =>
  count === 0 ? 0 : Math.max(minHeight, (count / highest) * (height - 2))

const rectangle = (index: number, bottom: number, size: number) =>
  size === 0 ? "" : `M${index * pitch} ${(bottom - size).toFixed(1)}h${bar}v${size.toFixed(1)}h-${bar}z`

const words = (series: QueueSeries, completed: ReadonlyArray<number>, dead: ReadonlyArray<number>): string => {
  const [done, died] = [sum(completed), sum(dead)]
  if (done + died === 0) return "No jobs finished in the last hour"
  const all = completed.map((count, index) => count + (dead[index] ?? 0))
  const highest = Math.max(...all)
  const bucket = secondsOf(series.bucket) ?? 60
  const at = Date.parse(series.since) / 1000 + all.indexOf(highest) * bucket
  return `In the last hour ${done.toLocaleString()} done, ${died.toLocaleString()} dead; peak at ${clockText(at)}: ${highest.toLocaleString()} in ${span(bucket)}`
}

/** Done and dead jobs of a queue in the last hour. */
export const Sparkline = ({ queue, series }: { queue: string; series: QueueSeries | undefined }) => {
  const found = series?.queues.find((of) => of.queue === queue)
  const completed = found?.completed ?? []
  const dead = found?.dead ?? []
  const highest = Math.max(1, ...completed.map((count, index) => count + (dead[index] ?? 0)))
  const doneTall = (index: number) => Math.min(tall(completed[index] ?? 0, highest, 1), height - 4)
  // Aligns the newest bucket to the right edge.
  const shift = width - pitch * Math.max(1, completed.length) + (pitch - bar)
  const label = series === undefined ? "Loading the last hour" : words(series, completed, dead)
  return (
    <svg class="spark" role="img" aria-label={label} width={width} height={height} viewBox={`0 0 ${width} ${height}`}>
      <title>{label}</title>
      <path class="floor" d={`M0 ${height - 0.5}h${width}`} />
      <g transform={`translate(${shift} 0)`}>
        <path class="done" d={completed.map((_, index) => rectangle(index, height - 1, doneTall(index))).join("")} />
        <path
          class="dead"
          d={dead
            .map((count, index) => rectangle(index, height - 1 - doneTall(index), tall(count, highest, 2)))
            .join("")}
        />
      </g>
    </svg>
  )
}

/** Formats throughput as jobs per minute. */
export const rateText = ({ completed, seconds }: { readonly completed: number; readonly seconds: number }): string => {
  const perMinute = seconds <= 0 ? 0 : (completed / seconds) * 60
  if (perMinute > 0 && perMinute < 0.1) return "<0.1/min"
  return `${perMinute > 0 && perMinute < 10 ? perMinute.toFixed(1) : brief(Math.round(perMinute))}/min`
}
