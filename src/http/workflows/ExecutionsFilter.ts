import type { ExecutionFilter } from "../../queue/workflow/Execution.js"
import { ExecutionState } from "../../queue/workflow/Execution.js"
import * as WireText from "../WireText.js"

/** Execution filter as query parameters, and in programs. */
export const query = {
  workflow: WireText.optional(WireText.Text.annotations({ description: "Executions of this workflow." })),
  state: WireText.optional(
    ExecutionState.annotations({
      ...WireText.withMessage(`must be one of ${ExecutionState.literals.join(", ")}`),
      description: "Executions in this state."
    })
  ),
  prefix: WireText.optional(WireText.Text.annotations({ description: "Executions whose id starts with this text." }))
} satisfies Record<keyof ExecutionFilter, unknown>
