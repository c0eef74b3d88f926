/** What a run of an execution and the slot that runs it report to each other. One per claim. */
export class RunState {
  /** Whether the run has recorded a step. Attempts and crashes before that no longer count. */
  recorded = false
  /** The release of the code of this process. Set by the slot. */
  release: string | undefined
  private isCancelled = false
  private listener: (() => void) | undefined
  private extender: ((millis: number | undefined) => void) | undefined

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

  /** The run is alive: it may take at least this many milliseconds from now on. [the time limit of a run] */
  extend(millis?: number): void {
    this.extender?.(millis)
  }

  onExtend(extender: (millis: number | undefined) => void): void {
    this.extender = extender
  }
}
