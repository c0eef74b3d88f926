import { useEffect, useRef } from "preact/hooks"
import uPlot from "uplot"
import { chosenTimeStyle } from "../TimeStyle"
import type { Change } from "../Views"
import { clockText, dayText, zoneMark } from "./Time"

interface Line {
  readonly label: string
  /** CSS custom property. */
  readonly colour: string
  /** Lengths of dashes and gaps in pixels, so that lines differ without their colours. */
  readonly dash?: ReadonlyArray<number>
  readonly values: ReadonlyArray<number | null>
}

const colour = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()

const hasManyDays = (plot: uPlot) => {
  const { max, min } = plot.scales.x ?? {}
  return (max ?? 0) - (min ?? 0) > 86_400
}

/** Formats x-axis ticks as times; on ranges over a day, adds the date at the first tick of each day. */
const tickTexts = (plot: uPlot, ticks: ReadonlyArray<number>, _: number, __: number, step: number) => {
  const manyDays = hasManyDays(plot)
  return ticks.map((tick, place) => {
    if (step >= 86_400) return dayText(tick)
    const before = ticks[place - 1]
    const isNewDay = before === undefined || dayText(before) !== dayText(tick)
    return manyDays && isNewDay ? `${clockText(tick)}\n${dayText(tick)}` : clockText(tick, step < 60)
  })
}

const lastValue = (values: ArrayLike<number | null | undefined>) => values[values.length - 1] ?? null

const markColours = { deploy: "--accent", start: "--quiet", action: "--retrying", error: "--dead" }

/** Draws a dashed line at each change, in the colour of what changed. */
const drawMarks = (chart: uPlot, marks: ReadonlyArray<Change>) => {
  const { ctx } = chart
  const { height, left, top, width } = chart.bbox
  ctx.save()
  ctx.setLineDash([3, 3])
  for (const { at, what } of marks) {
    const x = Math.round(chart.valToPos(Date.parse(at) / 1000, "x", true))
    if (x < left || x > left + width) continue
    ctx.strokeStyle = colour(markColours[what])
    ctx.beginPath()
    ctx.moveTo(x, top)
    ctx.lineTo(x, top + height)
    ctx.stroke()
  }
  ctx.restore()
}

/**
 * A line chart over time. The legend shows the values at the pointer, or the last ones. Dragging zooms in; a double
 * click resets the zoom.
 */
export const Chart = (props: {
  readonly label: string
  /** Epoch seconds. */
  readonly times: ReadonlyArray<number>
  readonly lines: ReadonlyArray<Line>
  readonly format: (value: number) => string
  /** Formats the ticks of the y axis, which have little room. */
  readonly tick?: (value: number) => string
  /** Shown instead of lines if there are no values. */
  readonly empty?: string
  /** Changes to mark with a dashed line. */
  readonly marks?: ReadonlyArray<Change> | undefined
  /** Called with the time of a click, in epoch seconds. */
  readonly onPick?: (at: number) => void
  readonly onZoom: (range: { since: number; until: number } | undefined) => void
}) => {
  const place = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot>(undefined)
  const zoom = useRef(props.onZoom)
  zoom.current = props.onZoom
  const data = [[...props.times], ...props.lines.map(({ values }) => [...values])] as uPlot.AlignedData
  const latest = useRef(data)
  latest.current = data
  const pick = useRef(props.onPick)
  pick.current = props.onPick
  const marks = useRef(props.marks)
  marks.current = props.marks
  const names = props.lines.map(({ label }) => label).join()

  useEffect(() => {
    const at = place.current
    if (at === null) return
    const draw = () => {
      plot.current?.destroy()
      const axis = {
        stroke: colour("--quiet"),
        grid: { stroke: colour("--line"), width: 1 },
        ticks: { stroke: colour("--line"), width: 1 }
      }
      plot.current = new uPlot(
        {
          width: Math.max(200, at.clientWidth),
          height: 200,
          padding: [10, 22, 0, 0],
          // Ticks are at full hours and days of the zone.
          tzDate: (seconds) =>
            chosenTimeStyle() === "utc" ? uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC") : new Date(seconds * 1000),
          cursor: { drag: { x: true, y: false, setScale: false } },
          legend: { live: true },
          scales: { y: { range: (_, _min, max) => [0, max === null || max === 0 ? 1 : max * 1.1] } },
          axes: [
            { ...axis, size: 42, values: tickTexts },
            { ...axis, size: 58, values: (_, ticks) => ticks.map((tick) => (props.tick ?? props.format)(tick)) }
          ],
          series: [
            {
              label: "at",
              value: (plot: uPlot, pointed: number | null, _: number, place: number | null) => {
                const at = place === null ? lastValue(plot.data[0]) : pointed
                if (at === null) return "–"
                return `${hasManyDays(plot) ? `${dayText(at)} ` : ""}${clockText(at)}${zoneMark()}`
              }
            },
            ...props.lines.map((line) => ({
              label: line.label,
              stroke: colour(line.colour),
              width: 1.5,
              ...(line.dash === undefined ? {} : { dash: [...line.dash] }),
              spanGaps: false,
              points: { show: false },
              value: (plot: uPlot, pointed: number | null, line: number, place: number | null) => {
                const value = place === null ? lastValue(plot.data[line] ?? []) : pointed
                return value === null ? "–" : props.format(value)
              }
            }))
          ],
          hooks: {
            draw: [(chart) => drawMarks(chart, marks.current ?? [])],
            setSelect: [
              (chart) => {
                if (chart.select.width < 4) return
                const since = chart.posToVal(chart.select.left, "x")
                const until = chart.posToVal(chart.select.left + chart.select.width, "x")
                chart.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false)
                zoom.current({ since, until })
              }
            ]
          }
        },
        latest.current,
        at
      )
      const { over } = plot.current
      over.ondblclick = () => zoom.current(undefined)
      over.onclick = ({ offsetX }) => plot.current && pick.current?.(plot.current.posToVal(offsetX, "x"))
    }
    draw()
    const resized = new ResizeObserver(() =>
      plot.current?.setSize({ width: Math.max(200, at.clientWidth), height: 200 })
    )
    resized.observe(at)
    addEventListener("themechange", draw)
    addEventListener("timechange", draw)
    return () => {
      removeEventListener("themechange", draw)
      removeEventListener("timechange", draw)
      resized.disconnect()
      plot.current?.destroy()
      plot.current = undefined
    }
  }, [names])

  useEffect(() => {
    plot.current?.setData(latest.current)
  }, [props.times, props.lines, props.marks])

  const isEmpty = props.lines.every(({ values }) => values.every((value) => value === null))
  return (
    <div class="chart" role="img" aria-label={props.label} ref={place}>
      {isEmpty && props.empty !== undefined ? <p class="none">{props.empty}</p> : null}
    </div>
  )
}
