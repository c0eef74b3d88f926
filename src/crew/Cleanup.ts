import { Effect } from "effect"
import type { Step } from "../core/Loop.js"
import type { Term } from "../core/Term.js"
import { ClusterConfig } from "./ClusterConfig.js"
import type { LeadersDuty } from "./Leader.js"

/** One thing that the leader forgets, in bounded batches whose transactions assert its term. */
export interface CleanupStep {
  readonly name: string
  readonly run: (term: Term) => Step["run"]
}

/** Forgets what is past its retention, so that no table grows for ever. */
export const make = (steps: ReadonlyArray<CleanupStep>): Effect.Effect<LeadersDuty, never, ClusterConfig> =>
  Effect.map(ClusterConfig, ({ cleanupInterval }) => ({
    loop: (term) => ({
      name: "cleanup",
      about: "forgetting what is past its retention",
      every: cleanupInterval,
      atStart: true,
      steps: steps.map(({ name, run }) => ({ name, deadline: "1 minute", run: run(term) }))
    })
  }))
