import { useMemo, useState } from "preact/hooks"
import { refine, useRoute } from "../Route"
import { useTick } from "./Time"

export const ranges = { "5 m": 300, "30 m": 1_800, "3 h": 10_800, "24 h": 86_400, "7 d": 604_800 } as const
export type RangeName = keyof typeof ranges

export interface Range {
  readonly name: RangeName | "zoomed"
  readonly query: { readonly since: string; readonly until: string }
  readonly choose: (name: RangeName) => void
  readonly zoom: (range: { since: number; until: number } | undefined) => void
}

const iso = (seconds: number) => new Date(seconds * 1000).toISOString()

const isName = (text: string | null): text is RangeName => text !== null && text in ranges

interface Zoom {
  readonly since: number
  readonly until: number
}

const zoomOf = (query: URLSearchParams): Zoom | undefined => {
  const [since, until] = [query.get("from"), query.get("to")].map((text) => Date.parse(text ?? "") / 1000)
  return since === undefined || until === undefined || !(since < until) ? undefined : { since, until }
}

/** The range in the URL, so that links keep it and Back undoes a zoom. */
export const useAddressRange = (): Range => {
  const route = useRoute()
  const named = route.query.get("range")
  return useWindow(isName(named) ? named : "30 m", zoomOf(route.query), (name, zoomed) =>
    refine(route, {
      range: name === "30 m" ? undefined : name,
      from: zoomed === undefined ? undefined : iso(Math.floor(zoomed.since)),
      to: zoomed === undefined ? undefined : iso(Math.ceil(zoomed.until))
    })
  )
}

/** The range of one part of a page. */
export const useRange = (): Range => {
  const [{ name, zoomed }, set] = useState<{ name: RangeName; zoomed: Zoom | undefined }>({
    name: "30 m",
    zoomed: undefined
  })
  return useWindow(name, zoomed, (name, zoomed) => set({ name, zoomed }))
}

/** The time range of charts: a moving window, or a zoomed range. */
const useWindow = (
  name: RangeName,
  zoomed: Zoom | undefined,
  change: (name: RangeName, zoomed: Zoom | undefined) => void
): Range => {
  // Advance every ten seconds, not on every tick.
  const now = Math.floor(useTick() / 10_000) * 10
  const query = useMemo(
    () =>
      zoomed === undefined
        ? { since: iso(now - ranges[name]), until: iso(now + 10) }
        : { since: iso(Math.floor(zoomed.since)), until: iso(Math.ceil(zoomed.until)) },
    [name, zoomed?.since, zoomed?.until, now]
  )
  return {
    name: zoomed === undefined ? name : "zoomed",
    query,
    choose: (chosen) => change(chosen, undefined),
    zoom: (range) => change(name, range)
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
