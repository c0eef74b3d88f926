/** The SQL client's tag, re-exported so that programs need not install `@effect/sql`. */
export * as SqlClient from "@effect/sql/SqlClient"
/** The SQL client with PostgreSQL's own features, such as `listen` and `json`. Queries use the current transaction. */
export { PgClient } from "@effect/sql-pg/PgClient"
export { TokenNotFound, Tokens } from "./access/Tokens.js"
export { Leadership } from "./cluster/Leadership.js"
export { Pods } from "./cluster/Pods.js"
export { Shares } from "./cluster/Shares.js"
/** Delays between the attempts of a job. */
export * as Backoff from "./core/Backoff.js"
export type { DurationInput } from "./core/DurationText.js"
export { type JobId, type TokenId, UploadId, Workspace } from "./core/Ids.js"
export { InvalidJob } from "./core/InvalidJob.js"
/** What a handler can return instead of a plain result: retry, dead, throttled, snooze or cancelled. */
export * as Outcome from "./core/Outcome.js"
export type { DeadReason, FollowUp, State, StoredJob } from "./core/StoredJob.js"
export { Database } from "./database/Database.js"
export { DatabaseTime } from "./database/DatabaseClock.js"
export { DatabaseConflict, type DatabaseError, DatabaseFault, DatabaseUnavailable } from "./database/DatabaseError.js"
export { Hints } from "./database/Hints.js"
/** Erases the data of a subject: `Eraser.find` counts it, `Eraser.eraseUntil` erases it. */
export * as Eraser from "./erasure/Eraser.js"
/** The queue over several cells, each of which is a complete Nightshift. */
export * as Fleet from "./fleet/FleetClient.js"
/** Handlers that send the jobs of a kind to a URL, as signed requests. */
export * as Push from "./gateway/push/Push.js"
/** Webhooks to the endpoints of customers. */
export * as Webhook from "./gateway/push/Webhook.js"
/** The handler of the kind `cmd_exec`, which runs allowed executables on this machine. */
export * as CmdExec from "./handlers/CmdExec.js"
/** Events: declare them, publish them, and subscribe to them with handlers. */
export * as Event from "./handlers/Event.js"
/** Handlers: an Effect or an async function that runs the jobs of a kind. */
export * as Handler from "./handlers/Handler.js"
export type { JobContext } from "./handlers/JobContext.js"
/** Handlers that run jobs in long-lived child processes, written in any language. */
export * as WorkerPool from "./handlers/WorkerPool.js"
export { DatabaseHealth } from "./history/DatabaseHealth.js"
export type { HistoryPorts } from "./history/HistoryPorts.js"
export { MinuteBuckets } from "./history/MinuteBuckets.js"
export { PodSamples } from "./history/PodSamples.js"
export { QueueWaits } from "./history/QueueWaits.js"
/** A small HTTP server with `/healthz`, `/readyz` and `/metrics` for a worker. */
export * as Health from "./http/server/Health.js"
export { Operations } from "./queue/admin/Operations.js"
export { Batches } from "./queue/batch/Batches.js"
export { type Endpoint, EndpointNotFound, InvalidEndpoint } from "./queue/endpoints/Endpoint.js"
export { Endpoints } from "./queue/endpoints/Endpoints.js"
export { Erasure } from "./queue/erasure/Erasure.js"
export { EventNotFound, Events, InvalidEvent, NotSubscribed } from "./queue/events/Events.js"
export { DirectHandoff } from "./queue/handoff/DirectHandoff.js"
/** Kinds of jobs, and how to enqueue them and wait for their results. */
export * as Job from "./queue/Job.js"
export { JobAdmin } from "./queue/JobAdmin.js"
export {
  DedupeKeyHeld,
  JobCancelled,
  JobDead,
  JobIdTaken,
  JobNotFound,
  JobNotInState,
  QueueFull,
  ResultTimeout,
  UnknownKind
} from "./queue/JobErrors.js"
export { Kinds } from "./queue/Kinds.js"
export { JobLogs, type LoggedLine, type StoredLog } from "./queue/logs/JobLogs.js"
export { type Enqueued, Queue } from "./queue/Queue.js"
export { JobSearch } from "./queue/search/JobSearch.js"
export type { DeclaredQueues, QueueDeclaration, QueueLimits } from "./queue/settings/QueueDeclaration.js"
export {
  type DeclaredSettings,
  InvalidSetting,
  type KeyOrder,
  type QueueField,
  QueueNotFound,
  type QueueSettings,
  type QueueSettingsPatch,
  Queues
} from "./queue/settings/QueueSettings.js"
export { InvalidRoute, Routes } from "./queue/settings/Routes.js"
export { Transactions } from "./queue/Transactions.js"
export { Wakeups } from "./queue/Wakeups.js"
export {
  AskFailed,
  AskNotAnswered,
  AskTimedOut,
  ChildNotLinked,
  ExecutionEnded,
  ExecutionExists,
  ExecutionNotFound,
  InvalidStep,
  LeaseLost,
  SignalsFull,
  StepNotFound
} from "./queue/workflow/WorkflowErrors.js"
export { Workflows } from "./queue/workflow/Workflows.js"
export { BeyondCapacity, InvalidLimit, UnknownScope } from "./rate-limits/Limit.js"
/** Rate limits that handlers share across the cluster, for calls to services that have one. */
export * as RateLimit from "./rate-limits/RateLimit.js"
export { RateLimits } from "./rate-limits/RateLimits.js"
/** Recurring jobs, declared in code. */
export * as Schedule from "./schedule/Schedule.js"
export { PreviousRunActive, trigger as triggerSchedule } from "./schedule/ScheduledJobs.js"
export { InvalidSchedule, ScheduleExists, ScheduleNotFound } from "./schedule/ScheduleErrors.js"
export { Schedules } from "./schedule/Schedules.js"
/** Log lines as JSON or for people, by LOG_LEVEL, LOG_FORMAT and NIGHTSHIFT_MASK, or to a logger of the program. */
export * as Logging from "./telemetry/Logging.js"
export { Metrics } from "./telemetry/Metrics.js"
export { Arrival } from "./uploads/Arrival.js"
export type { Draft, WholeDraft } from "./uploads/Draft.js"
export { Storage, type Stored, type Swept } from "./uploads/Storage.js"
export type { ByteRange, NewUpload, Upload } from "./uploads/Upload.js"
export { DraftLost, InvalidUpload, QuotaExceeded, UploadNotFound, UploadTooLarge } from "./uploads/UploadErrors.js"
/** Layers that connect a program to the cluster, as a client or as a worker. */
export * as Nightshift from "./worker/Nightshift.js"
