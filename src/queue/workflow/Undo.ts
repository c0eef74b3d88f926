import * as ErrorText from "../../core/ErrorText.js"
import * as Outcome from "../../core/Outcome.js"
import type { Wait } from "../../core/Suspension.js"
import type { Child } from "./Execution.js"

// The undo of the steps of an execution that failed or was cancelled, for both kinds of workflows.

/** Names that start like this are those of undos and of the steps inside them. */
export const prefix = "undo:"

/** The name under which the undo of a step is recorded. */
export const nameOf = (step: string): string => `${prefix}${step}`

/** The name of a step that the undo of `undoing` calls. Unchanged for a step of the code. */
export const within = (undoing: string | undefined, name: string): string =>
  undoing === undefined ? name : `${nameOf(undoing)}/${name}`

export const isUndo = (name: string): boolean => name.startsWith(prefix)

/** The text of the error of a failed undo. `name`: the name under which the undo is recorded. */
export const failureText = (name: string, message: string): string =>
  `undo of ${name.slice(prefix.length)} failed: ${message}`

/** The end of an execution that has undone its steps. Without a failure it was cancelled. */
export const outcomeOf = (
  failure: { readonly message: string; readonly trace: string } | undefined,
  notUndone: ReadonlyArray<string>
): Outcome.Outcome => {
  if (failure === undefined && notUndone.length === 0) return Outcome.cancelled
  const message = [...(failure === undefined ? [] : [failure.message]), ...notUndone].join("; ")
  const text = ErrorText.joined(message, failure?.trace ?? "")
  return notUndone.length === 0 ? Outcome.dead(text) : Outcome.notUndone(text)
}

/** Poll interval in milliseconds, if a step also waits for a child that was not cancelled. */
const pollInterval = 5_000

/**
 * The waits of a cancelled execution before it undoes its own steps: the children that it started are cancelled with it, and
 * undo theirs first. So steps are undone in reverse order over the whole tree. `isOver`: the wait for the children of a step
 * has ended, because it was for the first of them.
 */
export const childrenFirst = (
  children: ReadonlyArray<Child>,
  now: number,
  isOver: (name: string) => boolean
): ReadonlyArray<Wait> => {
  // Children that an undo started belong to the undo.
  const open = children.filter(({ job, name }) => job !== undefined && job.finishedAt === undefined && !isUndo(name))
  const names = new Set(open.filter(({ owned }) => owned).map(({ name }) => name))
  return [...names].map((name): Wait => {
    if (isOver(name)) return { kind: "sleep", name: `${prefix}/children of ${name}`, dueAt: now + pollInterval }
    const isShared = open.some((child) => child.name === name && !child.owned)
    return isShared ? { kind: "children", name, dueAt: now + pollInterval } : { kind: "children", name }
  })
}
