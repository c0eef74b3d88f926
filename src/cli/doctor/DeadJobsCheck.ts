import { Clock, Duration, Effect } from "effect"
import { type KindTotals, MinuteBuckets } from "../../measures/MinuteBuckets.js"
import { type Check, ok, warn } from "./Check.js"

const hour = Duration.toMillis("1 hour")
/** Fewer dead jobs per hour are never reported. */
const few = 10
/** Warn above this multiple of the previous day's hourly mean. */
const growth = 3

const deaths = (totals: ReadonlyArray<KindTotals>) => totals.reduce((sum, { dead }) => sum + dead, 0)

/** Checks whether more jobs died than usual, from the pods' metrics. */
export const check: Check = {
  name: "deaths",
  look: Effect.gen(function* () {
    const buckets = yield* MinuteBuckets
    const now = yield* Clock.currentTimeMillis
    const recent = yield* buckets.totals({ from: now - hour, to: now + 1 })
    const before = yield* buckets.totals({ from: now - 25 * hour, to: now - hour })
    const died = deaths(recent)
    const usual = deaths(before) / 24
    const said = `${died} jobs died in the last hour (${Math.round(usual)} per hour in the day before)`
    if (died < few || died <= usual * growth) return [ok(`${said}.`)]
    const worst = recent.filter(({ dead }) => dead > 0).slice(0, 3)
    const names = worst.map(({ dead, kind, queue }) => `${kind} in ${queue} (${dead})`).join(", ")
    return [
      warn(
        `${said}: ${names}.`,
        "Find the cause with `nightshift jobs list --state dead`, fix it, then run `nightshift jobs requeue`."
      )
    ]
  })
}
