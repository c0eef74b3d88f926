import { allProcesses } from "./Faults.js"
import type { Step } from "./Plan.js"

const through = (pod: string | undefined) => (pod === undefined ? "" : ` through ${pod}`)
const forSeconds = (millis: number) => `for ${(millis / 1000).toFixed(1)} s`

/** Describes a step for the trace. */
export const described = (step: Step): string => {
  switch (step._tag) {
    case "Enqueue":
      return `enqueue #${step.nth}${through(step.pod)}`
    case "Deliver":
      return `deliver webhook ${step.nth}`
    case "Publish":
      return `publish event ${step.nth}${through(step.pod)}`
    case "Upload":
      return `upload file ${step.nth}${through(step.pod)}`
    case "Work":
      return `worker-${step.nth}, which ${step.how}, claims from ${step.pod}`
    case "SkewClock":
      return `${step.pod} misreads the database's clock by ${step.millis / 1000} s`
    case "Cancel":
      return `cancel #${step.nth}${through(step.pod)}`
    case "Requeue":
      return `requeue #${step.nth}${through(step.pod)}`
    case "RunNow":
      return `run #${step.nth} now${through(step.pod)}`
    case "Erase":
      return `erase subject ${step.nth}${through(step.pod)}`
    case "Kill":
      return `kill ${step.pod}${step.lockedMillis === undefined ? "" : `, whose lock stays ${forSeconds(step.lockedMillis)}`}`
    case "LoseLock":
      return `end the session that holds the lock of ${step.pod} ${forSeconds(step.millis)}`
    case "Stop":
      return `stop ${step.pod}`
    case "Freeze":
      return `freeze ${step.pod} ${forSeconds(step.millis)}`
    case "Disconnect":
      return `disconnect ${step.pod === allProcesses ? "all processes" : step.pod} from the database ${forSeconds(step.millis)}`
    case "StepClock":
      return `step the database's clock by ${step.millis / 1000} s`
    case "PauseQueue":
      return `pause queue "${step.queue}" ${forSeconds(step.millis)}${through(step.pod)}`
  }
}
