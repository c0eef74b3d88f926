/**
 * The abort signals of the steps of a run: one for steps without an undo, one for the others. A cancel aborts only the first:
 * a step that can be undone ends, so that it is known whether there is something to undo. Created on first use: most steps do
 * not read it, and an abort costs as much as a step.
 */
export class StepAborts {
  private readonly controllers = new Map<boolean, AbortController>()
  private readonly aborted = new Set<boolean>()

  of(canUndo: boolean): AbortSignal {
    const known = this.controllers.get(canUndo)
    if (known !== undefined) return known.signal
    const controller = new AbortController()
    if (this.aborted.has(canUndo)) controller.abort()
    this.controllers.set(canUndo, controller)
    return controller.signal
  }

  isAborted(canUndo: boolean): boolean {
    return this.aborted.has(canUndo)
  }

  abort(...which: ReadonlyArray<boolean>): void {
    for (const canUndo of which) {
      this.aborted.add(canUndo)
      this.controllers.get(canUndo)?.abort()
    }
  }
}
