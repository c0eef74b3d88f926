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
    const pods = live.length === 1 ? "1 pod is live" : `${live.length} pods are live`
    if (names.length === 0) return [ok(`${pods}; all queues with due jobs are served.`)]
    const listed = names.slice(0, most).join(", ") + (names.length > most ? ` and ${names.length - most} more` : "")
    const served = names.slice(0, most).join(",")
    return [
      warn(
        `${pods}, but none serves these queues with due jobs: ${listed}.`,
        `Start a pod with \`nightshift serve --queues ${served}\`, or add the queues to NIGHTSHIFT_QUEUES.`
      )
    ]
  })
}
