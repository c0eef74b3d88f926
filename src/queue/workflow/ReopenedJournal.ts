import type { Step } from "./Execution.js"
import type { ExecutionRecords, StoredDeferred } from "./ExecutionRecords.js"
import { nameOf } from "./Undo.js"

// The journal of a failed or cancelled execution that is retried, as `reopenFailed` of RetrySql prepares it.

/** Whether a step was undone. A step whose undo failed was not. */
export const isUndone = ({ name, outcome }: Step, all: ReadonlyArray<Step>): boolean =>
  outcome === "done" &&
  all.some((each) => each.kind === "undo" && each.outcome === "done" && each.name === nameOf(name))

/** Whether the children that a step started were undone, whether or not the step succeeded. */
const areUndone = (name: string, all: ReadonlyArray<Step>): boolean =>
  all.some((each) => each.kind === "children" && each.name === name && each.reopenedAt === undefined) &&
  all.some((each) => each.kind === "undo" && each.outcome === "done" && each.name === nameOf(name))

/** Reopens a step, unless it is already reopened. */
export const reopenedAt = (step: Step, now: number): Step => ({ ...step, reopenedAt: step.reopenedAt ?? now })

type Records = Pick<ExecutionRecords, "steps" | "deferreds" | "links">

/**
 * Reopens failed and undone steps. Deletes undos, attempts without a result, waits that did not end, signals with an invalid
 * value, and links to children that were undone.
 */
export const reopened = ({ deferreds, links, steps }: Records, now: number): Records => {
  const isKept = ({ attempt, kind, name, outcome }: Step) =>
    kind !== "undo" &&
    (outcome !== "retrying" ||
      steps.some((each) => each.name === name && each.attempt > attempt && each.outcome !== "retrying"))
  const isInvalid = ({ kind, name }: StoredDeferred) =>
    kind === "signal" &&
    steps.some(
      (step) => step.kind === kind && step.name === name && step.outcome === "failed" && step.reopenedAt === undefined
    )
  const isEnded = (each: StoredDeferred) =>
    each.kind === "children"
      ? !areUndone(each.name, steps)
      : each.arrived !== undefined || (each.completedAt !== undefined && !isInvalid(each))
  return {
    steps: steps
      .filter(isKept)
      .map((step) => (step.outcome === "failed" || isUndone(step, steps) ? reopenedAt(step, now) : step)),
    // The children of a step that was undone are started again.
    links: links.filter(({ name }) => !areUndone(name, steps)),
    // Steps that run again may lead the code past the waits.
    deferreds: deferreds.filter(isEnded).map((each) => ({
      ...each,
      waiting: false,
      // The row that counts the values of a signal stays, and its wait begins anew.
      ...(each.arrived !== undefined && (each.completedAt === undefined || isInvalid(each))
        ? { createdAt: now, dueAt: undefined, completedAt: undefined, exit: undefined }
        : {})
    }))
  }
}
