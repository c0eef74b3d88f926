import { Effect, Either, Fiber, Option, Runtime } from "effect"
import { issuesText } from "../../core/Issues.js"
import { prefixes } from "../../core/StepName.js"
import { jsonText } from "../../core/Storable.js"
import { limits } from "../../core/StoredJob.js"
import type * as Suspension from "../../core/Suspension.js"
import * as Thrown from "../../core/Thrown.js"
import { type Answer, openAsks } from "../../queue/workflow/Asks.js"
import type { StepKind } from "../../queue/workflow/Execution.js"
import * as StandardSchema from "../StandardSchema.js"
import type { AskSchema } from "./Asks.js"
import type { Replay, Stored } from "./Replay.js"
import type { RunJournal } from "./RunJournal.js"
import * as StepExit from "./StepExit.js"

// The handlers that the code has attached with `step.answer`. An ask is received when the code has stopped at its waits: that is
// recorded, and then the handler is called, in the turn of the event loop that belongs to its place in the journal. A replay
// calls it in the same place with the same value, so it may change variables of the code. The answer is not part of the
// journal: a replay calculates it again, and stores it if an earlier run was cut off before that.

/** How often a run whose steps take long looks for asks. */
const pollInterval = "1 second"

const stepPrefix = prefixes.ask

export type AskHandler = (value: unknown) => unknown

interface Attached {
  readonly handler: AskHandler
  readonly schema: AskSchema["payload"]
}

/** The run that the handlers belong to. */
export interface AskHost {
  readonly journal: RunJournal
  /** Whether the run only compares the code with its journal: nothing is written. */
  readonly isComparing: boolean
  busy(act: () => Promise<void>): void
  conclude(
    step: { readonly name: string; readonly kind: StepKind },
    stored: Stored,
    settle: (stored: Stored) => void
  ): void
  refresh(): Promise<void>
  check(): void
}

const answerOf = (stored: Stored): Answer => {
  const { error, value } = stored.exit as { readonly value?: unknown; readonly error?: Error }
  return error === undefined ? { value: value ?? null } : { error: { name: error.name, message: error.message } }
}

export class AskHandlers {
  private readonly attached = new Map<string, Attached>()
  /** Rows of asks that this run has received, or that are recorded. */
  private readonly received = new Set<string>()
  /** Rows of asks whose handler was called and whose answer is not stored. */
  private readonly open = new Set<string>()
  private readonly answers = new Set<Promise<void>>()
  private timer: Fiber.RuntimeFiber<void> | undefined

  constructor(
    private readonly host: AskHost,
    private readonly runtime: Runtime.Runtime<never>
  ) {}

  get isAttached(): boolean {
    return this.attached.size > 0
  }

  /** What an execution waits for that awaits nothing but asks. */
  get waits(): ReadonlyArray<Suspension.Wait> {
    return [...this.attached.keys()].map((name) => ({ kind: "answer", name }))
  }

  /** Whether handlers have been called whose answers may be about to be stored. */
  get isAnswering(): boolean {
    return this.open.size > 0
  }

  attach(name: string, schema: AskSchema["payload"], handler: AskHandler, replay: Replay): void {
    const isNew = !this.attached.has(name)
    this.attached.set(name, { handler, schema })
    if (!isNew) return
    replay.attached(name)
    for (const step of replay.asks(name)) {
      this.received.add(step.name.slice(stepPrefix.length))
      replay.request(step, () => this.call(step.name.slice(stepPrefix.length), name, StepExit.recordedValue(step)))
    }
    // The first run has not read its asks.
    this.host.busy(async () => {
      await this.host.journal.known()
      this.host.check()
    })
  }

  /** Receives the asks that have arrived. The code has stopped at its waits. Returns whether there was one. */
  receive(): boolean {
    const asks = openAsks(this.host.journal.waits).filter(
      ({ name, row }) => this.attached.has(name) && !this.received.has(row)
    )
    for (const ask of asks) {
      this.received.add(ask.row)
      this.host.busy(() => this.accept(ask.row, ask.name, ask.value))
    }
    return asks.length > 0
  }

  private async accept(row: string, name: string, value: unknown): Promise<void> {
    const stored = await this.validated(name, value).catch((error: unknown) => StepExit.ofError(Thrown.plain(error)))
    if (stored.outcome === "failed") return this.store(row, answerOf(stored))
    const exit = { ...(stored.exit as object), ask: name }
    this.host.conclude({ name: `${stepPrefix}${row}`, kind: "ask" }, { ...stored, exit }, (recorded) =>
      this.call(row, name, StepExit.recordedValue(recorded))
    )
  }

  /** The value to record. Rejects if it is invalid, and with what a validator throws. */
  private async validated(name: string, value: unknown): Promise<Stored> {
    const { schema } = this.attached.get(name) ?? {}
    const checking = schema === undefined ? { value } : StandardSchema.check(schema, value)
    const checked: StandardSchema.Checked<unknown> = await checking
    if (checked.issues !== undefined) {
      const message = `The value is invalid: ${issuesText("value", checked.issues)}.`
      throw Object.assign(new Error(message), { name: "InvalidAskError" })
    }
    // Recorded as it was sent, and converted for the handler: JSON has no dates. A replay cannot wait for a validator.
    if (!(checking instanceof Promise)) return StepExit.ofValue(value)
    const fault = Either.getLeft(jsonText(checked.value ?? null, limits.resultBytes))
    if (Option.isSome(fault)) throw new TypeError(`The output of the validator ${fault.value}.`)
    return StepExit.ofValue(checked.value)
  }

  private call(row: string, name: string, value: unknown): void {
    const { handler, schema } = this.attached.get(name) ?? {}
    if (handler === undefined) return
    const isStored = this.host.isComparing || this.host.journal.deferred("ask", row)?.completedAt !== undefined
    this.open.add(row)
    const answer = (stored: Stored) => {
      if (isStored) this.open.delete(row)
      else this.host.busy(() => this.store(row, answerOf(stored)))
    }
    let result: unknown
    try {
      const checked = schema === undefined ? undefined : StandardSchema.checkNow(schema, value)
      result = handler(checked === undefined || checked.issues !== undefined ? value : checked.value)
    } catch (error) {
      answer(StepExit.ofError(Thrown.plain(error)))
      return
    }
    Promise.resolve(result)
      .then(StepExit.ofValue)
      .catch((error: unknown) => StepExit.ofError(Thrown.plain(error)))
      .then(answer)
  }

  /** Stores an answer. One that is too large, or has no JSON form, is an error for the caller. */
  private store(row: string, answer: Answer): Promise<void> {
    const { journal } = this.host
    const storing = journal
      .answer(row, answer)
      .catch((error: unknown) => {
        if ((error as { readonly _tag?: string })._tag !== "InvalidStep") throw error
        return journal.answer(row, { error: { name: "InvalidAskError", message: (error as Error).message } })
      })
      .finally(() => {
        this.open.delete(row)
        this.answers.delete(storing)
      })
    this.answers.add(storing)
    return storing
  }

  /** Resolves when the handlers that have returned are answered. Handlers that wait are left. */
  async settled(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve))
    await Promise.allSettled(this.answers)
    this.open.clear()
  }

  /** Looks for asks from time to time, because the run cannot suspend now. */
  arm(): void {
    if (!this.isAttached || this.timer !== undefined) return
    const look = Effect.sync(() => {
      this.timer = undefined
      this.host.busy(async () => {
        await this.host.refresh()
        this.host.check()
      })
    })
    this.timer = Runtime.runFork(this.runtime)(Effect.zipRight(Effect.sleep(pollInterval), look))
  }

  disarm(): void {
    if (this.timer !== undefined) Runtime.runFork(this.runtime)(Fiber.interrupt(this.timer))
    this.timer = undefined
  }
}
