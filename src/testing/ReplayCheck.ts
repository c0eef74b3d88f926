import { Effect } from "effect"
import { comparisonOf } from "../client/workflow/WorkflowDefinition.js"
import * as Suspension from "../core/Suspension.js"
import type { Handler } from "../handlers/Handler.js"
import type { JobContext } from "../handlers/JobContext.js"
import { NonDeterministicError } from "./NonDeterministicError.js"

// Workflow code that reads a clock or a random number between steps may follow its journal in one test and not in the next.
// A test therefore fails as soon as an execution departs from its journal. Most executions of a test run only once, so each
// finished execution is replayed once more.

/** Watches the executions of a test. */
export class ReplayCheck {
  private found: NonDeterministicError | undefined

  /** Wraps a handler so that its executions are checked. */
  readonly watch = <R>(handler: Handler<R>): Handler<R> => {
    if (handler.kind.workflow !== true) return handler
    const compare = comparisonOf(handler)
    const note = (job: JobContext, difference: string | undefined) => {
      if (difference !== undefined) this.found ??= new NonDeterministicError(job.execution?.id ?? job.id, difference)
    }
    const checked =
      (run: Handler<R>["run"]): Handler<R>["run"] =>
      (payload, job) =>
        Effect.tap(run(payload, job), (value) => {
          if (Suspension.isSuspension(value)) return Effect.sync(() => note(job, value.changed))
          if (compare === undefined) return Effect.void
          const compared = compare(payload, job) as Effect.Effect<string | undefined, unknown, R>
          return Effect.map(compared, (difference) => note(job, difference))
        })
    return {
      ...handler,
      run: checked(handler.run),
      ...(handler.open === undefined ? {} : { open: Effect.map(handler.open, checked) })
    }
  }

  /** Dies if an execution has not followed its journal since the last report. */
  readonly report: Effect.Effect<void> = Effect.suspend(() => {
    const { found } = this
    this.found = undefined
    return found === undefined ? Effect.void : Effect.die(found)
  })
}
