/**
 * Runs workflows of `@effect/workflow` on the job queue.
 *
 * @module
 */
/** The engine and the handlers that run workflows of `@effect/workflow` on the job queue. */
export * as NightshiftWorkflow from "./NightshiftWorkflow.js"
/** Streams that activities write and programs read. */
export * as WorkflowStream from "./WorkflowStream.js"
