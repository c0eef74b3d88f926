import { issuesText } from "../../core/Issues.js"
import type { Deferred } from "../../queue/workflow/Execution.js"
import { InvalidOptionError } from "../ShiftErrors.js"
import * as StandardSchema from "../StandardSchema.js"
import type { Stored } from "./Replay.js"
import * as StepExit from "./StepExit.js"
import type { WorkflowRun } from "./WorkflowRun.js"

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

/** The validated value of a signal. */
const outputOf = <A>(name: string, checked: StandardSchema.Checked<A>): A => {
  if (checked.issues === undefined) return checked.value
  throw new Error(
    `The value of the signal "${name}" is invalid: ${issuesText("value", checked.issues)}. A retry of the execution waits for this signal again.`
  )
}

/** `step.waitFor`: the first value of a signal, validated. */
export const waitFor = <A>(
  run: WorkflowRun,
  name: string,
  schema: StandardSchema.StandardSchema<unknown, A> | undefined,
  timeout: number | undefined
): Promise<A | undefined> =>
  run.call(
    "signal",
    name,
    (numbered, settle) => {
      const startedAt = run.journal.begunAt("signal", numbered, run.now())
      const step = { name: numbered, kind: "signal" } as const
      const validated = async (exit: unknown): Promise<Stored> => {
        if (schema === undefined) return StepExit.ofValue(exit)
        const checking = StandardSchema.check(schema, exit)
        const value = outputOf(numbered, await checking)
        // Recorded as it was sent, and converted when it is read: JSON has no dates. A replay cannot wait for a validator.
        return StepExit.ofValue(checking instanceof Promise ? value : exit)
      }
      const take = ({ exit }: Deferred) =>
        run.busy(async () => run.conclude(step, await validated(exit).catch(StepExit.ofError), settle, startedAt))
      const timeOut = () => run.conclude(step, StepExit.timedOut, settle, startedAt)
      // A signal that arrived in the meantime takes precedence over the timeout.
      const onDue = () =>
        run.busy(async () => {
          await run.refresh()
          const late = run.journal.deferred("signal", numbered)
          if (late?.completedAt !== undefined) take(late)
          else timeOut()
        })
      run.busy(async () => {
        await run.journal.known()
        const before = run.journal.deferred("signal", numbered)
        const dueAt = before?.dueAt ?? (timeout === undefined ? undefined : run.now() + timeout)
        if (before?.completedAt !== undefined) take(before)
        else if (dueAt !== undefined && dueAt <= run.now()) timeOut()
        else
          run.block(
            { kind: "signal", name: numbered, dueAt },
            { onDue: dueAt === undefined ? undefined : onDue, onCompleted: take }
          )
      })
    },
    (stored, numbered) => {
      const value = StepExit.recordedValue(stored) as A | undefined
      if (schema === undefined || StepExit.isTimedOut(stored)) return value
      const checked = StandardSchema.check(schema, value)
      return checked instanceof Promise ? value : outputOf(numbered, checked)
    }
  )
