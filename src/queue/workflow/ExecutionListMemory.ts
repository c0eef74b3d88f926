import { Effect, Either } from "effect"
import { BadCursor } from "../../core/BadCursor.js"
import { isId } from "../../core/Ids.js"
import { isExecution, type JobRow } from "../JobRowMemory.js"
import type { JobTable } from "../JobTableMemory.js"
import { compare, maxSortedJobs, readCursor, writeCursor } from "../search/JobSort.js"
import {
  type ChildCounts,
  type ExecutionFilter,
  type ExecutionState,
  type ExecutionSummary,
  maxCountedParts,
  type Step
} from "./Execution.js"
import { type ExecutionPage, type ExecutionSort, maxStateCounts, stateCountsOf } from "./ExecutionPage.js"
import * as Tags from "./Tags.js"
import type { Workflows } from "./Workflows.js"
import type { WorkflowTable } from "./WorkflowTableMemory.js"

type Jobs = typeof JobTable.Service
type Table = typeof WorkflowTable.Service

/** What happened to the children of an execution. */
const childCountsOf = (jobs: Jobs, table: Table, execution: string): ChildCounts => {
  const links = table.linksOf(execution)
  const counts = { done: 0, failed: 0, cancelled: 0, open: 0, deleted: 0 }
  for (const { child } of links.slice(0, maxCountedParts + 1)) {
    const row = jobs.get(child)
    if (row === undefined) counts.deleted += 1
    else if (row.status === "dead") counts[row.reason === "cancelled" ? "cancelled" : "failed"] += 1
    else counts[row.status === "done" ? "done" : "open"] += 1
  }
  return { ...counts, more: links.length > maxCountedParts }
}

/** How far an execution has come. */
export const progressOf = (
  jobs: Jobs,
  table: Table,
  row: JobRow,
  execution: string
): Pick<ExecutionSummary, "childCounts" | "failedStep" | "stepsDone"> => {
  const steps = table.stepsOf(row.id).filter(({ reopenedAt }) => reopenedAt === undefined)
  const hasFailed = row.dying !== undefined || (row.status === "dead" && row.reason !== "cancelled")
  const isLater = (a: Step, b: Step) => a.sequence > b.sequence || (a.sequence === b.sequence && a.attempt > b.attempt)
  const failed = steps
    .filter(({ outcome }) => outcome === "failed")
    .reduce<Step | undefined>((last, step) => (last === undefined || isLater(step, last) ? step : last), undefined)
  return {
    stepsDone: Math.min(maxCountedParts, steps.filter(({ outcome }) => outcome === "done").length),
    failedStep: hasFailed ? failed?.name : undefined,
    childCounts: childCountsOf(jobs, table, execution)
  }
}

const sortValue = ({ createdAt, finishedAt }: ExecutionSummary, by: ExecutionSort["by"], now: number) =>
  by === "finished" ? (finishedAt ?? null) : (finishedAt ?? now) - createdAt

/** One page of executions, of which the newest are first, in an order. */
const sortedPage = (
  found: ReadonlyArray<ExecutionSummary>,
  sort: ExecutionSort,
  { before, limit }: { readonly before: string | undefined; readonly limit: number },
  now: number
): Either.Either<ExecutionPage, BadCursor> => {
  const after = before === undefined ? undefined : readCursor(sort, before)
  if (before !== undefined && after === undefined) return Either.left(new BadCursor({ cursor: before }))
  const at = after?.at ?? now
  const placed = found
    .filter(({ id }) => after === undefined || id <= after.newest)
    .slice(0, maxSortedJobs)
    .map((execution) => ({ execution, id: execution.id, value: sortValue(execution, sort.by, at) }))
  const rest = placed
    .filter((place) => after === undefined || compare(sort, after, place) < 0)
    .sort((a, b) => compare(sort, a, b))
  const shown = rest.slice(0, limit)
  const last = shown.at(-1)
  const newest = after?.newest ?? placed[0]?.id ?? ""
  return Either.right({
    executions: shown.map(({ execution }) => execution),
    next: last === undefined || rest.length <= limit ? undefined : writeCursor(sort, { ...last, newest, at }),
    sortedAmong: placed.length >= maxSortedJobs ? maxSortedJobs : undefined
  })
}

/** Lists and counts executions. */
export const make = (
  jobs: Jobs,
  table: Table,
  summary: (row: JobRow, now: number) => ExecutionSummary
): Pick<typeof Workflows.Service, "list" | "count" | "countStates" | "suspended"> => {
  const selected = (filter: ExecutionFilter, now: number): Array<ExecutionSummary> =>
    [...jobs.rows()]
      .filter(isExecution)
      .map((row) => summary(row, now))
      .filter(
        ({ createdAt, execution, id, state, tags, workflow }) =>
          createdAt >= (filter.since ?? 0) &&
          createdAt < (filter.until ?? Infinity) &&
          Tags.matches(tags, filter.tag) &&
          (filter.workflow === undefined || workflow === filter.workflow) &&
          (filter.state === undefined || state === filter.state) &&
          (filter.prefix === undefined || execution.startsWith(filter.prefix)) &&
          (filter.roots !== true || table.parentsOf(id).length === 0)
      )
      .sort((a, b) => (a.id < b.id ? 1 : -1))

  return {
    list: (filter, { before, limit, sort }) => {
      if (sort !== undefined)
        return Effect.flatten(jobs.atomically((now) => sortedPage(selected(filter, now), sort, { before, limit }, now)))
      if (before !== undefined && !isId(before)) return new BadCursor({ cursor: before })
      return jobs.atomically((now) => {
        const all = selected(filter, now).filter(({ id }) => before === undefined || id < before)
        const executions = all.slice(0, limit)
        return { executions, next: all.length > limit ? executions.at(-1)?.id : undefined }
      })
    },
    count: (filter) => jobs.atomically((now) => selected(filter, now).length),
    countStates: (filter) =>
      jobs.atomically((now) => {
        const found = selected(filter, now)
        const counts = new Map<ExecutionState, number>()
        for (const { state } of found.slice(0, maxStateCounts + 1)) counts.set(state, (counts.get(state) ?? 0) + 1)
        return stateCountsOf(counts)
      }),
    suspended: jobs.atomically((now) => {
      const states = [...jobs.rows()].filter(isExecution).map((row) => summary(row, now).state)
      const count = (state: ExecutionState) => states.filter((each) => each === state).length
      return { sleeping: count("sleeping"), waiting: count("waiting"), changed: count("changed") }
    })
  }
}
