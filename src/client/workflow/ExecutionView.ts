import { withoutTrace } from "../../core/ErrorText.js"
import * as Response from "../../http/workflows/ExecutionView.js"
import type {
  DescribedChild,
  DescribedWait,
  Execution,
  ExecutionSummary,
  Heartbeat,
  Step,
  StreamSummary
} from "../../queue/workflow/Execution.js"
import * as PlainFields from "../PlainFields.js"

/** Something that an execution waits or waited for. */
export interface WaitView extends PlainFields.PlainFields<DescribedWait> {}

/** One attempt of a step, as the journal records it. */
export interface StepView extends PlainFields.PlainFields<Step> {}

/** The last heartbeat of a step that has not ended. */
export interface HeartbeatView extends PlainFields.PlainFields<Heartbeat> {}

/** A stream of an execution. */
export interface StreamView extends PlainFields.PlainFields<StreamSummary> {}

/** A child of an execution. The fields of its job are undefined once the job was deleted. */
export interface ChildView extends PlainFields.PlainFields<Omit<DescribedChild, "result">> {}

/** An execution with everything that is stored about it. */
export interface ExecutionView
  extends PlainFields.PlainFields<
    Omit<Execution, "waits" | "steps" | "streams" | "deferreds" | "heartbeats" | "children" | "values">
  > {
  /** The last value of each name that the code has set with `step.set`. */
  readonly values: Readonly<Record<string, unknown>>
  /** Waits that have not ended. */
  readonly waits: ReadonlyArray<WaitView>
  /** The journal, in order. */
  readonly steps: ReadonlyArray<StepView>
  /** Streams that its steps write, oldest first. */
  readonly streams: ReadonlyArray<StreamView>
  /** All its waits, and signals that arrived before it waited for them. */
  readonly deferreds: ReadonlyArray<WaitView>
  /** The last heartbeats of steps that have not ended. */
  readonly heartbeats: ReadonlyArray<HeartbeatView>
  /** Jobs and executions that its steps started, in order. */
  readonly children: ReadonlyArray<ChildView>
}

/** An execution in a list, without its steps and children. */
export interface ExecutionSummaryView extends PlainFields.PlainFields<Omit<ExecutionSummary, "waits">> {
  /** Waits that have not ended. */
  readonly waits: ReadonlyArray<WaitView>
}

const fieldsOf = PlainFields.of(Response.ExecutionView)
const summaryOf = PlainFields.of(Response.ExecutionSummaryView)
const waitOf = PlainFields.of(Response.WaitView)
const stepOf = PlainFields.of(Response.StepView)
const streamOf = PlainFields.of(Response.StreamView)
const childOf = PlainFields.of(Response.ChildView)
const heartbeatOf = PlainFields.of(Response.HeartbeatView)

/** @internal */
export const of = (execution: Execution): ExecutionView => {
  const { children, deferreds, heartbeats, lastError, steps, streams, values, waits, ...fields } =
    Response.described(execution)
  return {
    ...fieldsOf(fields),
    lastError: lastError === undefined ? undefined : withoutTrace(lastError),
    values,
    waits: waits.map((wait) => waitOf(wait)),
    steps: steps.map((step) => stepOf(step)),
    streams: streams.map((stream) => streamOf(stream)),
    deferreds: deferreds.map((wait) => waitOf(wait)),
    heartbeats: heartbeats.map((beat) => heartbeatOf(beat)),
    children: children.map((child) => childOf(child))
  }
}

/** @internal */
export const ofSummary = (execution: ExecutionSummary): ExecutionSummaryView => {
  const { lastError, waits, ...fields } = Response.describedSummary(execution)
  return {
    ...summaryOf(fields),
    lastError: lastError === undefined ? undefined : withoutTrace(lastError),
    waits: waits.map((wait) => waitOf(wait))
  }
}
