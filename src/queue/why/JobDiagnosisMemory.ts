import { Effect, Either, Layer } from "effect"
import { never } from "../../core/Suspension.js"
import { JobNotFound } from "../JobErrors.js"
import { isExecution, type JobRow, toStored } from "../JobRowMemory.js"
import { JobTable } from "../JobTableMemory.js"
import { fresh, type QueueRow } from "../settings/QueueRow.js"
import { QueueTable } from "../settings/QueuesMemory.js"
import { WorkflowTable } from "../workflow/WorkflowTableMemory.js"
import { diagnosisOf, JobDiagnosis, type Neighbours } from "./JobDiagnosis.js"
import { holdOf } from "./KeyHold.js"

const byId = (left: JobRow, right: JobRow) => (left.id < right.id ? -1 : 1)

const make = (
  table: typeof JobTable.Service,
  queues: typeof QueueTable.Service,
  workflows: typeof WorkflowTable.Service
): typeof JobDiagnosis.Service => {
  const waitsOf = (job: JobRow) =>
    job.status !== "pending" || !isExecution(job) || job.dedupe === undefined
      ? []
      : workflows
          .deferredsOf(job.dedupe.key)
          .filter(({ completedAt, waiting }) => waiting && completedAt === undefined)
          .sort((a, b) => (a.dueAt ?? never) - (b.dueAt ?? never))
          .flatMap(({ dueAt, kind, name, remaining }) =>
            kind === "heartbeat" ? [] : [{ dueAt, kind, name, remaining }]
          )

  const heldBy = ({ id, key, queue }: JobRow, { perKey }: QueueRow, now: number) => {
    if (key === undefined || perKey === undefined) return undefined
    const own = table.pending(queue).filter((job) => job.key === key)
    const running = table.running().filter((job) => job.queue === queue && job.key === key)
    const begun = [...running, ...own.filter(({ startedAt }) => startedAt !== undefined)].sort(byId)
    const first = own.find(({ runAt, startedAt }) => runAt <= now && startedAt === undefined)
    return holdOf({
      id,
      perKey,
      begun: begun.map((job) => ({ id: job.id, running: job.run !== undefined, runAt: job.runAt })),
      first: first?.id,
      now
    })
  }

  const neighboursOf = (job: JobRow, row: QueueRow, now: number): Neighbours => {
    if (job.status !== "pending" || job.runAt > now) {
      const leftTo = workflows.lifetimes.isParked(job) ? workflows.lifetimes.of(job.id).release : undefined
      return { waits: waitsOf(job), leftTo }
    }
    const line = table.pending(job.queue).filter(({ runAt }) => runAt <= now)
    return {
      coolingUntil: job.key === undefined ? undefined : queues.cooling.get(job.queue)?.get(job.key),
      held: heldBy(job, row, now),
      ahead: line.findIndex(({ id }) => id === job.id)
    }
  }

  return {
    of: (id) =>
      Effect.flatten(
        table.atomically((now) =>
          Either.map(
            Either.fromNullable(table.get(id), () => new JobNotFound({ id })),
            (job) => {
              const row = queues.rows.get(job.queue) ?? fresh(job.queue)
              return diagnosisOf(toStored(job, now), row, now, neighboursOf(job, row, now))
            }
          )
        )
      )
  }
}

export const layer: Layer.Layer<JobDiagnosis, never, JobTable | QueueTable | WorkflowTable> = Layer.effect(
  JobDiagnosis,
  Effect.gen(function* () {
    return make(yield* JobTable, yield* QueueTable, yield* WorkflowTable)
  })
)
