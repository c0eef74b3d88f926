import { ExecutionState, type ExecutionSummary } from "./Execution.js"

/** What a list of executions can be sorted by, other than by their start. */
export const executionSortFields = ["duration", "finished"] as const

/** An order of a list. It covers the newest `maxSortedJobs` executions that match. */
export interface ExecutionSort {
  readonly by: (typeof executionSortFields)[number]
  readonly descending: boolean
}

export interface ExecutionPage {
  /** Newest first, or sorted. */
  readonly executions: ReadonlyArray<ExecutionSummary>
  /** Pass it as `before` to get the next page; undefined on the last one. */
  readonly next: string | undefined
  /** How many of the newest executions the order covers; undefined if it covers all. */
  readonly sortedAmong?: number | undefined
}

/** Executions by state. */
export interface StateCounts {
  readonly counts: Readonly<Record<ExecutionState, number>>
  /** False if only the newest 10,000 were counted. */
  readonly exact: boolean
}

/** Number of executions that are counted by state. */
export const maxStateCounts = 10_000

/** The counts, given those of states that have any. Their sum is greater than `maxStateCounts` if there were more. */
export const stateCountsOf = (found: Iterable<readonly [ExecutionState, number]>): StateCounts => {
  const none = ExecutionState.literals.map((state) => [state, 0] as const)
  const counts = Object.fromEntries([...none, ...found]) as Record<ExecutionState, number>
  return { counts, exact: Object.values(counts).reduce((sum, count) => sum + count, 0) <= maxStateCounts }
}
