import { Duration } from "effect"
import { describe, expect, expectTypeOf, it } from "vitest"
import * as BatchAdmin from "../../src/client/BatchAdmin.js"
import * as JobView from "../../src/client/JobView.js"
import * as OperationView from "../../src/client/OperationView.js"
import * as QueueAdmin from "../../src/client/QueueAdmin.js"
import * as ScheduleAdmin from "../../src/client/ScheduleAdmin.js"
import * as ExecutionView from "../../src/client/workflow/ExecutionView.js"
import type { BatchId, JobId } from "../../src/core/Ids.js"
import type { StoredJob } from "../../src/core/StoredJob.js"
import * as QueueResponse from "../../src/http/admin/QueueView.js"
import * as ScheduleResponse from "../../src/http/admin/ScheduleView.js"
import * as BatchResponse from "../../src/http/jobs/BatchView.js"
import * as JobResponse from "../../src/http/jobs/JobView.js"
import * as OperationResponse from "../../src/http/jobs/OperationView.js"
import * as WhyResponse from "../../src/http/jobs/WhyView.js"
import * as ExecutionResponse from "../../src/http/workflows/ExecutionView.js"
import type { Operation } from "../../src/queue/admin/Operations.js"
import type { Batch } from "../../src/queue/batch/Batches.js"
import type { QueueSettings } from "../../src/queue/settings/QueueSettings.js"
import type { Execution } from "../../src/queue/workflow/Execution.js"
import type { StoredSchedule } from "../../src/schedule/StoredSchedule.js"

// Programs and HTTP clients get the same fields. Stored values of every type, with times and fields without a value.

const id = "0190f5fe-7c00-7a00-8000-000000000001" as JobId
const time = Date.UTC(2026, 0, 31, 9)
const text = "2026-01-31T09:00:00.000Z"

const job: StoredJob = {
  id,
  queue: "mail",
  kind: "greet",
  version: 2,
  payload: { runAt: 1, a: null },
  key: undefined,
  state: "retrying",
  priority: 0,
  runAt: time,
  attempt: 1,
  attempts: 3,
  crashCount: 0,
  dedupe: { key: "k", scope: "active" },
  pod: undefined,
  createdAt: time,
  updatedAt: time,
  startedAt: time,
  heartbeatAt: undefined,
  finishedAt: undefined,
  cancelRequestedAt: undefined,
  onDead: undefined,
  result: undefined,
  progress: undefined,
  lastError: "no reply\n    at send (/app/mail.ts:7:1)",
  history: [{ attempt: 1, pod: "p", startedAt: time, endedAt: time, outcome: "retry", message: "no reply" }],
  reason: undefined,
  meta: undefined,
  batch: undefined,
  execution: undefined
}

const operation: Operation = {
  id,
  action: "requeue",
  undoes: undefined,
  undoable: true,
  status: "done",
  who: "api:admin",
  reason: undefined,
  filter: { queue: "mail", since: time },
  createdAt: time,
  updatedAt: time,
  finishedAt: time,
  total: { count: 2, exact: true },
  done: 1,
  skipped: { locked: 1 },
  failed: 0,
  rehearsal: undefined,
  error: undefined
}

const schedule: StoredSchedule = {
  name: "nightly",
  kind: "greet",
  payload: null,
  cron: "0 3 * * *",
  timezone: "UTC",
  queue: undefined,
  attempts: 4,
  overlap: "allow",
  missed: "one",
  paused: false,
  origin: "code",
  edited: [],
  nextFireAt: time,
  lastFireAt: undefined,
  lastSkipAt: undefined,
  lastError: undefined,
  lastJobId: undefined,
  createdAt: time,
  updatedAt: time,
  revision: 1
}

const batch: Batch = {
  id: id as string as BatchId,
  name: undefined,
  createdAt: time,
  closedAt: undefined,
  total: 1,
  counts: { unfinished: 1, done: 0, dead: 0, cancelled: 0, deleted: 0 },
  followUp: { kind: "report", version: 1, queue: "mail", payload: {}, attempts: 3 },
  followUpId: undefined
}

const queue: QueueSettings = {
  name: "mail",
  maxWorkers: 10,
  paused: false,
  retainDone: Duration.hours(1),
  retainDead: undefined,
  backoff: { enabled: false, base: Duration.seconds(60), max: Duration.minutes(30) },
  rate: { jobs: 5, per: Duration.minutes(1) },
  perKey: undefined,
  depthCap: undefined,
  throttledUntil: time,
  throttleAttempts: 1,
  revision: 7
}

const wait = {
  kind: "signal",
  name: "approval",
  createdAt: time,
  dueAt: undefined,
  completedAt: time,
  exit: "yes",
  remaining: undefined,
  waiting: false
} as const

const execution: Execution = {
  id,
  execution: "order/A",
  workflow: "order",
  version: 1,
  queue: "mail",
  state: "waiting",
  reason: undefined,
  payload: { createdAt: 1 },
  result: undefined,
  lastError: "declined\n    at pay (/app/pay.ts:7:1)",
  createdAt: time,
  updatedAt: time,
  finishedAt: undefined,
  dueAt: time,
  continued: 2,
  pinned: "0123456789ab",
  tags: { customer: "42" },
  waits: [wait],
  stepsDone: 1,
  failedStep: undefined,
  childCounts: { done: 0, failed: 0, cancelled: 0, open: 0, deleted: 0, more: false },
  steps: [
    {
      name: "charge",
      kind: "run",
      attempt: 1,
      sequence: 0,
      outcome: "done",
      exit: { value: 1 },
      startedAt: time,
      endedAt: time,
      retryAt: undefined,
      reopenedAt: undefined
    }
  ],
  deferreds: [wait],
  unclaimed: [],
  heartbeats: [{ step: "import", attempt: 1, startedAt: time, at: time, timeoutAt: time, details: { page: 7 } }],
  values: { stage: "paid" },
  children: [{ name: "ship", position: 0, id, owned: true, job: undefined }],
  streams: [],
  parents: []
}

/** The fields of a value and of what it contains, in alphabetical order. */
const namesOf = (view: object): ReadonlyArray<string> =>
  Object.entries(view)
    .flatMap(([name, value]) => {
      if (name === "payload" || typeof value !== "object" || value === null || value instanceof Date) return [name]
      return namesOf(Array.isArray(value) ? (value[0] ?? {}) : value).map((inner) => `${name}.${inner}`)
    })
    .sort()

describe("programs and HTTP clients get the same fields", () => {
  it("of a job, and programs get the stacks of errors apart from their messages", () => {
    const view = JobView.of(job)
    expect(namesOf(view)).toEqual([...namesOf(JobResponse.of(job)), "history.stack", "lastErrorStack"].sort())
    expectTypeOf<keyof JobView.JobView>().toEqualTypeOf<keyof JobResponse.JobView | "lastErrorStack">()
    expect(view).toMatchObject({ runAt: new Date(time), payload: job.payload, key: undefined, lastError: "no reply" })
    expect(view.history).toMatchObject([{ startedAt: new Date(time), message: "no reply", stack: undefined }])
    expect(JobResponse.of(job)).toMatchObject({ runAt: text, payload: job.payload, key: null, meta: null })
  })

  it("of the reason why a job waits", () => {
    const why = { reason: "not_due", detail: "It starts later.", until: time } as const
    expect(namesOf(JobView.whyOf(why))).toEqual(namesOf(WhyResponse.of(why)))
    expect(JobView.whyOf(why).until).toEqual(new Date(time))
  })

  it("of a schedule, without a next run while it is paused", () => {
    expect(namesOf(ScheduleAdmin.viewOf(schedule))).toEqual(namesOf(ScheduleResponse.of(schedule)))
    expectTypeOf<keyof ScheduleAdmin.ScheduleView>().toEqualTypeOf<keyof ScheduleResponse.ScheduleView>()
    expect(ScheduleAdmin.viewOf(schedule)).toMatchObject({ nextFireAt: new Date(time), queue: undefined, attempts: 4 })
    expect(ScheduleResponse.of(schedule)).toMatchObject({ nextFireAt: text, queue: null, attempts: 4 })
    const paused = { ...schedule, paused: true }
    expect([ScheduleAdmin.viewOf(paused).nextFireAt, ScheduleResponse.of(paused).nextFireAt]).toEqual([undefined, null])
  })

  it("of a batch", () => {
    expect(namesOf(BatchAdmin.viewOf(batch))).toEqual(namesOf(BatchResponse.of(batch)))
    expectTypeOf<keyof BatchAdmin.BatchView>().toEqualTypeOf<keyof BatchResponse.BatchView>()
    expect(BatchAdmin.viewOf(batch).followUp).toEqual({ kind: "report", queue: "mail", id: undefined })
  })

  it("of an action on many jobs, with the filter as text", () => {
    const view = OperationView.of(operation)
    expect(namesOf(view)).toEqual(namesOf(OperationResponse.of(operation)))
    expectTypeOf<keyof OperationView.OperationView>().toEqualTypeOf<keyof OperationResponse.OperationView>()
    expect(view).toMatchObject({
      finishedAt: new Date(time),
      undoes: undefined,
      filter: { queue: "mail", since: text }
    })
  })

  it("of the settings of a queue, which HTTP clients get with their limits together", () => {
    const { limits, ...settings } = QueueResponse.settingsOf(queue)
    expect(namesOf(QueueAdmin.viewOf(queue))).toEqual(namesOf({ ...settings, ...limits }))
    expect(QueueAdmin.viewOf(queue)).toMatchObject({
      retainDone: 3_600_000,
      rate: { jobs: 5, per: 60_000 },
      throttledUntil: new Date(time)
    })
  })

  it("of an execution with its waits, steps and children", () => {
    const view = ExecutionView.of(execution)
    expect(namesOf(view)).toEqual(namesOf(ExecutionResponse.of(execution)))
    expectTypeOf<keyof ExecutionView.ExecutionView>().toEqualTypeOf<keyof ExecutionResponse.ExecutionView>()
    expect(view).toMatchObject({ payload: { createdAt: 1 }, lastError: "declined", dueAt: new Date(time) })
    expect(view.deferreds).toMatchObject([{ value: "yes", completedAt: new Date(time), dueAt: undefined }])
    expect(view.children).toMatchObject([{ step: "ship", state: undefined }])
    const listed = ExecutionView.ofSummary(execution)
    expect(namesOf(listed)).toEqual(namesOf(ExecutionResponse.ofSummary(execution)))
    expectTypeOf<keyof ExecutionView.ExecutionSummaryView>().toEqualTypeOf<
      keyof ExecutionResponse.ExecutionSummaryView
    >()
  })
})
