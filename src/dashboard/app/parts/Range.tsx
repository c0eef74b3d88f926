import { useMemo, useState } from "preact/hooks"
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

/** The time range of the charts: a moving window, or a zoomed range. */
export const useRange = (): Range => {
  const [name, setName] = useState<RangeName>("30 m")
  const [zoomed, setZoomed] = useState<{ since: number; until: number }>()
  // Advance every ten seconds, not on every tick.
  const now = Math.floor(useTick() / 10_000) * 10
  const query = useMemo(
    () =>
      zoomed === undefined
        ? { since: iso(now - ranges[name]), until: iso(now + 10) }
        : { since: iso(Math.floor(zoomed.since)), until: iso(Math.ceil(zoomed.until)) },
    [name, zoomed, now]
  )
  return {
    name: zoomed === undefined ? name : "zoomed",
    query,
    choose: (chosen) => {
      setZoomed(undefined)
      setName(chosen)
    },
    zoom: setZoomed
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
