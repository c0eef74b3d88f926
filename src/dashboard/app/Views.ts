import * as Count from "../../core/Count.js"
import type * as Incidents from "../../core/Incidents.js"
import type { AuditPageView } from "../../http/access/AuditRoutes.js"
import type { ActionView } from "../../http/admin/ActionsRoutes.js"
import type { ChangesView } from "../../http/admin/ChangesRoutes.js"
import type { HistoryView } from "../../http/admin/HistoryView.js"
import type { KindsView, KindView } from "../../http/admin/KindsRoutes.js"
import type { LimitView } from "../../http/admin/LimitsRoutes.js"
import type { DatabaseView, DurationsView, PodsView, QueuesView, SeriesView } from "../../http/admin/MetricsRoutes.js"
import type { PodView } from "../../http/admin/PodsRoutes.js"
import type { QueueView } from "../../http/admin/QueueView.js"
import type { ScheduleView } from "../../http/admin/ScheduleView.js"
import type { SnoozeView } from "../../http/admin/SnoozesRoutes.js"
import type { BotView, DeliveryView, SourceView } from "../../http/bots/BotsRoutes.js"
import type { FleetView } from "../../http/fleet/FleetRoutes.js"
import type { EndpointView } from "../../http/jobs/EndpointView.js"
import type { EventDetailsView, EventView } from "../../http/jobs/EventView.js"
import type { ActedJob as ActedJobView, JobsPage, WaitsView } from "../../http/jobs/JobsRoutes.js"
import type { JobView } from "../../http/jobs/JobView.js"
import type { LogsView } from "../../http/jobs/LogsRoutes.js"
import type { OperationView, Total as TotalView } from "../../http/jobs/OperationView.js"
import type { View } from "../../http/jobs/ViewsRoutes.js"
import type { WhyView } from "../../http/jobs/WhyView.js"
import type { FileView, UploadsView } from "../../http/uploads/UploadsRoutes.js"
import type { ExecutionSummaryView, ExecutionView, StateCountsView } from "../../http/workflows/ExecutionView.js"

// Responses of the API, as the contract encodes them.
export type Job = typeof JobView.Encoded
export type Endpoint = typeof EndpointView.Encoded
export type PublishedEvent = typeof EventView.Encoded
export type EventDetails = typeof EventDetailsView.Encoded
export type Attempt = Job["history"][number]
export type ActedJob = typeof ActedJobView.Encoded
export type Total = typeof TotalView.Encoded
export type JobPage = typeof JobsPage.Encoded
export type SavedView = typeof View.Encoded
export type Why = typeof WhyView.Encoded
export type Queue = typeof QueueView.Encoded
export type QueueSeries = typeof QueuesView.Encoded
export type JobWaits = typeof WaitsView.Encoded
export type JobLogs = typeof LogsView.Encoded
export type LoggedLine = JobLogs["attempts"][number]["lines"][number]
export type Kinds = typeof KindsView.Encoded
export type Kind = typeof KindView.Encoded
export type Durations = typeof DurationsView.Encoded
export type Series = typeof SeriesView.Encoded
export type Latency = Series["points"][number]["total"]
export type Schedule = typeof ScheduleView.Encoded
export type ScheduleHistory = typeof HistoryView.Encoded
export type ScheduleRun = ScheduleHistory["runs"][number]
export type Pod = typeof PodView.Encoded
export type PodMeasures = typeof PodsView.Encoded
export type Limit = typeof LimitView.Encoded
export type DatabaseHealth = typeof DatabaseView.Encoded
export type Bot = typeof BotView.Encoded
export type Source = typeof SourceView.Encoded
export type Delivery = typeof DeliveryView.Encoded
export type UploadsOverview = typeof UploadsView.Encoded
export type UploadedFile = typeof FileView.Encoded
export type ExecutionSummary = typeof ExecutionSummaryView.Encoded
export type Execution = typeof ExecutionView.Encoded
export type ExecutionCounts = typeof StateCountsView.Encoded

export interface ExecutionPage {
  readonly executions: ReadonlyArray<ExecutionSummary>
  readonly next: string | null
  readonly sortedAmong: number | null
}

export type Fleet = typeof FleetView.Encoded
export type Snooze = typeof SnoozeView.Encoded
export type Changes = typeof ChangesView.Encoded
export type Change = Changes["changes"][number]
export type Action = typeof ActionView.Encoded
export type Operation = typeof OperationView.Encoded

export interface DeadGroup extends Incidents.DeadGroup {
  readonly sample: { readonly id: string }
}

export type AuditEntry = AuditPageView["entries"][number]

export const states = ["scheduled", "retrying", "pending", "running", "done", "dead", "cancelled"] as const
export type State = (typeof states)[number]

export const deadReasons = [
  "exhausted",
  "rejected",
  "cancelled",
  "undecodable",
  "unknown_kind",
  "poison",
  "not_undone"
] as const

/** A state with its reason: `dead (exhausted)`. */
export const stateText = (state: string, reason: string | null): string =>
  reason === null || reason === "cancelled" ? state : `${state} (${reason.replaceAll("_", " ")})`

/** Formats a count; `+` marks a lower bound. */
export const countText = ({ count, exact }: Total): string => `${count.toLocaleString()}${exact ? "" : "+"}`

export const { brief } = Count

/** The number of jobs in a state: `~` marks an estimate, `+` a lower bound. */
export const stateCount = (queues: ReadonlyArray<Pick<Queue, "counts">>, state: State): string =>
  Count.text(Count.sum(queues.map(({ counts }) => counts[state])), brief)

export const bytesText = (bytes: number): string => {
  if (bytes < 1024) return `${bytes} B`
  const [size, unit] = bytes >= 2 ** 30 ? [2 ** 30, "GiB"] : bytes >= 2 ** 20 ? [2 ** 20, "MiB"] : [1024, "KiB"]
  return `${(bytes / (size as number)).toFixed(1)} ${unit}`
}

export const uploadStates = ["waiting", "fetched", "acked", "expired"] as const
export type UploadState = (typeof uploadStates)[number]
