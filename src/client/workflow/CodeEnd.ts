import type { ClaimedExecution } from "../../queue/Queue.js"
import type { AskHandlers } from "./AskHandlers.js"
import type { Replay } from "./Replay.js"

/** The run whose code ends. */
export interface EndHost {
  /** Whether the run has ended, or is about to without the code. */
  readonly isOver: boolean
  readonly execution: Pick<ClaimedExecution, "cut">
  readonly asks: AskHandlers
  readonly replay: Replay | undefined
  /** Checks in the next turn of the event loop whether the run can continue. */
  check(): void
}

/** The end of the code: its asks are answered, and branches that still run request what is recorded. */
export class CodeEnd {
  private hasBegun = false
  private conclusion: (() => void) | undefined
  private hasConcluded = false

  constructor(private readonly host: EndHost) {}

  /** Whether answers of asks are being stored, for which the run neither suspends nor ends. */
  get isAnswering(): boolean {
    return this.hasBegun && !this.hasConcluded && this.conclusion === undefined
  }

  /**
   * The code has ended. `conclusion` follows unless the code has changed. `undoes`: it undoes steps, also those that a run
   * that was cut off may have begun.
   */
  begin(conclusion: () => void, undoes: boolean): void {
    if (this.host.isOver || this.hasBegun) return
    this.hasBegun = true
    const { asks } = this.host
    if (asks.isAnswering) void asks.settled().then(() => this.settle(conclusion, undoes))
    else this.settle(conclusion, undoes)
  }

  private settle(conclusion: () => void, undoes: boolean): void {
    const { execution, isOver, replay } = this.host
    if (isOver) return
    replay?.end()
    this.conclusion = conclusion
    if (replay?.difference() === undefined && !(undoes && execution.cut)) this.conclude()
    else this.host.check()
  }

  /** The code has requested all that is recorded. Returns whether it had ended. */
  conclude(): boolean {
    const { conclusion } = this
    if (conclusion === undefined) return false
    this.conclusion = undefined
    this.hasConcluded = true
    conclusion()
    return true
  }
}
