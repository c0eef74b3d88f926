/** What a run of an execution and the slot that runs it report to each other. One per claim. */
export class RunState {
  /** Whether the run has recorded a step. Attempts and crashes before that no longer count. */
  recorded = false
  private isCancelled = false
  private listener: (() => void) | undefined

  /**
   * The execution was cancelled during this run. Returns whether the run ends by itself: it lets running steps end, so
   * that they are recorded and undone.
   */
  cancel(): boolean {
    if (this.listener === undefined) return false
    if (!this.isCancelled) this.listener()
    this.isCancelled = true
    return true
  }

  /** Calls the listener when the execution is cancelled. From then on the run ends by itself after a cancel. */
  onCancel(listener: () => void): void {
    this.listener = listener
  }
}
