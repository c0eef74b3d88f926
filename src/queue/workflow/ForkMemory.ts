import { Effect, type Either } from "effect"
import { erasedAtOf, subjectMeta, subjectOf } from "../../core/Subject.js"
import type { JobRow } from "../JobRowMemory.js"
import type { JobTable } from "../JobTableMemory.js"
import type { Queue } from "../Queue.js"
import { jobOf } from "./ExecutionJob.js"
import { isUndone, reopenedAt } from "./ReopenedJournal.js"
import { numberOf, signalOf } from "./SignalValues.js"
import * as SignalValuesMemory from "./SignalValuesMemory.js"
import { ExecutionExists, type ExecutionNotFound, StepNotFound } from "./WorkflowErrors.js"
import { erasedSource, type Workflows } from "./Workflows.js"
import type { WorkflowTable } from "./WorkflowTableMemory.js"

/** Starts a new execution with the journal of another before a step. */
export const make =
  (
    jobs: typeof JobTable.Service,
    table: typeof WorkflowTable.Service,
    queue: typeof Queue.Service,
    find: (execution: string) => Either.Either<JobRow, ExecutionNotFound>
  ): (typeof Workflows.Service)["fork"] =>
  (execution, step, { as } = {}) =>
    Effect.gen(function* () {
      const row = yield* find(execution)
      const meta: unknown = JSON.parse(row.meta ?? "{}")
      const erasedAt = erasedAtOf(meta)
      if (erasedAt !== undefined) return yield* erasedSource(row.id, erasedAt)
      const source = row.dedupe?.key ?? execution
      const steps = table.stepsOf(row.id)
      const first = steps.find(({ name }) => name === step)
      const known = [...new Set(steps.map(({ name }) => name))]
      if (first === undefined) return yield* new StepNotFound({ execution, step, known })
      const now = yield* jobs.atomically((instant) => instant)
      const name = as ?? `${source}:fork:${jobs.ids.job(now)}`
      const [answer] = yield* queue.enqueue([
        jobOf({
          execution: name,
          kind: row.kind,
          version: row.version,
          queue: row.queue,
          payload: JSON.parse(row.payload),
          attempts: row.attempts,
          priority: row.priority,
          key: row.key,
          meta: { forkOf: source, forkFrom: step, ...subjectMeta(subjectOf(meta)) }
        })
      ])
      if (answer === undefined) return yield* Effect.dieMessage("the queue returned no result")
      if (answer.outcome !== "enqueued") return yield* new ExecutionExists({ execution: name })
      yield* jobs.atomically(() => {
        table.setSteps(
          answer.id,
          steps
            .filter(({ kind, sequence }) => sequence < first.sequence && kind !== "undo")
            .map((each) => (isUndone(each, steps) ? reopenedAt(each, now) : each))
        )
        const signals = table
          .deferredsOf(source)
          .filter(({ kind }) => kind === "signal" || kind === "value")
          .filter(({ arrived, completedAt }) => completedAt !== undefined || arrived !== undefined)
        const early = table
          .deferredsOf(name)
          .filter(({ kind }) => kind === "signal" || kind === "value")
          .toSorted((a, b) => numberOf(a) - numberOf(b))
        table.setDeferreds(
          name,
          signals.map((each) => ({ ...each, execution: name, waiting: false }))
        )
        // Values that arrived for the new execution follow those of its source.
        for (const each of early) {
          const value = { execution: name, name: signalOf(each), exit: each.exit, id: each.valueId }
          SignalValuesMemory.put(table, value, now)
        }
        table.lifetimes.forked(row.id, answer.id)
        table.setTags(answer.id, table.tagsOf(row.id))
        const created = jobs.get(answer.id)
        // The first run must read the journal.
        if (created !== undefined) jobs.put({ ...created, woken: 1 })
      })
      return { id: answer.id, execution: name }
    })
