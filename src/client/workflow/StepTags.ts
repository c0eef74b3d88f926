import type { TagChanges } from "../../queue/workflow/Execution.js"
import { faultOf } from "../../queue/workflow/Tags.js"
import { InvalidOptionError } from "../ShiftErrors.js"
import type { Attempts } from "./StepAttempts.js"
import * as StepExit from "./StepExit.js"
import type { WorkflowRun } from "./WorkflowRun.js"

/** `step.tag`: sets the tags and records that, so that a replay does not set them again. */
export const set = (run: WorkflowRun, tags: TagChanges): Promise<void> => {
  const fault = faultOf(tags, true)
  if (fault !== undefined) throw new InvalidOptionError("tags", `${fault}.`)
  const perform: Attempts["perform"] = async (_, record) => {
    await run.journal.withRetries(run.journal.workflows.tagHeld(run.execution.run, tags))
    return record(StepExit.ofValue(undefined))
  }
  return run.call(
    "run",
    "tag",
    (name, settle) => run.attempt({ name, base: "tag", kind: "run", options: { attempts: 1 }, perform, settle }),
    () => undefined
  )
}
