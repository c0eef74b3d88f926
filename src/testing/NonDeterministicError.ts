import { ShiftError } from "../client/ShiftErrors.js"

/** The code of a workflow took different steps when it ran again. */
export class NonDeterministicError extends ShiftError {
  override readonly name = "NonDeterministicError"
  constructor(
    /** Id of the execution, or of its job. */
    readonly execution: string,
    /** How the code differs from the journal. */
    readonly difference: string
  ) {
    const advice = "Read clocks, random numbers and changing variables in a step (step.run, or an Activity)."
    const option = "If the test changes the code on purpose, pass allowChanged: true."
    super(
      "NON_DETERMINISTIC",
      `Execution ${execution} does not follow its journal: ${difference}. Code between steps must do the same in every run. ${advice} ${option}`
    )
  }
}
