import * as Api from "./Api"
import { showError, showToast } from "./parts/Toasts"
import type { Operation } from "./Views"

// Undo restores the previous state on the server. It is refused if a job has changed since.

/** Shown before an action runs. */
export const undoText = "Can be undone for an hour."

const jobsText = (count: number) => `${count.toLocaleString()} ${count === 1 ? "job" : "jobs"}`

/** Offers to undo an action on one job. `undo` is null if nothing can be restored. */
export const showUndo = (
  text: string,
  job: { readonly id: string; readonly kind: string },
  undo: string | null,
  onRestored: () => void
): void => {
  const run = () =>
    Api.post(`jobs/${job.id}/undo`, { undo }).then(() => {
      showToast(`${job.kind} restored`)
      onRestored()
    }, showError)
  showToast(text, undo === null ? undefined : { name: "Undo", run: () => void run() })
}

const whenDone = async (operation: string): Promise<Operation> => {
  for (;;) {
    const now = await Api.get<Operation>(`operations/${operation}`)
    if (now.status !== "running") return now
    await new Promise((resolve) => setTimeout(resolve, 300))
  }
}

/** Offers to undo a bulk operation. */
export const showUndoOperation = (text: string, operation: string, onRestored: () => void): void => {
  const run = async () => {
    const begun = await Api.post<{ operation: string }>(`operations/${operation}/undo`)
    const { done, skipped } = await whenDone(begun.operation)
    const changed = skipped.changed ?? 0
    showToast(`${jobsText(done)} restored${changed === 0 ? "" : `, ${changed.toLocaleString()} changed since`}`)
    onRestored()
  }
  showToast(text, { name: "Undo", run: () => void run().catch(showError) })
}
