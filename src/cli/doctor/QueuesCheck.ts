import { Effect } from "effect"
import { Pods } from "../../cluster/Pods.js"
import { ClusterConfig } from "../../crew/ClusterConfig.js"
import * as CrewUnserved from "../../crew/loops/Unserved.js"
import { type Check, ok, warn } from "./Check.js"

const most = 20

/** Reports queues with due jobs that no live pod serves. */
export const check: Check = {
  name: "queues",
  look: Effect.gen(function* () {
    const { lease } = yield* ClusterConfig
    const live = yield* Effect.flatMap(Pods, (pods) => pods.live(lease))
    const names = yield* CrewUnserved.among(live)
    const pods = live.length === 1 ? "One pod lives" : `${live.length} pods live`
    if (names.length === 0) return [ok(`${pods}; every queue with due jobs is served.`)]
    const listed = names.slice(0, most).join(", ") + (names.length > most ? ` and ${names.length - most} more` : "")
    const served = names.slice(0, most).join(",")
    return [
      warn(
        `${pods}, and none takes the due jobs of: ${listed}.`,
        `Start one that does: nightshift serve --queues ${served}, or add them to NIGHTSHIFT_QUEUES.`
      )
    ]
  })
}
