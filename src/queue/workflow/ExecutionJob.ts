import type { NewJob } from "../NewJob.js"
import type { NewChild, NewExecution } from "./Workflows.js"

/** The job of a new execution. */
export const jobOf = ({ execution, tags: _, ...job }: NewExecution): NewJob => ({
  ...job,
  isExecution: true,
  dedupe: { key: execution, scope: "retained" }
})

/** The job of a child, whose end is counted. */
export const jobOfChild = ({ execution, ...job }: NewChild): NewJob => ({
  ...(execution === undefined ? job : jobOf({ ...job, execution })),
  isChild: true
})
