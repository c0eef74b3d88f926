import { Clock, Duration, Effect } from "effect"
import * as BytesText from "../../core/BytesText.js"
import * as DurationText from "../../core/DurationText.js"
import { Storage, type StuckWorkspace, stuckAfter } from "../../uploads/Storage.js"
import { type Check, ok, warn } from "./Check.js"

/** Maximum number of workspaces listed. */
const most = 5

const waits = ({ bytes, files, oldest, workspace }: StuckWorkspace, now: number) => {
  const age = DurationText.format(Duration.minutes(Math.floor((now - oldest) / 60_000)))
  return `${workspace} (${files === 1 ? "1 file" : `${files} files`}, ${BytesText.format(bytes)}, for ${age})`
}

/** Reports workspaces whose files are not fetched or expire unfetched. */
export const check: Check = {
  name: "uploads",
  look: Effect.gen(function* () {
    const storage = yield* Storage
    const { acked, expired, fetched, waiting } = yield* storage.counts
    const stuck = yield* storage.stuck(stuckAfter)
    const now = yield* Clock.currentTimeMillis
    const counts = `${waiting + fetched} waiting, ${acked} acknowledged`
    const findings = []
    if (stuck.length > 0) {
      const named = stuck.slice(0, most).map((workspace) => waits(workspace, now))
      const more = stuck.length > most ? ` and ${stuck.length - most} more` : ""
      const fix = "Check that the puller is running and its token is valid (`nightshift uploads tokens list`)."
      findings.push(warn(`Files are waiting too long: ${named.join(", ")}${more}.`, fix))
    }
    if (expired > 0 && expired > acked) {
      const fix = "Start a puller for every workspace that receives uploads. Files that are not acknowledged expire."
      findings.push(warn(`More files expired (${expired}) than were acknowledged (${acked}).`, fix))
    }
    return findings.length > 0 ? findings : [ok(`Files: ${counts}; none has waited longer than an hour.`)]
  })
}
