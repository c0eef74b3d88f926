export * as Backoff from "./core/Backoff.js"
export type { JobId } from "./core/Ids.js"
export { InvalidJob } from "./core/InvalidJob.js"
export type { DeadReason, FollowUp, State, StoredJob } from "./core/Job.js"
export * as Outcome from "./core/Outcome.js"
export * as Nightshift from "./crew/Nightshift.js"
export { Database } from "./database/Database.js"
export { DatabaseConflict, type DatabaseError, DatabaseFault, DatabaseUnavailable } from "./database/DatabaseError.js"
export * as Handler from "./handlers/Handler.js"
export type { JobContext } from "./handlers/JobContext.js"
export * as Job from "./queue/Job.js"
export { JobDesk } from "./queue/JobDesk.js"
export { DedupeKeyHeld, JobIdTaken, JobNotFound, JobNotInState, QueueFull, UnknownKind } from "./queue/JobErrors.js"
export { JobSearch } from "./queue/JobSearch.js"
export { Kinds } from "./queue/Kinds.js"
export { Queue } from "./queue/Queue.js"
export {
  InvalidSetting,
  type KeyOrder,
  QueueNotFound,
  type QueueSettings,
  type QueueSettingsPatch,
  Queues
} from "./queue/QueueSettings.js"
export { Transactions } from "./queue/Transactions.js"
export { Metrics } from "./telemetry/Metrics.js"
