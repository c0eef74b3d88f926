import { DatabaseUnavailable } from "../../database/DatabaseError.js"
import { drawn } from "./Seed.js"

// What goes wrong between a process and its database. Each fault has a name (who, which call, the how-manieth of it), so
// that a plan can also say exactly which faults there are to be.

/**
 * `refused`: nothing was done. `lost`: it was done, and the answer did not arrive. `slow`: it is done after seconds.
 * `unheard`: a notification that did not arrive.
 */
export type FaultKind = "refused" | "lost" | "slow" | "unheard"

export interface Fault {
  readonly who: string
  readonly call: string
  /** Which of this process's calls of this sort, from 1. */
  readonly nth: number
  readonly kind: FaultKind
}

/** How likely each is, from 0 to 1, at every call. */
export interface FaultRates {
  readonly refused: number
  readonly lost: number
  readonly slow: number
  readonly unheard: number
}

export const noFaults: FaultRates = { refused: 0, lost: 0, slow: 0, unheard: 0 }

const nameOf = ({ call, nth, who }: Omit<Fault, "kind">) => `${who} ${call} ${nth}`

export const refusal = (nothingWritten: boolean) =>
  new DatabaseUnavailable({ detail: nothingWritten ? "simulated: refused" : "simulated: reply lost", nothingWritten })

/** Decides about every call, and remembers what it decided. */
export class Faults {
  private readonly counts = new Map<string, number>()
  private readonly planned: ReadonlyMap<string, FaultKind> | undefined
  private readonly cutOff = new Map<string, number>()
  private readonly struck: Array<Fault> = []
  private over = false

  /** `planned` says which faults there are; else they are drawn. */
  constructor(
    private readonly seed: number,
    private readonly rates: FaultRates,
    planned: ReadonlyArray<Fault> | undefined
  ) {
    this.planned = planned === undefined ? undefined : new Map(planned.map((fault) => [nameOf(fault), fault.kind]))
  }

  /** Those that struck, in their order. */
  get injected(): ReadonlyArray<Fault> {
    return this.struck
  }

  get areOver(): boolean {
    return this.over
  }

  /** Nothing goes wrong any more. */
  end(): void {
    this.over = true
    this.cutOff.clear()
  }

  /** The database cannot be reached by this process, or by any, until it can be again. */
  cut(who: string): void {
    if (!this.over) this.cutOff.set(who, (this.cutOff.get(who) ?? 0) + 1)
  }

  mend(who: string): void {
    const left = (this.cutOff.get(who) ?? 0) - 1
    if (left > 0) this.cutOff.set(who, left)
    else this.cutOff.delete(who)
  }

  isCutOff(who: string): boolean {
    return this.cutOff.has(everybody) || this.cutOff.has(who) || this.cutOff.has(who.replace(/\..*/, ""))
  }

  /** The next call of this sort. */
  strike(who: string, call: string, kinds: "call" | "hint"): { readonly nth: number; readonly kind?: FaultKind } {
    const counted = `${who} ${call}`
    const nth = (this.counts.get(counted) ?? 0) + 1
    this.counts.set(counted, nth)
    if (this.over) return { nth }
    const named = { who, call, nth }
    const kind = this.planned === undefined ? this.draw(nameOf(named), kinds) : this.planned.get(nameOf(named))
    if (kind === undefined) return { nth }
    this.struck.push({ ...named, kind })
    return { nth, kind }
  }

  /** How long something takes, in milliseconds: next to nothing as a rule, and sometimes a little. */
  delay(name: string): number {
    const chance = drawn(this.seed, `delay ${name}`)
    if (chance < 0.5) return 0
    return chance < 0.95 ? Math.ceil((chance - 0.5) * 10) : Math.floor((chance - 0.95) * 1_000)
  }

  slowness(name: string): number {
    return 1_000 + Math.floor(drawn(this.seed, `slow ${name}`) * 14_000)
  }

  private draw(name: string, kinds: "call" | "hint"): FaultKind | undefined {
    const chance = drawn(this.seed, name)
    const { lost, refused, slow, unheard } = this.rates
    if (kinds === "hint") return chance < unheard ? "unheard" : undefined
    if (chance < refused) return "refused"
    if (chance < refused + lost) return "lost"
    return chance < refused + lost + slow ? "slow" : undefined
  }
}

/** Stands for every process, where one is named. */
export const everybody = "everybody"
