import type { Wait } from "../../core/Suspension.js"
import type { Child } from "./Execution.js"

/** How often to look, in milliseconds, if a step also waits for a child that was not cancelled. */
const pollInterval = 5_000

/**
 * The waits of a cancelled execution before it undoes its own steps: the children that it started are cancelled with it, and
 * undo theirs first. So steps are undone in reverse order over the whole tree.
 */
export const waits = (children: ReadonlyArray<Child>, now: number): ReadonlyArray<Wait> => {
  // Children that an undo started belong to the undo.
  const open = children.filter(
    ({ job, name }) => (job?.status === "pending" || job?.status === "running") && !name.startsWith("undo:")
  )
  const names = new Set(open.filter(({ owned }) => owned).map(({ name }) => name))
  return [...names].map((name): Wait => {
    const isShared = open.some((child) => child.name === name && !child.owned)
    return isShared ? { kind: "children", name, dueAt: now + pollInterval } : { kind: "children", name }
  })
}
