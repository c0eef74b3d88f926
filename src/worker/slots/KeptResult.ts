import { Effect, RuntimeFlags, RuntimeFlagsPatch } from "effect"
import type { JobContext } from "../../handlers/JobContext.js"

const disablesInterruption = RuntimeFlagsPatch.disable(RuntimeFlags.Interruption)

/** Whether this is `Effect.uninterruptible(…)`, which Effect offers no test for. */
const isUninterruptible = <R>(effect: Effect.Effect<unknown, unknown, R>): boolean => {
  const { _op, effect_instruction_i0 } = effect as { readonly _op?: unknown; readonly effect_instruction_i0?: unknown }
  return _op === "UpdateRuntimeFlags" && effect_instruction_i0 === disablesInterruption
}

/**
 * Reads the result in an uninterruptible region: after it, Effect drops the result if the fiber was interrupted
 * meanwhile.
 */
const keepingResult = <R>(effect: Effect.Effect<unknown, unknown, R>, job: JobContext) =>
  Effect.uninterruptible(
    Effect.map(effect, (result) => {
      job.succeededLate?.({ result, mayBePartial: false })
      return result
    })
  )

/** The effect of a handler. An uninterruptible one reports its result even if its fiber was interrupted. */
export const around = <R>(effect: Effect.Effect<unknown, unknown, R>, job: JobContext) =>
  isUninterruptible(effect) ? keepingResult(effect, job) : effect
