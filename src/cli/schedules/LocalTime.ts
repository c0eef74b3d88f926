import { DateTime, Option } from "effect"

/** Formats an instant in a time zone with its UTC offset, or in UTC if the zone is unknown. */
export const format = (millis: number, timeZone: string): string =>
  Option.match(DateTime.makeZoned(millis, { timeZone }), {
    onNone: () => DateTime.formatIso(DateTime.unsafeMake(millis)),
    onSome: DateTime.formatIsoOffset
  }).replace(/\.\d{3}/, "")
