import { useEffect, useMemo, useState } from "preact/hooks"
import { age, measured, shortSpan, span } from "../../../core/SpanText.js"
import { chosenTimeStyle, type TimeStyle } from "../TimeStyle"

// All ages on a page update together, once a second while the tab is visible.

const listeners = new Set<() => void>()
setInterval(() => {
  if (document.visibilityState === "visible") for (const listener of listeners) listener()
}, 1000)

/** The current time, a multiple of `step` in milliseconds. With `ticks` the page follows it. */
export const useTick = (ticks = true, step = 1): number => {
  const read = () => Math.floor(Date.now() / step) * step
  const [now, setNow] = useState(read)
  useEffect(() => {
    if (!ticks) return
    const listen = () => setNow(read())
    listeners.add(listen)
    return () => void listeners.delete(listen)
  }, [ticks, step])
  return now
}

export { measured, shortSpan, span }

/** How long something took, or has taken so far: then it counts up. */
export const Elapsed = ({ from, to = null }: { readonly from: string; readonly to?: string | null }) => {
  const now = useTick(to === null)
  return <>{measured(Math.max(0, (to === null ? now : Date.parse(to)) - Date.parse(from)) / 1000)}</>
}

// 24-hour clock, whatever the browser's language.
const formatsOf = (timeZone: string | undefined) => {
  const formatOf = (options: Intl.DateTimeFormatOptions) =>
    new Intl.DateTimeFormat(undefined, { ...options, hourCycle: "h23", timeZone })
  const minutes = { hour: "2-digit", minute: "2-digit" } as const
  const date = { day: "numeric", month: "short" } as const
  return {
    clock: formatOf(minutes),
    exactClock: formatOf({ ...minutes, second: "2-digit" }),
    day: formatOf(date),
    longDay: formatOf({ ...date, year: "numeric" }),
    year: formatOf({ year: "numeric" }),
    /** Distinguishes the times of this zone from local ones. */
    mark: timeZone === undefined ? "" : ` ${timeZone}`
  }
}

const local = formatsOf(undefined)
const utc = formatsOf("UTC")
const formats = (style = chosenTimeStyle()) => (style === "utc" ? utc : local)

/** Formats epoch seconds as a time, with seconds if `exact`. */
export const clockText = (seconds: number, exact = false): string =>
  (exact ? formats().exactClock : formats().clock).format(seconds * 1000)

/** Formats epoch seconds as a day. */
export const dayText = (seconds: number): string => formats().day.format(seconds * 1000)

/** The zone of times without one: empty for local time. */
export const zoneMark = (): string => formats().mark

/** Formats an instant with date and time. */
export const instantText = (at: Date | number, style = chosenTimeStyle()): string => {
  const { exactClock, longDay, mark } = formats(style)
  return `${longDay.format(at)}, ${exactClock.format(at)}${mark}`
}

/** Formats an instant in a time zone, or in local time if the browser does not know the zone. */
export const inZone = (at: string, timeZone: string): string => {
  const style = { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" } as const
  try {
    return new Date(at).toLocaleString(undefined, { ...style, timeZone })
  } catch {
    return new Date(at).toLocaleString(undefined, style)
  }
}

/** An instant as a time, with the date unless it is today, and the year unless it is this one. */
const shortText = (at: number, style: TimeStyle): string => {
  const { day, exactClock, longDay, mark, year } = formats(style)
  const now = Date.now()
  const time = `${exactClock.format(at)}${mark}`
  if (longDay.format(at) === longDay.format(now)) return time
  return `${(year.format(at) === year.format(now) ? day : longDay).format(at)}, ${time}`
}

/** An instant in one style, with the others on hover. Give it the style as key: a time that does not tick gets old. */
const Instant = ({ at, style }: { readonly at: string; readonly style: TimeStyle }) => {
  const isRelative = style === "relative"
  const now = useTick(isRelative)
  const time = Date.parse(at)
  const title = useMemo(() => `${instantText(time, "local")}, ${instantText(time, "utc")}`, [time])
  return (
    <time dateTime={at} title={title}>
      {isRelative ? age(time, now) : shortText(time, style)}
    </time>
  )
}

/** An instant in the chosen style. */
export const Age = ({ at }: { readonly at: string | null | undefined }) => {
  if (at === null || at === undefined) return <span class="quiet">–</span>
  const style = chosenTimeStyle()
  return <Instant key={style} at={at} style={style} />
}

/** An instant relative to now and as a time, the chosen style first. */
export const Moment = ({ at }: { readonly at: string }) => {
  const other = chosenTimeStyle() === "relative" ? "local" : "relative"
  return (
    <>
      <Age at={at} />{" "}
      <span class="quiet small">
        <Instant key={other} at={at} style={other} />
      </span>
    </>
  )
}
