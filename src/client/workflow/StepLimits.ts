import { Duration, Effect } from "effect"
import type { Wait } from "../../core/Suspension.js"
import { type Permit, pauseOf } from "../../queue/workflow/StepPermits.js"
import type { RunJournal } from "./RunJournal.js"
import type { StepOptions } from "./Step.js"

export interface LimitHost {
  readonly journal: RunJournal
  now(): number
  busy(act: () => Promise<void>): void
  /** A step of this execution can have a permit. */
  endLimits(): void
}

/** A step to run. */
interface Limited {
  readonly name: string
  /** The name in the code, which counts for the concurrency of the step. */
  readonly base: string
  readonly options: Pick<StepOptions<never>, "concurrency" | "limit">
}

/** What a step waits for. `askEvery`: how often it asks again in a run that is not suspended, which no call wakes. */
interface LimitWait extends Pick<Wait, "dueAt" | "limit"> {
  readonly askEvery?: number | undefined
}

const askEvery = Duration.toMillis("10 seconds")

/** The limits of the steps of a run: rate limits, and permits for steps whose concurrency is limited. */
export class StepLimits {
  /** The permits of steps that run, by the name of the step. */
  private readonly held = new Map<string, Permit>()

  constructor(
    private readonly host: LimitHost,
    /** Name of the workflow. */
    private readonly workflow: string
  ) {}

  /**
   * Undefined if the step may run now. Otherwise what it waits for: it asks again when it is woken, and at the due time. An
   * error if the limit can never grant it, because it is not declared.
   */
  async enter(step: Limited): Promise<LimitWait | Error | undefined> {
    const { journal } = this.host
    const { concurrency, limit } = step.options
    if (concurrency !== undefined) {
      const scope = `${this.workflow}/${step.base}`
      const permit = { execution: journal.execution.id, scope, step: step.name, most: concurrency }
      const turn = await journal.withRetries(journal.workflows.takePermit(journal.execution.run, permit))
      if (!turn.granted)
        return { dueAt: this.host.now() + pauseOf(permit, turn), limit: `concurrency of ${step.base}`, askEvery }
      this.held.set(step.name, permit)
    }
    if (limit === undefined) return undefined
    const { ahead, scope } = limit
    const asked = journal.services.limits.acquire(scope, 1, { ahead, inTurn: true })
    const refused = (error: Error) => Effect.succeed(error)
    const answer = await journal.withRetries(
      Effect.catchTags(asked, { UnknownScope: refused, BeyondCapacity: refused, InvalidLimit: refused })
    )
    if (!(answer instanceof Error) && answer._tag === "Granted") return undefined
    this.leave(step)
    if (answer instanceof Error) return answer
    return { dueAt: this.host.now() + Duration.toMillis(answer.after), limit: scope }
  }

  /** The step has ended. */
  leave({ name }: Pick<Limited, "name">): void {
    const permit = this.held.get(name)
    if (permit === undefined) return
    this.held.delete(name)
    this.host.busy(() => this.giveBack(permit))
  }

  /** The run has ended. An undo that waits has not. */
  leaveAll(): void {
    for (const name of [...this.held.keys()]) this.leave({ name })
  }

  private async giveBack(permit: Permit): Promise<void> {
    const { journal } = this.host
    try {
      const turn = await journal.perform(journal.workflows.returnPermit(journal.execution.run, permit))
      if (turn.ownIsNext) this.host.endLimits()
    } catch {
      // The permit is free when the lease of this run has ended.
    }
  }
}
