/** What runs in one run of an execution: the code of steps, and records of their results. */
export class StepBodies {
  private readonly all = new Set<Promise<unknown>>()
  private running = 0
  /** The undo that runs. An undo that calls steps may wait and then never settles. */
  undo: Promise<unknown> | undefined

  constructor(
    private readonly onEnd: () => void,
    private readonly onFault: (error: unknown) => void
  ) {}

  get areRunning(): boolean {
    return this.running > 0
  }

  run(act: () => Promise<void>): void {
    this.running += 1
    const body = act().then(() => {
      this.running -= 1
      this.onEnd()
    }, this.onFault)
    this.all.add(body)
    void body.then(() => this.all.delete(body))
  }

  runUndo(act: () => Promise<void>): void {
    this.undo = act().then(this.onEnd, this.onFault)
  }

  /** Resolves when everything that runs now has ended, except an undo. */
  settled(): Promise<unknown> {
    return Promise.allSettled(this.all)
  }
}
