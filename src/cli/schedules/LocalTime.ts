import { DateTime } from "effect"

/** An instant as the clocks of a zone show it, with their distance from UTC. */
export const format = (millis: number, timeZone: string): string =>
  DateTime.formatIsoOffset(DateTime.unsafeMakeZoned(millis, { timeZone })).replace(".000", "")
