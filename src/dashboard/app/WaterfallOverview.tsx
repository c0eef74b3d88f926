import { useRef, useState } from "preact/hooks"
import { type Axis, positionOn } from "./parts/Scale"
import type { Bar } from "./Waterfall"
import { isFailed, partAround } from "./WaterfallRows"

const [width, height] = [1_000, 48]

/** The share of the axis that a click shows. */
const clicked = 0.1

/** The bars of one colour as one line, however many they are. */
const pathOf = (bars: ReadonlyArray<Bar>, colour: string, whole: Axis) => {
  const row = height / bars.length
  const shortest = isFailed({ colour }) ? 4 : 2
  return bars
    .map((bar, index) => {
      if (bar.colour !== colour) return ""
      const { from, length } = positionOn(bar, whole)
      const x = Math.min(width - shortest, from * width)
      return `M${x.toFixed(1)} ${((index + 0.5) * row).toFixed(1)}h${Math.max(shortest, length * width).toFixed(1)}`
    })
    .join("")
}

/** All bars on the whole axis, small. Dragging over it, or a click, shows a part of the axis. */
export const WaterfallOverview = (props: {
  readonly bars: ReadonlyArray<Bar>
  readonly whole: Axis
  readonly part: Axis | undefined
  readonly onPart: (part: Axis | undefined) => void
}) => {
  const { bars, onPart, part, whole } = props
  const strip = useRef<SVGSVGElement>(null)
  const [drag, setDrag] = useState<{ readonly from: number; readonly to: number }>()
  const length = whole.ends - whole.start
  const shareAt = (event: PointerEvent) => {
    const at = strip.current?.getBoundingClientRect()
    return at === undefined ? 0 : Math.min(1, Math.max(0, (event.clientX - at.left) / at.width))
  }
  const release = () => {
    if (drag === undefined) return
    const [from, to] = [Math.min(drag.from, drag.to), Math.max(drag.from, drag.to)]
    const share = to - from < 0.01 ? clicked : to - from
    onPart(partAround(whole, whole.start + ((from + to) / 2) * length, share * length))
    setDrag(undefined)
  }
  const shown =
    drag !== undefined
      ? { from: Math.min(drag.from, drag.to), length: Math.abs(drag.to - drag.from) }
      : part === undefined
        ? undefined
        : positionOn({ from: part.start, to: part.ends }, whole)
  // What failed is drawn last, and never too thin to be seen.
  const colours = [
    ...new Set(bars.toSorted((a, b) => Number(isFailed(a)) - Number(isFailed(b))).map(({ colour }) => colour))
  ]
  return (
    <svg
      ref={strip}
      class="overview"
      role="img"
      aria-label={`All ${bars.length.toLocaleString()} rows on the whole time axis. Drag over a part to zoom in.`}
      viewBox={`0 0 ${width} ${height}`}
      preserveAspectRatio="none"
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId)
        setDrag({ from: shareAt(event), to: shareAt(event) })
      }}
      onPointerMove={(event) => drag !== undefined && setDrag({ from: drag.from, to: shareAt(event) })}
      onPointerUp={release}
      onPointerCancel={() => setDrag(undefined)}
    >
      {colours.map((colour) => (
        <path
          key={colour}
          class={colour}
          d={pathOf(bars, colour, whole)}
          stroke-width={Math.max(isFailed({ colour }) ? 6 : 1, height / bars.length)}
        />
      ))}
      {shown === undefined ? null : (
        <rect x={shown.from * width} width={Math.max(2, shown.length * width)} y="0" height={height} />
      )}
    </svg>
  )
}
