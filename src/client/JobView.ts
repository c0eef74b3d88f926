import * as ErrorText from "../core/ErrorText.js"
import type { HistoryEntry, StoredJob } from "../core/StoredJob.js"
import * as Response from "../http/jobs/JobView.js"
import { LineView as LineResponse } from "../http/jobs/LogsRoutes.js"
import { WhyView as WhyResponse } from "../http/jobs/WhyView.js"
import type { LoggedLine, StoredLog } from "../queue/logs/LoggedLine.js"
import type { Why } from "../queue/why/Reason.js"
import * as PlainFields from "./PlainFields.js"

/** An attempt that did not simply succeed. */
export interface AttemptView extends PlainFields.PlainFields<HistoryEntry> {
  /** Where the error was thrown, and its causes. */
  readonly stack: string | undefined
}

/** Why a job is in its current state. */
export interface WhyView extends PlainFields.PlainFields<Why> {}

/** A line that a handler logged. */
export interface LineView extends PlainFields.PlainFields<LoggedLine> {}

/** What is stored of the log of an attempt. */
export interface LogView extends Omit<StoredLog, "lines"> {
  /** The lines, oldest first. */
  readonly lines: ReadonlyArray<LineView>
}

/** A job as it is stored. `lastError` is the message of the last error. */
export interface JobView
  extends PlainFields.PlainFields<
    Omit<StoredJob, "history" | "crashCount" | "updatedAt" | "heartbeatAt" | "onDead" | "execution">
  > {
  /** Where the last error was thrown, and its causes. */
  readonly lastErrorStack: string | undefined
  /** The last attempts that did not succeed, oldest first. */
  readonly history: ReadonlyArray<AttemptView>
}

/** @internal */
export const whyOf: (why: Why) => WhyView = PlainFields.of(WhyResponse)

const lineOf = PlainFields.of(LineResponse)

/** @internal */
export const logOf = ({ lines, ...log }: StoredLog): LogView => ({ ...log, lines: lines.map((line) => lineOf(line)) })

/** @internal */
export const errorOf = (
  text: string | undefined
): { readonly message?: string; readonly trace?: string | undefined } =>
  text === undefined ? {} : ErrorText.split(text)

const fieldsOf = PlainFields.of(Response.JobView)
const attemptFieldsOf = PlainFields.of(Response.AttemptView)

const attemptOf = (entry: HistoryEntry): AttemptView => {
  const { message, trace } = errorOf(entry.message)
  return { ...attemptFieldsOf(entry), message, stack: trace }
}

/** @internal */
export const of = (job: StoredJob): JobView => {
  const { message, trace } = errorOf(job.lastError)
  return { ...fieldsOf(job), lastError: message, lastErrorStack: trace, history: job.history.map(attemptOf) }
}
