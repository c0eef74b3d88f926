import { useEffect, useState } from "preact/hooks"

// How every page shows times. The browser remembers the choice.

/** Relative to now, or as a time in the browser's zone or in UTC. */
export type TimeStyle = "relative" | "local" | "utc"

export const timeStyles: ReadonlyArray<TimeStyle> = ["relative", "local", "utc"]

export const timeStyleNames: Readonly<Record<TimeStyle, string>> = {
  relative: "Time: relative",
  local: "Time: local",
  utc: "Time: UTC"
}

const key = "nightshift.time"

const read = (): TimeStyle => {
  try {
    const kept = localStorage.getItem(key)
    return timeStyles.find((style) => style === kept) ?? "relative"
  } catch {
    // A browser that blocks storage.
    return "relative"
  }
}

let style: TimeStyle | undefined

export const chosenTimeStyle = (): TimeStyle => {
  style ??= read()
  return style
}

export const chooseTimeStyle = (next: TimeStyle): void => {
  style = next
  localStorage.setItem(key, next)
  dispatchEvent(new Event("timechange"))
}

/** Renders again when the choice changes. */
export const useTimeStyle = (): TimeStyle => {
  const [shown, setShown] = useState(chosenTimeStyle)
  useEffect(() => {
    const listen = () => setShown(chosenTimeStyle())
    addEventListener("timechange", listen)
    return () => removeEventListener("timechange", listen)
  }, [])
  return shown
}
