import { useMemo } from "preact/hooks"
import { aftermath, useLiveUpdates } from "../Live"
import { refine, useRoute } from "../Route"
import { useTick } from "./Time"

const ranges = { "5 m": 300, "30 m": 1_800, "3 h": 10_800, "24 h": 86_400, "7 d": 604_800 } as const
type RangeName = keyof typeof ranges

interface Zoom {
  readonly since: number
  readonly until: number
}

export interface Range {
  readonly name: RangeName | "zoomed"
  readonly query: { readonly since: string; readonly until: string }
  readonly choose: (name: RangeName) => void
  readonly zoom: (zoom: Zoom | undefined) => void
}

/** The last multiple of `seconds` before an instant in milliseconds. */
const stepOf = (millis: number, seconds: number) => Math.floor(millis / 1000 / seconds) * seconds

const iso = (seconds: number) => new Date(seconds * 1000).toISOString()

const isoOf = ({ since, until }: Zoom) => ({ since: iso(Math.floor(since)), until: iso(Math.ceil(until)) })

const isName = (text: string | null): text is RangeName => text !== null && text in ranges

const zoomOf = (query: URLSearchParams): Zoom | undefined => {
  const [since, until] = [query.get("from"), query.get("to")].map((text) => Date.parse(text ?? "") / 1000)
  return since === undefined || until === undefined || !(since < until) ? undefined : { since, until }
}

/** The time range of the charts, kept in the URL, so that links keep it and Back undoes a zoom. */
export const useAddressRange = (): Range => {
  const route = useRoute()
  const named = route.query.get("range")
  const name = isName(named) ? named : "30 m"
  const zoomed = zoomOf(route.query)
  // Advance every ten seconds, not on every tick, and only every minute while no event arrives. Never goes back.
  const tick = useTick(true, 10_000)
  const { changedAt } = useLiveUpdates()
  const now = Math.max(stepOf(Math.min(tick, changedAt + aftermath), 10), stepOf(tick, 60))
  const query = useMemo(
    () => (zoomed === undefined ? { since: iso(now - ranges[name]), until: iso(now + 10) } : isoOf(zoomed)),
    [name, zoomed?.since, zoomed?.until, now]
  )
  const change = (name: RangeName, zoom: Zoom | undefined) => {
    const ends = zoom === undefined ? undefined : isoOf(zoom)
    refine(route, { range: name === "30 m" ? undefined : name, from: ends?.since, to: ends?.until })
  }
  return {
    name: zoomed === undefined ? name : "zoomed",
    query,
    choose: (chosen) => change(chosen, undefined),
    zoom: (zoom) => change(name, zoom)
  }
}

export const RangeButtons = ({ range }: { readonly range: Range }) => (
  <div class="row">
    {(Object.keys(ranges) as ReadonlyArray<RangeName>).map((name) => (
      <button type="button" key={name} aria-pressed={range.name === name} onClick={() => range.choose(name)}>
        {name}
      </button>
    ))}
    {range.name === "zoomed" ? (
      <button type="button" onClick={() => range.zoom(undefined)}>
        Zoom out
      </button>
    ) : null}
  </div>
)
