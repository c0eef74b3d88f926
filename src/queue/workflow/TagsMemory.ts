import { Effect, Either } from "effect"
import type { JobRow } from "../JobRowMemory.js"
import type { JobTable } from "../JobTableMemory.js"
import type { HeldJob, Queue } from "../Queue.js"
import type { TagChanges } from "./Execution.js"
import { jobOf } from "./ExecutionJob.js"
import { admitted, changed } from "./Tags.js"
import type { ExecutionNotFound, LeaseLost } from "./WorkflowErrors.js"
import type { NewExecution, Workflows } from "./Workflows.js"
import type { WorkflowTable } from "./WorkflowTableMemory.js"

/** Starts executions, with their tags, and changes the tags. */
export const make = (
  jobs: typeof JobTable.Service,
  table: typeof WorkflowTable.Service,
  queue: typeof Queue.Service,
  {
    find,
    held
  }: {
    readonly find: (execution: string) => Either.Either<JobRow, ExecutionNotFound>
    readonly held: (run: HeldJob) => Either.Either<JobRow, LeaseLost>
  }
): Pick<typeof Workflows.Service, "start" | "startInside" | "tag" | "tagHeld"> => {
  const change = <E>(row: () => Either.Either<JobRow, E>, changes: TagChanges) =>
    Effect.gen(function* () {
      yield* admitted(changes, true)
      return yield* Effect.flatten(
        jobs.atomically(() =>
          Either.flatMap(row(), ({ id }) =>
            Either.map(changed(table.tagsOf(id), changes), (after) => {
              table.setTags(id, after)
              return after
            })
          )
        )
      )
    })
  const start = (given: NewExecution) =>
    Effect.gen(function* () {
      const tags = yield* admitted(given.tags ?? {}, false)
      const [answer] = yield* queue.enqueue([jobOf(given)])
      if (answer === undefined) return yield* Effect.dieMessage("the queue returned no result")
      if (answer.outcome === "enqueued") yield* jobs.atomically(() => table.setTags(answer.id, tags))
      return answer
    })
  return {
    start,
    startInside: (_, given) => start(given),
    tag: (execution, changes) => change(() => find(execution), changes),
    tagHeld: (run, changes) => change(() => held(run), changes)
  }
}
