import { useEffect, useState } from "preact/hooks"

// Ages of a whole page tick together, once a second while somebody looks.

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

/** Seconds as a person would say them: the two largest units. */
export const span = (seconds: number): string => {
  if (seconds < 1) return seconds <= 0 ? "0 s" : `${Math.max(1, Math.round(seconds * 1000))} ms`
  const index = units.findIndex(([size]) => seconds >= size)
  const [size, name] = units[index] ?? units[3]
  const whole = Math.floor(seconds / size)
  const next = units[index + 1]
  const rest = next === undefined ? 0 : Math.floor((seconds - whole * size) / next[0])
  return rest === 0 || next === undefined ? `${whole} ${name}` : `${whole} ${name} ${rest} ${next[1]}`
}

/** Seconds as they were measured: a tenth matters where they are compared. */
export const measured = (seconds: number): string =>
  seconds >= 1 && seconds < 60 ? `${Math.round(seconds * 10) / 10} s` : span(seconds)

// The hours of a day are counted to 24, whatever the language of the browser would say.
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" })
const exactClock = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23"
})
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" })
const longDay = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" })

/** The hour of an instant in epoch seconds, with its seconds where they tell it from its neighbours. */
export const clockText = (seconds: number, exact = false): string => (exact ? exactClock : clock).format(seconds * 1000)

/** The day of an instant in epoch seconds. */
export const dayText = (seconds: number): string => day.format(seconds * 1000)

/** An instant whole, in the time of whoever looks. */
export const instantText = (at: Date): string => `${longDay.format(at)}, ${exactClock.format(at)}`

/** An instant as the clocks of a zone show it; as ours do where this browser does not know the zone. */
export const inZone = (at: string, timeZone: string): string => {
  const style = { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" } as const
  try {
    return new Date(at).toLocaleString(undefined, { ...style, timeZone })
  } catch {
    return new Date(at).toLocaleString(undefined, style)
  }
}

/** An instant as its distance from now, whole on hover. */
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

/** An instant whole, beside its distance from now: for whoever compares it with other clocks. */
export const Moment = ({ at }: { readonly at: string }) => (
  <>
    <Age at={at} /> <span class="quiet small">{instantText(new Date(at))}</span>
  </>
)
