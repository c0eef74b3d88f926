import { Duration, Effect } from "effect"
import * as DurationText from "../../core/DurationText.js"
import { DatabaseTime } from "../../database/DatabaseClock.js"
import { type Finding, ok, warn } from "./Check.js"

const name = "clock"
/** Milliseconds. With a larger offset, the logs of this machine are hard to match with job times. */
const noticeable = 1_000

const shown = (millis: number) => DurationText.format(Duration.millis(Math.round(Math.abs(millis))))

/** Compares this machine's clock with the database's, which decides when jobs run. */
export const look: Effect.Effect<ReadonlyArray<Finding>, never, DatabaseTime> = Effect.gen(function* () {
  const time = yield* DatabaseTime
  const offset = yield* time.offsetMillis
  const uncertainty = yield* time.uncertaintyMillis
  const said = `This machine's clock is ${shown(offset)} ${offset > 0 ? "behind" : "ahead of"} the database's, give or take ${shown(uncertainty)}`
  const fix =
    "Jobs use the database's time and are not affected. Enable NTP on this machine to get correct log timestamps."
  const found = Math.abs(offset) < noticeable ? ok(`${said}.`) : warn(`${said}.`, fix)
  return [{ check: name, ...found }]
})
