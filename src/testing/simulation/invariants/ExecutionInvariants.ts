import type { JobId } from "../../../core/Ids.js"
import type { JobRow } from "../../../queue/JobRowMemory.js"
import type { Recorded, Workflows } from "../../../queue/workflow/Workflows.js"
import { streamed } from "../Chapters.js"
import type { Ending } from "../HistoryEntry.js"
import type { Finding, Invariant } from "../Invariant.js"
import { executionKind } from "../WorkflowWorkload.js"

// What executions promise. Compares the recorded steps with the answers that the processes got, and with what the code of
// the executions did outside the database.

type Seen = NonNullable<ReturnType<Ending["executions"]["get"]>>

const ofStories = (rows: Iterable<JobRow>) => [...rows].filter(({ kind }) => kind === executionKind)

const recordedOnce: Invariant = {
  name: "journal",
  promise: "a step is recorded once, and only by the holder of the lease",
  onAnswer: (call, answer, history) => {
    if (call.call !== "Workflows.record") return []
    const [run, step] = call.args as Parameters<typeof Workflows.Service.record>
    const row = history.rows.get(run.id)
    if (row?.run?.lease !== run.lease) {
      return [
        { job: run.id, found: `${call.who} recorded "${step.name}" of ${history.nameOf(run.id)} without its lease` }
      ]
    }
    const key = `${run.id} ${step.name} ${step.attempt}`
    const before = history.recorded.get(key)
    const { exit, outcome } = answer as Recorded
    const value = `${outcome} ${JSON.stringify(exit)}`
    history.recorded.set(key, value)
    return before === undefined || before === value
      ? []
      : [{ job: run.id, found: `"${step.name}" of ${history.nameOf(run.id)} was recorded twice` }]
  }
}

const childrenEnded: Invariant = {
  name: "children",
  promise: "an execution that waits for children is done only after all of them have ended",
  onChange: ({ after, before }, history) => {
    if (after?.kind !== executionKind || after.status !== "done" || before?.status === "done") return undefined
    return [...history.recorded.keys()].some((key) => key.startsWith(`${after.id} second `))
      ? undefined
      : `${history.nameOf(after.id)} is done, but its last step is not recorded`
  },
  atEnd: (history) =>
    ofStories(history.rows.values()).flatMap((row): ReadonlyArray<Finding> => {
      const isOpen = row.status !== "done" && row.status !== "dead"
      return isOpen ? [{ job: row.id, found: `${history.nameOf(row.id)} still waits` }] : []
    })
}

/** A crash, a shutdown or a lost lease never undoes a step. */
const undoneWhenOver: Invariant = {
  name: "compensation",
  promise: "steps are undone only if the execution fails or is cancelled",
  onChange: ({ after, before }, history) => {
    if (after?.kind !== executionKind || after.status !== "done" || before?.status === "done") return undefined
    return [...history.recorded.keys()].some((key) => key.startsWith(`${after.id} undo:`))
      ? `${history.nameOf(after.id)} is done, but one of its steps was undone`
      : undefined
  }
}

/**
 * Includes effects of steps that were not recorded. Excludes steps that failed: their effect may come from an attempt that
 * threw, which is not undone.
 */
const undoneWhenDead: Invariant = {
  name: "undo",
  promise: "every effect of an execution that died is undone, or the execution says that it is not",
  atEnd: (history) =>
    ofStories(history.rows.values()).flatMap((row): ReadonlyArray<Finding> => {
      if (row.status !== "dead" || row.reason === "not_undone") return []
      const failed = [...history.recorded].some(
        ([key, value]) => key.startsWith(`${row.id} first `) && !value.startsWith("done ")
      )
      const refunded = history.refunded.get(row.id) ?? new Set()
      const open = [...(history.charged.get(row.id) ?? [])].filter((key) => !refunded.has(key))
      if (failed || open.length === 0) return []
      return [{ job: row.id, found: `${history.nameOf(row.id)} is dead (${row.reason}), but its step is not undone` }]
    })
}

/** The code of the simulation never changes, so no execution may be suspended as changed. */
const neverChanged: Invariant = {
  name: "replay",
  promise: "code that has not changed follows its journal",
  onChange: ({ after }, history) =>
    after?.kind === executionKind && after.lastError?.startsWith("The code has changed") === true
      ? `${history.nameOf(after.id)}: ${after.lastError}`
      : undefined
}

/** Checked by the code of the executions, which reports what breaks the promise. */
const reported = (name: string, promise: string): Invariant => ({
  name,
  promise,
  atEnd: (history) => history.reported.get(name) ?? []
})

const streamsComplete: Invariant = {
  name: "streams",
  promise: "the last generation of a stream whose step succeeded has every chunk, in order",
  atEnd: (history) => [
    ...(history.reported.get("streams") ?? []),
    ...[...(history.ending?.streams ?? [])].flatMap(
      ([job, chunks]): ReadonlyArray<Finding> =>
        JSON.stringify(chunks) === JSON.stringify(streamed)
          ? []
          : [{ job, found: `${history.nameOf(job)} has the chunks ${JSON.stringify(chunks)}` }]
    )
  ]
}

/** An answer is the number of the ask among those that the execution has received, which it has set before. */
const asksKept: Invariant = {
  name: "asks",
  promise: "an execution receives an ask once, and what it recorded before the answer stays",
  atEnd: (history) => {
    const received = (job: JobId) => history.ending?.executions.get(job)?.values.added ?? []
    return [
      ...(history.reported.get("asks") ?? []),
      ...history.answers.flatMap(({ answer, asked, job }): ReadonlyArray<Finding> => {
        if (history.erased.has(job)) return []
        const all = received(job) as ReadonlyArray<unknown>
        if (all.indexOf(asked) + 1 === answer && all.lastIndexOf(asked) + 1 === answer) return []
        const found = `answered ask ${asked} with ${JSON.stringify(answer)}, but has received ${JSON.stringify(all)}`
        return [{ job, found: `${history.nameOf(job)} ${found}` }]
      })
    ]
  }
}

/** Compares what readers see of executions that are done with the number of stages that they have recorded. */
const shows = (name: string, promise: string, stageOf: (seen: Seen) => unknown): Invariant => ({
  name,
  promise,
  atEnd: (history) => [
    ...(history.reported.get(name) ?? []),
    ...ofStories(history.rows.values()).flatMap((row): ReadonlyArray<Finding> => {
      const stages = [...history.recorded.keys()].filter((key) => key.startsWith(`${row.id} set:stage`)).length
      const seen = history.ending?.executions.get(row.id)
      if (row.status !== "done" || stages === 0 || seen === undefined || stageOf(seen) === stages) return []
      if (history.erased.has(row.id)) return []
      return [{ job: row.id, found: `${history.nameOf(row.id)} shows stage ${stageOf(seen)} in place of ${stages}` }]
    })
  ]
})

export const all: ReadonlyArray<Invariant> = [
  recordedOnce,
  childrenEnded,
  undoneWhenOver,
  undoneWhenDead,
  neverChanged,
  reported(
    "messages",
    "an execution receives each message once and in order, also those unread when it continued with a new journal"
  ),
  asksKept,
  shows(
    "values",
    "readers see what an execution set last, and never an earlier value again",
    ({ values }) => values.stage
  ),
  shows("tags", "the tags of an execution are those that it set last", ({ tags }) => Number(tags.stage)),
  reported("race", "an execution continues with a child that has ended"),
  reported("pin", "an execution is run only by the release that it is pinned to"),
  streamsComplete,
  reported("heartbeats", "an attempt goes on from a heartbeat of an earlier one"),
  reported("step limit", "no more steps with a limit run at once than the limit")
]
