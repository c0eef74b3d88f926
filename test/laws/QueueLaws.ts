import { describe, layer as withLayer } from "@effect/vitest"
import type { Layer } from "effect"
import { askLaws } from "./AskLaws.js"
import { attemptLaws } from "./AttemptLaws.js"
import { batchLaws } from "./BatchLaws.js"
import { childrenLaws } from "./ChildrenLaws.js"
import { claimLaws } from "./ClaimLaws.js"
import { dedupeLaws } from "./DedupeLaws.js"
import { depthLaws } from "./DepthLaws.js"
import { endpointLaws } from "./EndpointLaws.js"
import { enqueueLaws } from "./EnqueueLaws.js"
import { erasureLaws } from "./ErasureLaws.js"
import { eventLaws } from "./EventLaws.js"
import { eventWaitLaws } from "./EventWaitLaws.js"
import { eventWindowLaws } from "./EventWindowLaws.js"
import { executionListLaws } from "./ExecutionListLaws.js"
import { finalizeLaws } from "./FinalizeLaws.js"
import { followUpLaws } from "./FollowUpLaws.js"
import { jobAdminLaws } from "./JobAdminLaws.js"
import { keyLaws } from "./KeyLaws.js"
import { kindsLaws } from "./KindsLaws.js"
import { type Clocks, type Law, lawOf, type Ports } from "./Line.js"
import { logLaws } from "./LogLaws.js"
import { operationsLaws } from "./OperationsLaws.js"
import { overviewLaws } from "./OverviewLaws.js"
import { pauseLaws } from "./PauseLaws.js"
import { queuesLaws } from "./QueuesLaws.js"
import { rateLaws } from "./RateLaws.js"
import { recoverLaws } from "./RecoverLaws.js"
import { retentionLaws } from "./RetentionLaws.js"
import { routesLaws } from "./RoutesLaws.js"
import { runningStepLaws } from "./RunningStepLaws.js"
import { searchLaws } from "./SearchLaws.js"
import { signalValueLaws } from "./SignalValueLaws.js"
import { sortLaws } from "./SortLaws.js"
import { standingLaws } from "./StandingLaws.js"
import { streamLaws } from "./StreamLaws.js"
import { tagLaws } from "./TagLaws.js"
import { undoChildrenLaws } from "./UndoChildrenLaws.js"
import { undoExecutionLaws } from "./UndoExecutionLaws.js"
import { undoLaws } from "./UndoLaws.js"
import { workflowActionLaws } from "./WorkflowActionLaws.js"
import { workflowEndLaws } from "./WorkflowEndLaws.js"
import { workflowLaws } from "./WorkflowLaws.js"
import { workflowLifetimeLaws } from "./WorkflowLifetimeLaws.js"

const chapters = {
  enqueue: enqueueLaws,
  dedupe: dedupeLaws,
  claim: claimLaws,
  finalize: finalizeLaws,
  attempts: attemptLaws,
  "follow-up": followUpLaws,
  "heartbeat, recovery and purge": recoverLaws,
  "job administration": jobAdminLaws,
  search: searchLaws,
  sort: sortLaws,
  overview: overviewLaws,
  operations: operationsLaws,
  batches: batchLaws,
  events: eventLaws,
  "endpoints of customers": endpointLaws,
  erasure: erasureLaws,
  "waits for events": eventWaitLaws,
  "events in windows": eventWindowLaws,
  undo: undoLaws,
  "undo of a requeue with children": undoChildrenLaws,
  "undo of actions on executions": undoExecutionLaws,
  kinds: kindsLaws,
  "logs of attempts": logLaws,
  routes: routesLaws,
  "queue settings": queuesLaws,
  "pauses and cool-downs": pauseLaws,
  "rate limits": rateLaws,
  "limits and order by key": keyLaws,
  retention: retentionLaws,
  depth: depthLaws,
  workflows: workflowLaws,
  "steps that run": runningStepLaws,
  "values of signals": signalValueLaws,
  asks: askLaws,
  "actions on workflows": workflowActionLaws,
  "ends of workflows": workflowEndLaws,
  "children of workflows": childrenLaws,
  "streams of workflows": streamLaws,
  "lifetimes of workflows": workflowLifetimeLaws,
  "tags of workflows": tagLaws,
  "lists of workflows": executionListLaws,
  standing: standingLaws
}

/**
 * Laws of the queue's ports. All laws share the layer and its data. `clock` says whether they run under the test clock
 * or under one that the layer sets; `advance` and `setBack` move it. `only` names chapters, `except` laws.
 */
export const queueLaws = (
  name: string,
  layer: Layer.Layer<Ports>,
  options: { readonly clock: "test" | "live" } & Clocks,
  only: ReadonlyArray<string> = Object.keys(chapters),
  except: ReadonlyArray<string> = []
): void =>
  withLayer(layer, { excludeTestServices: options.clock === "live" })(name, (it) => {
    const every = lawOf(it.effect, options)
    const law: Law = (name, story) => (except.includes(name) ? undefined : every(name, story))
    for (const [chapter, laws] of Object.entries(chapters)) {
      if (!only.includes(chapter)) continue
      describe(chapter, () => laws(law))
    }
  })
