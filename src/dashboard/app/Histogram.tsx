import { measured, shortSpan } from "./parts/Time"
import type { Durations } from "./Views"

// Durations of attempts on a logarithmic axis; each bar covers half an octave.

const height = 120
/** Width of a bar with its gap: more if there are few bars. */
const pitchOf = (bars: number) => Math.max(22, Math.min(48, Math.floor(440 / bars)))
const gap = 4

/** All bins from the first to the last, including empty ones. */
const filled = (bins: Durations["bins"]): Durations["bins"] => {
  const [first] = bins
  const last = bins.at(-1)
  if (first === undefined || last === undefined) return []
  const byPlace = new Map(bins.map((bin) => [Math.round(2 * Math.log2(bin.to)), bin]))
  const [from, to] = [Math.round(2 * Math.log2(first.to)), Math.round(2 * Math.log2(last.to))]
  return Array.from({ length: to - from + 1 }, (_, index) => {
    const place = from + index
    return byPlace.get(place) ?? { from: 2 ** ((place - 1) / 2), to: 2 ** (place / 2), count: 0 }
  })
}

/** Durations of attempts, with the places of p50 and p95. */
export const Histogram = ({ of: { bins, processing } }: { readonly of: Durations }) => {
  const drawn = filled(bins)
  if (drawn.length === 0) return <p class="quiet">No attempt ended in this range.</p>
  const pitch = pitchOf(drawn.length)
  const bar = pitch - gap
  const highest = Math.max(...drawn.map(({ count }) => count))
  const width = Math.max(240, drawn.length * pitch)
  const holds = (seconds: number | null) => drawn.findIndex(({ to }) => seconds !== null && seconds <= to * 1.001)
  const marks = (["p50", "p95"] as const).flatMap((name) => {
    const place = holds(processing[name])
    return place === -1 ? [] : [{ name, x: place * pitch + bar / 2 }]
  })
  // Labels at every second edge need room for six characters.
  const every = pitch >= 44 ? 1 : drawn.length > 14 ? 4 : 2
  return (
    <div class="histogram">
      <svg
        role="img"
        aria-label={`Durations of ${processing.count.toLocaleString()} attempts`}
        viewBox={`0 0 ${width} ${height + 34}`}
        width={width}
        height={height + 34}
      >
        {drawn.map(({ count, from, to }, place) => {
          const tall = count === 0 ? 0 : Math.max(2, (count / highest) * height)
          return (
            <g key={to}>
              <title>{`${measured(from)} to ${measured(to)}: ${count.toLocaleString()}`}</title>
              <rect class="ground" x={place * pitch} y="14" width={bar} height={height} />
              <rect class="count" x={place * pitch} y={14 + height - tall} width={bar} height={tall} />
              {place % every === 0 ? (
                <text x={place * pitch} y={height + 30}>
                  {shortSpan(to)}
                </text>
              ) : null}
            </g>
          )
        })}
        {marks.map(({ name, x }) => (
          <g key={name} class="mark">
            <path d={`M${x} 12v${height + 2}`} />
            <text x={x} y="10">
              {name}
            </text>
          </g>
        ))}
      </svg>
      <p class="quiet small">
        {processing.count.toLocaleString()} attempts, longest {processing.max === null ? "–" : measured(processing.max)}
        . Logarithmic scale: each bar covers 1.4 times the duration of the previous one.
      </p>
    </div>
  )
}
