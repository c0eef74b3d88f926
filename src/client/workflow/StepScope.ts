import { AsyncLocalStorage } from "node:async_hooks"
import type { WorkflowRun } from "./WorkflowRun.js"

// Which code runs inside a step, also after it has awaited something.

interface Scope {
  readonly run: WorkflowRun
  /** Undefined in the code of an undo, which may call steps. */
  readonly step: string | undefined
}

const scopes = new AsyncLocalStorage<Scope>()

/** Runs the code of a step. */
export const inside = <A>(run: WorkflowRun, step: string | undefined, code: () => A): A =>
  scopes.run({ run, step }, code)

/** The step of this run whose code makes the call. */
export const stepOf = (run: WorkflowRun): string | undefined => {
  const scope = scopes.getStore()
  return scope?.run === run ? scope.step : undefined
}
