import { DatabaseUnavailable } from "../../database/DatabaseError.js"
import { CoverageCounter, type FaultKind, type Way } from "./Coverage.js"
import { drawn } from "./Seed.js"

// Faults between a process and the database. Whether a call fails is derived from a hash of the seed, the caller, the
// operation and its index. A fault plan can also list exact faults by the same name.

/** A fault of one operation of one process. */
export interface Fault {
  /** Name of the process, such as `pod-1`. */
  readonly who: string
  /** Name of the operation, such as `Queue.claim`. */
  readonly call: string
  /** Index of this operation among the caller's operations of the same name, from 1. */
  readonly nth: number
  /** What goes wrong. */
  readonly kind: FaultKind
}

/** Probability of each fault per operation, from 0 to 1. */
export interface FaultRates {
  readonly refused: number
  readonly lost: number
  readonly slow: number
  readonly dropped: number
  /**
   * Probability for the first operation of its name in a run. It decreases with the square of the operation's index, so
   * that a rare operation is hit about as often as a frequent one.
   */
  readonly disconnected: number
  /** Like `disconnected`, for kills. Counts only operations of pods, because the client is never killed. */
  readonly killed: number
}

export const noFaults: FaultRates = { refused: 0, lost: 0, slow: 0, dropped: 0, disconnected: 0, killed: 0 }

const countedUp = (counts: Map<string, number>, name: string): number => {
  const count = (counts.get(name) ?? 0) + 1
  counts.set(name, count)
  return count
}

const nameOf = ({ call, nth, who }: Omit<Fault, "kind">) => `${who} ${call} ${nth}`

export const refusal = (nothingWritten: boolean) =>
  new DatabaseUnavailable({ detail: nothingWritten ? "simulated: refused" : "simulated: reply lost", nothingWritten })

/** Decides which operations fail, and records the injected faults. */
export class Faults {
  private readonly counts = new Map<string, number>()
  /** Number of operations by name: of all processes, and of pods. */
  private readonly total = new Map<string, number>()
  private readonly totalOfPods = new Map<string, number>()
  private readonly planned: ReadonlyMap<string, FaultKind> | undefined
  private readonly disconnected = new Map<string, number>()
  private readonly struck: Array<Fault> = []
  private over = false
  /** Counts which operations the faults hit. */
  readonly coverage = new CoverageCounter()

  /** Injects exactly the `planned` faults, or random ones if undefined. */
  constructor(
    private readonly seed: number,
    private readonly rates: FaultRates,
    planned: ReadonlyArray<Fault> | undefined,
    /** When the faults end, in epoch milliseconds. */
    private readonly endAt: number
  ) {
    this.planned = planned === undefined ? undefined : new Map(planned.map((fault) => [nameOf(fault), fault.kind]))
  }

  /** Faults injected so far, in order. */
  get injected(): ReadonlyArray<Fault> {
    return this.struck
  }

  get areOver(): boolean {
    return this.over
  }

  /** Stops all faults. */
  end(): void {
    this.over = true
    this.disconnected.clear()
  }

  /** Disconnects a process, or `allProcesses`, from the database. Calls nest. */
  disconnect(who: string): void {
    if (!this.over) this.disconnected.set(who, (this.disconnected.get(who) ?? 0) + 1)
  }

  reconnect(who: string): void {
    const left = (this.disconnected.get(who) ?? 0) - 1
    if (left > 0) this.disconnected.set(who, left)
    else this.disconnected.delete(who)
  }

  isDisconnected(who: string): boolean {
    return (
      this.disconnected.has(allProcesses) ||
      this.disconnected.has(who) ||
      this.disconnected.has(who.replace(/\..*/, ""))
    )
  }

  /** Counts an operation and returns its index and fault. A process that is not `mortal` is never killed. */
  strike(who: string, call: string, way: Way, mortal = false): { readonly nth: number; readonly kind?: FaultKind } {
    const nth = countedUp(this.counts, `${who} ${call}`)
    if (this.over) return { nth }
    const named = { who, call, nth }
    const kind =
      this.planned === undefined
        ? (this.drawTargeted(nameOf(named), call, way, mortal) ?? this.draw(nameOf(named), way))
        : this.planned.get(nameOf(named))
    // A disconnect is counted when an operation finds its process disconnected.
    this.coverage.add(way, call, 1, kind === "disconnected" ? undefined : kind)
    if (kind === undefined) return { nth }
    this.struck.push({ ...named, kind })
    return { nth, kind }
  }

  /** Returns a delay in milliseconds: usually 0 to 5, sometimes up to 50. */
  delay(name: string): number {
    const chance = drawn(this.seed, `delay ${name}`)
    if (chance < 0.5) return 0
    return chance < 0.95 ? Math.ceil((chance - 0.5) * 10) : Math.floor((chance - 0.95) * 1_000)
  }

  /** Milliseconds that a slow call takes from `now` on: at most until the faults end. */
  slowness(name: string, now: number): number {
    const drawnSlowness = 1_000 + Math.floor(drawn(this.seed, `slow ${name}`) * 14_000)
    return Math.max(0, Math.min(drawnSlowness, this.endAt - now))
  }

  /** Whether a kill or a disconnect strikes after the operation is applied, so that only the reply is missing. */
  strikesReply(name: string): boolean {
    return drawn(this.seed, `reply ${name}`) < 0.5
  }

  /** Milliseconds for which an operation's fault disconnects its process. */
  disconnectMillis(name: string): number {
    return 200 + Math.floor(drawn(this.seed, `disconnected ${name}`) * 4_000)
  }

  /** Draws a kill or a disconnect in this operation. */
  private drawTargeted(name: string, call: string, way: Way, mortal: boolean): FaultKind | undefined {
    const { disconnected, killed } = this.rates
    if (way !== "call") return undefined
    const nth = countedUp(this.total, call)
    const nthOfPods = mortal ? countedUp(this.totalOfPods, call) : 0
    if (mortal && drawn(this.seed, `kill ${name}`) < killed / nthOfPods ** 2) return "killed"
    return drawn(this.seed, `disconnect ${name}`) < disconnected / nth ** 2 ? "disconnected" : undefined
  }

  private draw(name: string, way: Way): FaultKind | undefined {
    const chance = drawn(this.seed, name)
    const { lost, refused, slow, dropped } = this.rates
    if (way === "hint") return chance < dropped ? "dropped" : undefined
    if (chance < refused) return "refused"
    if (chance < refused + lost) return "lost"
    return chance < refused + lost + slow ? "slow" : undefined
  }
}

/** Name that means every process in a plan. */
export const allProcesses = "all"
