/// <reference lib="esnext.disposable" preserve="true" />

export type { DurationInput } from "../core/DurationInput.js"
export type { EndpointPatch, NewEndpoint, SendTo } from "../core/Endpoint.js"
export type { Issue } from "../core/Issues.js"
/** What a handler can return or throw instead of a plain result: retry, dead, throttled, snooze or cancelled. */
export * as Outcome from "../core/Outcome.js"
export type { FollowUp } from "../core/StoredJob.js"
export type { HandlerLog, LogLine } from "../handlers/PromiseContext.js"
export type { DeclaredQueues, QueueDeclaration, QueueLimits } from "../queue/settings/QueueLimits.js"
export type { TagChanges, Tags } from "../queue/workflow/Execution.js"
export type { Schedule } from "../schedule/ScheduleSettings.js"
export type { Log, LogSink } from "../telemetry/LogSink.js"
export type { AddJob, BatchAdmin, BatchOptions, BatchView } from "./BatchAdmin.js"
export { type Connect, type ConnectOptions, connect } from "./Connection.js"
export {
  type EndpointAdmin,
  type EndpointFilter,
  type EndpointView,
  type EndpointWithSecretView,
  type RotateOptions,
  type SendOptions,
  type SentWebhook,
  webhookHandler
} from "./EndpointAdmin.js"
export type {
  DedupeOptions,
  Enqueueable,
  Enqueued,
  EnqueueManyOptions,
  EnqueueOne,
  EnqueueOptions,
  JobId
} from "./Enqueue.js"
export type { ErasedView, EraseOptions } from "./Erasing.js"
export {
  type EventDefinition,
  event,
  type Publish,
  type PublishedEvent,
  type PublishOptions
} from "./EventDefinition.js"
export {
  AskFailedError,
  AskNotAnsweredError,
  AskTimeoutError,
  ChildrenFailedError,
  ExecutionEndedError,
  ExecutionNotFoundError,
  InvalidAskError,
  InvalidSignalError,
  NestedStepError,
  SignalsFullError,
  StepFailedError,
  StreamFailedError,
  StreamNotFoundError
} from "./ExecutionErrors.js"
export type { BulkAct, BulkOptions, JobAdmin, JobListOptions } from "./JobAdmin.js"
export {
  type BackoffInput,
  type Job,
  type JobOptions,
  job,
  type RetryOptions,
  type ScheduleOptions
} from "./JobDefinition.js"
export type { JobFilter } from "./JobFilter.js"
export type { AttemptView, JobView, LineView, LogView, WhyView } from "./JobView.js"
export type { Listing, ListOptions, Page } from "./Listing.js"
export {
  type MissionControl,
  type MissionControlAccess,
  type MissionControlOptions,
  missionControl
} from "./MissionControl.js"
export type { BulkPreview, OperationView } from "./OperationView.js"
export type { InstantInput } from "./Options.js"
export type { HandlerContext, TransactionContext } from "./PromiseHandler.js"
export type { PushOptions } from "./PushHandler.js"
export type { QueueAdmin, QueueChange, QueueView } from "./QueueAdmin.js"
/**
 * Rate limits that handlers share across the cluster: declare one with `RateLimit.make`, pass it to `worker` as one of its
 * `limits`, and call `acquire` of the handler's context.
 */
export * as RateLimit from "./RateLimit.js"
export type { Handler } from "./Recipe.js"
export type { ScheduleAdmin, ScheduleView } from "./ScheduleAdmin.js"
export type { Shift } from "./Shift.js"
export {
  BatchError,
  CellUnavailableError,
  ClosedError,
  DatabaseError,
  DedupeKeyHeldError,
  InvalidJobError,
  InvalidOptionError,
  InvalidPayloadError,
  InvalidResultError,
  InvalidScheduleError,
  JobCancelledError,
  JobDeadError,
  JobIdTakenError,
  JobNotFoundError,
  JobStateError,
  OperationStoppedError,
  QueueFullError,
  QueueNotFoundError,
  ResultTimeoutError,
  ScheduleBusyError,
  ScheduleNotFoundError,
  SearchTooSlowError,
  ShiftError,
  StartError,
  TransactionError
} from "./ShiftErrors.js"
export type { StandardSchema } from "./StandardSchema.js"
export { type OnOptions, on } from "./Subscriber.js"
export type { Transaction } from "./TransactionAdapter.js"
export { type Worker, type WorkerOptions, worker } from "./Worker.js"
export type { OnEvent, WorkerEvent } from "./WorkerEvents.js"
export type {
  AskAnswer,
  AskInput,
  AskName,
  AskOptions,
  AskPayload,
  AskReturn,
  AskSchema,
  AskSchemas,
  AskValue
} from "./workflow/Asks.js"
export type {
  ExecutionHandle,
  ForkOptions,
  ResultOptions,
  Startable,
  StartedExecution,
  StartOptions,
  WorkflowDefinition
} from "./workflow/ExecutionHandle.js"
export type { ExecutionFilter, ExecutionList } from "./workflow/ExecutionList.js"
export type { StreamChunk, StreamOptions } from "./workflow/ExecutionStream.js"
export type {
  ChildView,
  ExecutionSummaryView,
  ExecutionView,
  StepView,
  StreamView,
  WaitView
} from "./workflow/ExecutionView.js"
export type {
  SignalInput,
  SignalName,
  SignalOptions,
  SignalOutput,
  SignalSchemas,
  SignalValue
} from "./workflow/Signals.js"
export type {
  ChildCall,
  ChildEnd,
  ChildrenOptions,
  ChildUndoContext,
  RaceOptions,
  Step,
  StepContext,
  StepOptions,
  StepTransactionContext,
  StreamContext,
  StreamResult,
  StreamValue,
  WaitFor,
  WaitForAny,
  WaitForDeclared,
  WaitOptions
} from "./workflow/Step.js"
export type { CancelOptions, WorkflowAdmin } from "./workflow/WorkflowAdmin.js"
export { child, type Workflow, type WorkflowOptions, workflow } from "./workflow/WorkflowDefinition.js"

// After Shift: its members are documented under its name.

export type {
  AcrossCells,
  CellDeclaration,
  CellOptions,
  DividedQueue,
  FleetDeclaration,
  FleetOptions,
  FleetShift,
  NotEnqueued
} from "./FleetConnection.js"

// `await using` needs this symbol. The first releases of Node 20 do not have it.
if (Symbol.asyncDispose === undefined) {
  Object.defineProperty(Symbol, "asyncDispose", { value: Symbol.for("nodejs.asyncDispose") })
}
