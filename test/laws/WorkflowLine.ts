import { Effect } from "effect"
import { never, type Suspension, type Wait } from "../../src/core/Suspension.js"
import { End } from "../../src/queue/AttemptEnd.js"
import type { ClaimedJob, HeldJob } from "../../src/queue/Queue.js"
import type { NewStep } from "../../src/queue/workflow/Execution.js"
import type { NewChild, NewExecution } from "../../src/queue/workflow/Workflows.js"
import type { Line } from "./Line.js"

/** A new execution in the law's queue. `name` is unique among the laws. */
export const executionOf = (line: Line, name = "order", more: Partial<NewExecution> = {}): NewExecution => ({
  kind: "order",
  version: 1,
  queue: line.name,
  payload: { id: name },
  attempts: 5,
  execution: `${line.name}/${name}`,
  ...more
})

export const childOf = (line: Line, name: string, more: Partial<NewChild> = {}): NewChild => ({
  kind: "ship",
  version: 1,
  queue: line.name,
  payload: { item: name },
  attempts: 5,
  execution: `${line.name}/ship/${name}`,
  ...more
})

/** Starts an execution and claims it. */
export const begin = (line: Line, name = "order", more: Partial<NewExecution> = {}) =>
  Effect.zipRight(line.workflows.start(executionOf(line, name, more)), line.claimOne)

export const step = (name: string, more: Partial<NewStep> = {}): NewStep => ({
  name,
  kind: "run",
  attempt: 1,
  sequence: 1,
  outcome: "done",
  exit: { value: name },
  startedAt: 0,
  ...more
})

/** Suspends a run that saw its execution as it was claimed. */
export const suspend = (line: Line, job: ClaimedJob, waits: ReadonlyArray<Wait>, woken = job.execution?.woken ?? 0) =>
  line.queue.finalize([{ id: job.id, lease: job.lease, linked: true, end: suspended({ woken, waits }) }])

const suspended = ({ error, waits, woken }: Suspension) =>
  End.Suspended({ woken, waits, error, runAt: Math.min(never, ...waits.flatMap(({ dueAt }) => dueAt ?? [])) })

/** The end of a run that continues with a new journal. */
export const continued = (payload: unknown = {}, version = 1) =>
  End.Suspended({
    woken: -1,
    runAt: 0,
    waits: [],
    error: undefined,
    caughtUp: true,
    continues: { payload: JSON.stringify(payload), version }
  })

/** Ends a run of an execution or of a counted job. */
export const end = (line: Line, { id, isChild, lease }: HeldJob & Pick<ClaimedJob, "isChild">, how: End) =>
  line.queue.finalize([{ id, lease, linked: true, isChild, end: how }])

export const done = (result?: unknown) =>
  End.Done({ result: result === undefined ? undefined : JSON.stringify(result) })
