import { useEffect, useState } from "preact/hooks"

// All ages on a page update together, once a second while the tab is visible.

const listeners = new Set<() => void>()
setInterval(() => {
  if (document.visibilityState === "visible") for (const listener of listeners) listener()
}, 1000)

export const useTick = (): number => {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    const listen = () => setNow(Date.now())
    listeners.add(listen)
    return () => void listeners.delete(listen)
  }, [])
  return now
}

const units = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "min"],
  [1, "s"]
] as const

/** Formats seconds in the two largest units: `1 h 27 min`. */
export const span = (seconds: number): string => {
  if (seconds < 1) return seconds <= 0 ? "0 s" : `${Math.max(1, Math.round(seconds * 1000))} ms`
  const index = units.findIndex(([size]) => seconds >= size)
  const [size, name] = units[index] ?? units[3]
  const whole = Math.floor(seconds / size)
  const next = units[index + 1]
  const rest = next === undefined ? 0 : Math.floor((seconds - whole * size) / next[0])
  return rest === 0 || next === undefined ? `${whole} ${name}` : `${whole} ${name} ${rest} ${next[1]}`
}

/** Formats seconds in one unit: `1.5 h`. */
export const shortSpan = (seconds: number): string => {
  const [size, name] = units.find(([size]) => seconds >= size) ?? [0.001, "ms"]
  return seconds === 0 ? "0" : `${Number((seconds / size).toPrecision(2))} ${name}`
}

/** Formats measured seconds with one decimal below a minute. */
export const measured = (seconds: number): string =>
  seconds >= 1 && seconds < 60 ? `${Math.round(seconds * 10) / 10} s` : span(seconds)

// 24-hour clock, whatever the browser's language.
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" })
const exactClock = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23"
})
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" })
const longDay = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" })

/** Formats epoch seconds as a time, with seconds if `exact`. */
export const clockText = (seconds: number, exact = false): string => (exact ? exactClock : clock).format(seconds * 1000)

/** Formats epoch seconds as a day. */
export const dayText = (seconds: number): string => day.format(seconds * 1000)

/** Formats an instant with date and time in local time. */
export const instantText = (at: Date): string => `${longDay.format(at)}, ${exactClock.format(at)}`

/** Formats an instant in a time zone, or in local time if the browser does not know the zone. */
export const inZone = (at: string, timeZone: string): string => {
  const style = { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" } as const
  try {
    return new Date(at).toLocaleString(undefined, { ...style, timeZone })
  } catch {
    return new Date(at).toLocaleString(undefined, style)
  }
}

/** An instant relative to now, with the full time on hover. */
export const Age = ({ at }: { readonly at: string | null | undefined }) => {
  const now = useTick()
  if (at === null || at === undefined) return <span class="quiet">–</span>
  const seconds = (now - Date.parse(at)) / 1000
  const text = Math.abs(seconds) < 1 ? "now" : seconds >= 0 ? `${span(seconds)} ago` : `in ${span(-seconds)}`
  return (
    <time dateTime={at} title={instantText(new Date(at))}>
      {text}
    </time>
  )
}

/** An instant as a time, with the date unless it is today. */
const shortText = (at: Date): string =>
  longDay.format(at) === longDay.format(Date.now()) ? exactClock.format(at) : instantText(at)

/** An instant relative to now and as a time. */
export const Moment = ({ at }: { readonly at: string }) => (
  <>
    <Age at={at} /> <span class="quiet small">{shortText(new Date(at))}</span>
  </>
)
