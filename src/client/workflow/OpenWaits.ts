import { Effect, Fiber, Runtime } from "effect"
import type * as Suspension from "../../core/Suspension.js"
import type { Deferred } from "../../queue/workflow/Execution.js"

/** Callbacks of a wait: `onDue` at its due time, `onCompleted` when it is found to be complete. */
export interface OnWait {
  readonly onDue: (() => void) | undefined
  readonly onCompleted: ((deferred: Deferred) => void) | undefined
}

interface OpenWait extends OnWait {
  readonly wait: Suspension.Wait
  timer?: Fiber.RuntimeFiber<void>
}

/** The waits that the code of a run currently awaits. Timers run only while the execution cannot be suspended. */
export class OpenWaits {
  private readonly open = new Map<string, OpenWait>()

  constructor(
    private readonly runtime: Runtime.Runtime<never>,
    private readonly now: () => number
  ) {}

  get isEmpty(): boolean {
    return this.open.size === 0
  }

  get all(): ReadonlyArray<Suspension.Wait> {
    return [...this.open.values()].map(({ wait }) => wait)
  }

  add(wait: Suspension.Wait, on: OnWait): void {
    this.open.set(`${wait.kind} ${wait.name}`, { wait, ...on })
  }

  /** Starts timers for the waits, because the execution is not suspended now. */
  arm(): void {
    for (const [key, open] of this.open) {
      const { onDue, timer, wait } = open
      if (wait.dueAt === undefined || onDue === undefined || timer !== undefined) continue
      const due = Effect.sync(() => {
        if (this.open.get(key) !== open) return
        this.open.delete(key)
        onDue()
      })
      open.timer = this.fork(Effect.zipRight(Effect.sleep(Math.max(0, wait.dueAt - this.now())), due))
    }
  }

  /** Ends the waits that are complete. */
  complete(find: (wait: Suspension.Wait) => Deferred | undefined): void {
    for (const [key, open] of [...this.open]) {
      const deferred = find(open.wait)
      if (deferred?.completedAt === undefined || open.onCompleted === undefined) continue
      this.remove(key)
      open.onCompleted(deferred)
    }
  }

  /** Ends the waits for limits: a step of this execution can have a permit. */
  endLimits(): void {
    for (const [key, { onDue, wait }] of [...this.open]) {
      if (wait.kind !== "limit") continue
      this.remove(key)
      onDue?.()
    }
  }

  clear(): void {
    for (const key of [...this.open.keys()]) this.remove(key)
  }

  private remove(key: string): void {
    const open = this.open.get(key)
    this.open.delete(key)
    if (open?.timer !== undefined) this.fork(Fiber.interrupt(open.timer))
  }

  private fork<A, E>(effect: Effect.Effect<A, E>): Fiber.RuntimeFiber<A, E> {
    return Runtime.runFork(this.runtime)(effect)
  }
}
