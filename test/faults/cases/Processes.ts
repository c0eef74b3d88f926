import { Effect } from "effect"
import type * as Deployment from "../Deployment.js"
import type { FaultCase } from "../FaultCase.js"
import { survive } from "../Survival.js"

const none: ReadonlyArray<string> = []
const crashRecovery = ["QUEUE_STALE_AFTER", "QUEUE_REAPER_INTERVAL"] as const
const nothingLost = "No acknowledged job is lost; each ends once; transactional effects are committed exactly once."

const first = ({ pods }: Deployment.Deployment): Effect.Effect<Deployment.Pod> =>
  pods[0] === undefined ? Effect.dieMessage("no pod was started") : Effect.succeed(pods[0])

export const cases: ReadonlyArray<FaultCase> = [
  {
    name: "kill -9 of a pod that runs jobs",
    group: "processes",
    promise: nothingLost,
    recoveryLimit: crashRecovery,
    operatorSees: "Another pod logs that it took over the jobs of the lost pod",
    run: survive({
      fault: (deployment) =>
        Effect.gen(function* () {
          const victim = yield* first(deployment)
          yield* deployment.enqueue(
            Array.from({ length: 10 }, () => ({ kind: "work", payload: { ms: 3_000 } })),
            victim
          )
          yield* victim.signal("SIGKILL")
          return none
        })
    })
  }
]
