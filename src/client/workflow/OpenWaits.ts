import { Effect, Fiber, Runtime } from "effect"
import type * as Suspension from "../../core/Suspension.js"

/** What a wait does when it ends. */
export interface OnWait {
  /** Called at its due time. */
  readonly onDue?: (() => void) | undefined
  /** Milliseconds after which a run that is not suspended calls `onDue`, if that is before the due time. */
  readonly askEvery?: number | undefined
  /** Ends the wait if what it waits for has arrived, and returns whether it has. Called when the waits were read again. */
  readonly arrived?: (() => boolean) | undefined
  /** Another row that a suspended execution waits for. */
  readonly row?: (() => Suspension.Wait) | undefined
  /** Called when that row is due. */
  readonly onRowDue?: (() => void) | undefined
}

interface OpenWait extends OnWait {
  readonly wait: Suspension.Wait
  timer?: Fiber.RuntimeFiber<void>
}

const keyOf = ({ kind, name }: Suspension.Wait) => `${kind} ${name}`

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
    const waits = [...this.open.values()].map(({ wait }) => wait)
    const rows = [...this.open.values()].flatMap(({ row }) => row?.() ?? [])
    // Several calls may wait for the same row.
    return [...new Map([...rows, ...waits].map((wait) => [keyOf(wait), wait])).values()]
  }

  add(wait: Suspension.Wait, on: OnWait): void {
    this.open.set(keyOf(wait), { wait, ...on })
  }

  /** Starts timers for the waits, because the execution is not suspended now. */
  arm(): void {
    for (const [key, open] of this.open) {
      const { askEvery = Number.POSITIVE_INFINITY, onDue, onRowDue, row, timer, wait } = open
      const rowDueAt = onRowDue === undefined ? undefined : row?.().dueAt
      const dueAt = Math.min(wait.dueAt ?? Number.POSITIVE_INFINITY, rowDueAt ?? Number.POSITIVE_INFINITY)
      const act = dueAt === rowDueAt ? onRowDue : onDue
      if (dueAt === Number.POSITIVE_INFINITY || act === undefined || timer !== undefined) continue
      const due = Effect.sync(() => {
        if (this.open.get(key) !== open) return
        this.open.delete(key)
        act()
      })
      const pause = Math.min(askEvery, Math.max(0, dueAt - this.now()))
      open.timer = this.fork(Effect.zipRight(Effect.sleep(pause), due))
    }
  }

  /** Ends the waits whose value has arrived, the oldest first. */
  complete(): void {
    for (const [key, open] of [...this.open]) if (open.arrived?.() === true) this.remove(key)
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
