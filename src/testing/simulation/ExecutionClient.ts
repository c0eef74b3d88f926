import { Effect, Exit, Option, Schedule } from "effect"
import type { JobId } from "../../core/Ids.js"
import type { Ask } from "../../queue/workflow/Asks.js"
import type { Signal, Workflows } from "../../queue/workflow/Workflows.js"
import type { Mail } from "./Chapters.js"
import type { Faults } from "./Faults.js"
import type { History } from "./History.js"

/** Retries until the database is reachable. */
export const untilReachable = <A, E extends { readonly _tag: string }, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.retry(effect, {
    while: ({ _tag }) => _tag === "DatabaseUnavailable",
    schedule: Schedule.spaced("900 millis")
  })

const between = "1700 millis"
/** How long a client waits for an answer. */
const answerTimeout = "10 seconds"
/** Until an operator lets every release run an execution. */
const untilUnpin = "5 seconds"
/** How often a client asks for an execution that is not stored after the last fault: a frozen pod may store it late. */
const lastTries = 3

/** The clients of executions: they send messages, ask, read values, and unpin. */
export class ExecutionClient {
  constructor(
    private readonly workflows: typeof Workflows.Service,
    private readonly history: History,
    private readonly faults: Faults
  ) {}

  /** Starts an execution, and does what clients do with it. */
  correspond({ asks, execution, reads, signals, unpins }: Mail, start: Effect.Effect<void>): Effect.Effect<void> {
    return Effect.gen(this, function* () {
      const [first, ...others] = signals
      if (first !== undefined) yield* this.send(first)
      yield* start
      for (const message of others) yield* Effect.delay(this.send(message), between)
      const [repeated] = asks
      for (const ask of asks) yield* this.ask(ask)
      // A second ask with the same id is not received again.
      if (repeated !== undefined) yield* this.ask(repeated)
      yield* this.read(execution, reads)
      if (unpins) yield* Effect.delay(this.unpin(execution), untilUnpin)
    })
  }

  private send(message: Signal): Effect.Effect<void> {
    return Effect.orDie(Effect.asVoid(untilReachable(this.workflows.signal(message))))
  }

  /** The execution may not be stored, or may have ended. */
  private ask(ask: Ask): Effect.Effect<void> {
    return Effect.gen(this, function* () {
      for (let last = 0; last < lastTries; last += this.faults.areOver ? 1 : 0) {
        const sent = yield* Effect.exit(untilReachable(this.workflows.ask(ask)))
        const job = this.history.jobOf(ask.execution)
        if (Exit.isSuccess(sent) && job !== undefined) return yield* this.awaitAnswer(ask, job)
        if (job !== undefined) return
        yield* Effect.sleep(between)
      }
    })
  }

  private awaitAnswer(ask: Ask, job: JobId): Effect.Effect<void> {
    const answered = Effect.timeoutOption(untilReachable(this.workflows.awaitAnswer(ask)), answerTimeout)
    return Effect.map(Effect.orDie(answered), (end) => {
      if (Option.isNone(end) || end.value === "ended") return
      const answer = "value" in end.value ? end.value.value : end.value.error.message
      this.history.answers.push({ job, asked: ask.value, answer })
    })
  }

  /** Reads the stage of an execution again and again. */
  private read(execution: string, times: number): Effect.Effect<void> {
    return Effect.gen(this, function* () {
      let last = 0
      for (let nth = 0; nth < times; nth += 1) {
        const found = yield* Effect.option(untilReachable(this.workflows.values(execution)))
        const stage = Option.isSome(found) ? Number(found.value.stage ?? 0) : last
        const job = this.history.jobOf(execution)
        if (stage < last && job !== undefined) this.history.report("values", job, `shows stage ${stage} after ${last}`)
        last = Math.max(last, stage)
        yield* Effect.sleep(between)
      }
    })
  }

  private unpin(execution: string): Effect.Effect<void> {
    return Effect.ignore(untilReachable(this.workflows.unpin({ execution })))
  }
}
