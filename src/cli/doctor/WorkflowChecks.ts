import { Effect } from "effect"
import { Pods } from "../../cluster/Pods.js"
import { Database } from "../../database/Database.js"
import { longJournal } from "../../queue/workflow/LifetimeSql.js"
import * as LifetimesPg from "../../queue/workflow/LifetimesPg.js"
import { ClusterConfig } from "../../worker/ClusterConfig.js"
import { type Check, ok, warn } from "./Check.js"

/** Maximum number of executions and releases listed. */
const maxNamed = 5

const executions = (count: number) => (count === 1 ? "1 execution" : `${count} executions`)

/** Reports executions that are pinned to a release that no live process runs. */
export const pins: Check = {
  name: "pins",
  run: Effect.gen(function* () {
    const { lease } = yield* ClusterConfig
    const live = yield* Effect.flatMap(Pods, (pods) => pods.live(lease))
    const all = yield* LifetimesPg.make(yield* Database).pins
    const orphans = all.filter(({ release, workflow }) => !live.some((pod) => pod.releases[workflow] === release))
    if (orphans.length === 0) {
      const pinned = all.reduce((sum, { count }) => sum + count, 0)
      return [
        ok(
          pinned === 0
            ? "No execution is pinned to a release."
            : `${executions(pinned)} pinned to releases that live processes run.`
        )
      ]
    }
    return orphans.slice(0, maxNamed).map(({ count, executions: some, release, workflow }) => {
      const more = count > some.length ? `, and ${count - some.length} more` : ""
      return warn(
        `${executions(count)} of "${workflow}" pinned to release ${release}, which no live process runs: ${some.join(", ")}${more}.`,
        `Start a process with that release, or let the current one run them: \`nightshift workflows unpin --release ${release}\`.`
      )
    })
  })
}

/** Reports executions with a long journal, all of which every run reads and replays. */
export const journals: Check = {
  name: "journals",
  run: Effect.gen(function* () {
    const found = yield* LifetimesPg.make(yield* Database).longJournals(maxNamed)
    if (found.length === 0) return [ok(`No running execution has recorded ${longJournal} steps.`)]
    const named = found.map(({ execution, steps }) => `${execution} (${steps})`).join(", ")
    return [
      warn(
        `Executions have recorded ${longJournal} steps or more, which every run replays: ${named}.`,
        "Let their code continue with a new journal (step.continueAs), or move parts of it to children."
      )
    ]
  })
}
