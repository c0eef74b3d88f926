import type { Operations } from "./admin/Operations.js"
import type { Batches } from "./batch/Batches.js"
import type { Endpoints } from "./endpoints/Endpoints.js"
import type { Erasure } from "./erasure/Erasure.js"
import type { Events } from "./events/Events.js"
import type { JobAdmin } from "./JobAdmin.js"
import type { Kinds } from "./Kinds.js"
import type { JobLogs } from "./logs/JobLogs.js"
import type { Queue } from "./Queue.js"
import type { JobOverview } from "./search/JobOverview.js"
import type { JobSearch } from "./search/JobSearch.js"
import type { Queues } from "./settings/QueueSettings.js"
import type { JobDiagnosis } from "./why/JobDiagnosis.js"
import type { Workflows } from "./workflow/Workflows.js"

/** The ports over the job table. Both stores provide all of them. */
export type QueuePorts =
  | Queue
  | Queues
  | JobAdmin
  | JobSearch
  | JobOverview
  | JobDiagnosis
  | JobLogs
  | Operations
  | Batches
  | Events
  | Endpoints
  | Erasure
  | Workflows
  | Kinds
