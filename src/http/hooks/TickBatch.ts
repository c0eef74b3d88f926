/**
 * Holds what arrives in one turn of the event loop, and lets it go on together: a fiber and a way to the database for all
 * that came with one look at the sockets cost hardly more than for one. Nobody waits for anybody who is not there yet.
 */
export class TickBatch<Target, A> {
  private waiting = new Map<Target, Array<A>>()

  constructor(private readonly release: (target: Target, arrived: ReadonlyArray<A>) => void) {}

  add(target: Target, arrived: A): void {
    if (this.waiting.size === 0) setImmediate(this.letGo)
    const others = this.waiting.get(target)
    if (others === undefined) this.waiting.set(target, [arrived])
    else others.push(arrived)
  }

  private readonly letGo = (): void => {
    const waiting = this.waiting
    this.waiting = new Map()
    for (const [target, arrived] of waiting) this.release(target, arrived)
  }
}
