import { DateTime, Option } from "effect"

/** An instant as the clocks of a zone show it, with their distance from UTC; as those of UTC do where there is no such zone. */
export const format = (millis: number, timeZone: string): string =>
  Option.match(DateTime.makeZoned(millis, { timeZone }), {
    onNone: () => DateTime.formatIso(DateTime.unsafeMake(millis)),
    onSome: DateTime.formatIsoOffset
  }).replace(/\.\d{3}/, "")
