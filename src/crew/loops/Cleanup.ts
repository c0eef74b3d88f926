import { Effect, Schedule } from "effect"
import { Leadership } from "../../cluster/Leadership.js"
import type { Term } from "../../core/Ids.js"
import type { Step } from "../../core/Loop.js"
import { Batches } from "../../queue/batch/Batches.js"
import { Queue } from "../../queue/Queue.js"
import { ClusterConfig } from "../ClusterConfig.js"
import { JanitorConfig } from "./Janitor.js"
import type { LeaderLoop } from "./Leader.js"

/** A cleanup step of the leader. It deletes in bounded batches, and each transaction asserts the term. */
export interface CleanupStep {
  readonly name: string
  readonly run: (term: Term) => Step["run"]
}

/** Deletes finished jobs past their queue's retention. */
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

/** Deletes batches that were closed longer ago than done jobs are kept. */
export const closedBatches: Effect.Effect<CleanupStep, never, Batches | JanitorConfig> = Effect.gen(function* () {
  const batches = yield* Batches
  const { doneRetention } = yield* JanitorConfig
  return { name: "batches", run: () => Effect.map(batches.purge(doneRetention), (purged) => ({ purged })) }
})

/** Generous, because a large backlog takes many batches. */
const patience = "10 minutes"

/** Deletes data past its retention, so that no table grows without bound. */
export const make = (steps: ReadonlyArray<CleanupStep>): Effect.Effect<LeaderLoop, never, ClusterConfig> =>
  Effect.map(ClusterConfig, ({ cleanupInterval }) => (term) => ({
    name: "cleanup",
    about: "deleting data past its retention",
    schedule: Schedule.spaced(cleanupInterval),
    runAtStart: true,
    steps: steps.map(({ name, run }) => ({ name, timeout: patience, run: run(term) }))
  }))
