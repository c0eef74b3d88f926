/**
 * Runs workflows of `@effect/workflow` on the job queue.
 *
 * @module
 */
export * as NightshiftWorkflow from "./NightshiftWorkflow.js"
