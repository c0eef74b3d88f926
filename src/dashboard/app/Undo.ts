import * as Api from "./Api"
import { showToast } from "./parts/Toasts"
import { isTransient, reloadAll } from "./Resource"
import type { Action, Operation } from "./Views"

// Undo restores the previous state on the server. It is refused if a job has changed since. Toasts announce actions;
// the list of recent actions undoes them, as long as the server can.

/** Shown before an action runs. */
export const undoText = "Can be undone for an hour."

const opened = "recentactions"

/** Opens the list of recent actions. */
export const openActions = (): void => void dispatchEvent(new Event(opened))

/** Calls the listener when the list is to be opened. Returns a function that unsubscribes. */
export const onOpenActions = (listener: () => void): (() => void) => {
  addEventListener(opened, listener)
  return () => removeEventListener(opened, listener)
}

/** Announces an action that the list of recent actions can undo. */
export const announce = (text: string): void => showToast(text, { name: "Recent actions", run: openActions })

/** Polls an operation until it has ended, even if the service is unreachable in between. */
export const whenEnded = async (operation: string, onProgress: (now: Operation) => void = () => {}) => {
  for (;;) {
    const now = await Api.get<Operation>(`operations/${operation}`).catch((error: Api.ApiError) => {
      if (!isTransient(error)) throw error
    })
    if (now !== undefined) {
      onProgress(now)
      if (now.status !== "running") return now
    }
    await new Promise((resolve) => setTimeout(resolve, 300))
  }
}

const jobsText = (count: number) => `${count.toLocaleString()} ${count === 1 ? "job" : "jobs"}`

const undone = async ({ text, undo }: Action): Promise<string> => {
  if (undo?.request == null) return `Can no longer be undone: ${text}`
  const answer = await Api.call<{ operation?: string }>(undo.request)
  if (answer.operation === undefined) return `Undone: ${text}`
  const { done, error, skipped, status } = await whenEnded(answer.operation)
  if (status === "failed") throw new Error(`${jobsText(done)} restored. ${error}`)
  const changed = skipped.changed ?? 0
  return `${jobsText(done)} restored${changed === 0 ? "" : `, ${changed.toLocaleString()} changed since`}`
}

/** Undoes an action, announces the result once, and reloads what is shown. */
export const undo = async (action: Action): Promise<void> => {
  try {
    showToast(await undone(action))
  } finally {
    reloadAll()
  }
}
