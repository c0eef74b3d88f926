import * as DurationMillis from "../../core/DurationMillis.js"

/** Reads a duration of the API, such as `30s`, `5m`, `1h30m` or `30d`, as seconds; undefined if the text is none. */
export const secondsOf = (text: string): number | undefined => {
  const millis = DurationMillis.parse(text)
  return millis === undefined || millis < 0 ? undefined : millis / 1000
}
