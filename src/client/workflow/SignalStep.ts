import { Effect } from "effect"
import { issuesText } from "../../core/Issues.js"
import * as StepName from "../../core/StepName.js"
import type * as Suspension from "../../core/Suspension.js"
import type { Match, WaitAnswer } from "../../queue/events/Events.js"
import type { EventDefinition } from "../EventDefinition.js"
import { InvalidOptionError } from "../ShiftErrors.js"
import * as StandardSchema from "../StandardSchema.js"
import type { Stored } from "./Replay.js"
import * as StepExit from "./StepExit.js"
import type { WorkflowRun } from "./WorkflowRun.js"

// `step.waitFor` and `step.next`: waits for a value of a signal, with a timeout and a validator.

/** The validator of a signal: the declared one, or that of the call. Throws InvalidOptionError if there are both. */
export const schemaFor = (
  name: string,
  declared: StandardSchema.StandardSchema | undefined,
  given: StandardSchema.StandardSchema | undefined
): StandardSchema.StandardSchema | undefined => {
  if (declared !== undefined && given !== undefined)
    throw new InvalidOptionError("schema", `"${name}" is a declared signal with a validator: remove the option schema.`)
  return declared ?? given
}

interface Arrived {
  readonly value: unknown
  /** What the exit of the step says beside the value. */
  readonly more?: object
}

/** Where the values of a call come from. */
interface Source {
  readonly kind: "signal" | "message"
  /** Takes the value of the call with this numbered name, if one has arrived. */
  readonly take: (numbered: string) => Arrived | undefined
  /** A row that a suspended execution waits for in addition to that of the call. */
  readonly row?: () => Suspension.Wait
  /**
   * Looks elsewhere for a value. Without one, `settled` says whether the execution is woken for every later value. `ends`: the call
   * has timed out, and leaves later values to the next one.
   */
  readonly look?: (numbered: string, ends?: boolean) => Promise<WaitAnswer>
  /** What a retry of the execution does after an invalid value. */
  readonly advice: string
}

/** The first value of a signal. It stays: the call takes the same one in every run. */
const firstOf = (run: WorkflowRun): Source => ({
  kind: "signal",
  take: (numbered) => {
    const found = run.journal.deferred("signal", numbered)
    return found?.completedAt === undefined ? undefined : { value: found.exit }
  },
  advice: "A retry of the execution waits for this signal again."
})

/** The values of a signal, each once. */
const nextOf = (run: WorkflowRun, signal: string): Source => ({
  kind: "message",
  take: () => {
    const { journal } = run
    const taken = journal.takeValue(signal)
    return taken === undefined ? undefined : { value: taken.exit, more: { taken: { signal, number: taken.number } } }
  },
  row: () => run.journal.nextValue(signal),
  advice: "It is taken: a retry of the execution waits for the next value."
})

/** The first event that matches, since the execution was started. It stays, like the first value of a signal. */
const eventOf = (run: WorkflowRun, event: string, match: Match): Source => ({
  ...firstOf(run),
  look: (name, ends) => {
    const { execution, services } = run.journal
    const wait = services.events.wait({ execution: execution.id, job: execution.run.id, name, event, match, ends })
    // The first call stores the wait. Most transactions that began before it end within milliseconds.
    const looking = Effect.gen(function* () {
      for (const pause of [0, 0, 0, 10, 20, 50, 100, 200, 400]) {
        if (pause > 0) yield* Effect.sleep(pause)
        const answer = yield* wait
        if ("data" in answer || answer.settled) return answer
      }
      return yield* wait
    })
    return run.journal.withRetries(looking)
  },
  advice: "A retry of the execution receives the same event."
})

/** When a suspended execution looks again for an event of a transaction that began before its wait. */
const lookAgain = (numbered: string, waitsSince: number, now: number): Suspension.Wait => {
  const pause = Math.min(60_000, Math.max(1_000, (now - waitsSince) / 2))
  return { kind: "value", name: `${numbered}~${now}`, dueAt: now + pause }
}

const receive = <A>(
  run: WorkflowRun,
  { advice, kind, look, row, take }: Source,
  name: string,
  schema: StandardSchema.StandardSchema<unknown, A> | undefined,
  timeout: number | undefined
): Promise<A | undefined> => {
  /** The validated value. */
  const outputOf = (numbered: string, checked: StandardSchema.Checked<A>): A => {
    if (checked.issues === undefined) return checked.value
    const event = StepName.eventOf(numbered)
    const signal = kind === "signal" ? numbered : name
    const what = event === undefined ? `value of the signal "${signal}"` : `data of the event "${event}"`
    const issues = issuesText(event === undefined ? "value" : "data", checked.issues)
    throw new Error(`The ${what} is invalid: ${issues}. ${advice}`)
  }
  return run.call(
    kind,
    name,
    (numbered, settle) => {
      const startedAt = run.journal.begunAt(kind, numbered, run.now())
      const step = { name: numbered, kind } as const
      const validated = async (value: unknown): Promise<Stored> => {
        if (schema === undefined) return StepExit.ofValue(value)
        const checking = StandardSchema.check(schema, value)
        const output = outputOf(numbered, await checking)
        // Recorded as it was sent, and converted when it is read: JSON has no dates. A replay cannot wait for a validator.
        return StepExit.ofValue(checking instanceof Promise ? output : value)
      }
      const accept = ({ more, value }: Arrived) =>
        run.busy(async () => {
          const stored = await validated(value).catch(StepExit.ofError)
          const exit = more === undefined ? stored.exit : { ...(stored.exit as object), ...more }
          run.conclude(step, { ...stored, exit }, settle, startedAt)
        })
      const timeOut = async () => {
        const last = await look?.(numbered, true)
        if (last !== undefined && "data" in last) accept({ value: last.data })
        else run.conclude(step, StepExit.timedOut, settle, startedAt)
      }
      /** Whether a value has arrived, which the code then receives. */
      const arrived = (): boolean => {
        const found = take(numbered)
        if (found !== undefined) accept(found)
        return found !== undefined
      }
      // A value that arrived in the meantime takes precedence over the timeout.
      const onDue = () =>
        run.busy(async () => {
          await run.refresh()
          if (!arrived()) await timeOut()
        })
      let dueAt: number | undefined
      const begin = async (): Promise<void> => {
        await run.journal.known()
        if (arrived()) return
        const answer = await look?.(numbered)
        if (answer !== undefined && "data" in answer) return accept({ value: answer.data })
        const again = answer?.settled === false ? lookAgain(numbered, startedAt, run.now()) : undefined
        dueAt ??= run.journal.deferred(kind, numbered)?.dueAt
        if (timeout !== undefined) dueAt ??= run.now() + timeout
        if (dueAt !== undefined && dueAt <= run.now()) return timeOut()
        run.block(
          { kind, name: numbered, dueAt },
          {
            onDue: dueAt === undefined ? undefined : onDue,
            arrived,
            row: again === undefined ? row : () => again,
            onRowDue: again === undefined ? undefined : () => run.busy(begin)
          }
        )
      }
      run.busy(begin)
    },
    (stored, numbered) => {
      const value = StepExit.recordedValue(stored) as A | undefined
      if (schema === undefined || StepExit.isTimedOut(stored)) return value
      const checked = StandardSchema.checkNow(schema, value)
      return checked === undefined ? value : outputOf(numbered, checked)
    }
  )
}

/** `step.waitFor`: the first value of a signal, validated. */
export const waitFor = <A>(
  run: WorkflowRun,
  name: string,
  schema: StandardSchema.StandardSchema<unknown, A> | undefined,
  timeout: number | undefined
): Promise<A | undefined> => receive(run, firstOf(run), name, schema, timeout)

/** `step.waitForEvent`: the first event that matches, validated. */
export const waitForEvent = <A>(
  run: WorkflowRun,
  { name, schema }: EventDefinition<never, A>,
  match: Match,
  timeout: number | undefined
): Promise<A | undefined> => {
  const signal = StepName.eventWait(name, run.execution.continued)
  return receive(run, eventOf(run, name, match), signal, schema as StandardSchema.StandardSchema<unknown, A>, timeout)
}

/** `step.next`: the next value of a signal, validated. */
export const next = <A>(
  run: WorkflowRun,
  name: string,
  schema: StandardSchema.StandardSchema<unknown, A> | undefined,
  timeout: number | undefined
): Promise<A | undefined> => receive(run, nextOf(run, name), name, schema, timeout)
