/**
 * Batches the items that arrive in one turn of the event loop, which share one fiber and one database round trip. Adds
 * no delay: a batch never waits for later items.
 */
export class TickBatch<Target, A> {
  private waiting = new Map<Target, Array<A>>()

  constructor(private readonly release: (target: Target, arrived: ReadonlyArray<A>) => void) {}

  add(target: Target, arrived: A): void {
    if (this.waiting.size === 0) setImmediate(this.flush)
    const others = this.waiting.get(target)
    if (others === undefined) this.waiting.set(target, [arrived])
    else others.push(arrived)
  }

  private readonly flush = (): void => {
    const waiting = this.waiting
    this.waiting = new Map()
    for (const [target, arrived] of waiting) this.release(target, arrived)
  }
}
