import { Effect, Schedule } from "effect"
import { Leadership } from "../../cluster/Leadership.js"
import type { Step } from "../../core/Loop.js"
import type { Term } from "../../core/Term.js"
import { Queue } from "../../queue/Queue.js"
import { ClusterConfig } from "../ClusterConfig.js"
import { JanitorConfig } from "./Janitor.js"
import type { LeaderLoop } from "./Leader.js"

/** One thing that the leader forgets, in bounded batches whose transactions assert its term. */
export interface CleanupStep {
  readonly name: string
  readonly run: (term: Term) => Step["run"]
}

/** Jobs that finished longer ago than their queue keeps them. */
export const finishedJobs: Effect.Effect<CleanupStep, never, Queue | Leadership | JanitorConfig> = Effect.gen(
  function* () {
    const queue = yield* Queue
    const leadership = yield* Leadership
    const { doneRetention } = yield* JanitorConfig
    return {
      name: "jobs",
      run: (term) => Effect.map(queue.purge(doneRetention, leadership.assertTerm(term)), (purged) => ({ ...purged }))
    }
  }
)

/** Where there is much to forget, it is forgotten at leisure. */
const patience = "10 minutes"

/** Forgets what is past its retention, so that no table grows for ever. */
export const make = (steps: ReadonlyArray<CleanupStep>): Effect.Effect<LeaderLoop, never, ClusterConfig> =>
  Effect.map(ClusterConfig, ({ cleanupInterval }) => (term) => ({
    name: "cleanup",
    about: "forgetting what is past its retention",
    schedule: Schedule.spaced(cleanupInterval),
    runAtStart: true,
    steps: steps.map(({ name, run }) => ({ name, timeout: patience, run: run(term) }))
  }))
