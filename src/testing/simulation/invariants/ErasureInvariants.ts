import { isDeepStrictEqual } from "node:util"
import { erasedAtOf } from "../../../core/Subject.js"
import { isExecution, type JobRow } from "../../../queue/JobRowMemory.js"
import type { History } from "../History.js"
import type { Ending } from "../HistoryEntry.js"
import type { Finding, Invariant } from "../Invariant.js"

// What the erasure of a subject promises. Which jobs a subject has is known from the jobs as they were stored.

/** What stays of an erased job. */
const keptOf = ({ attempt, createdAt, finishedAt, kind, queue, reason, startedAt, status }: JobRow) => ({
  ...{ kind, queue, status, reason, attempt },
  ...{ createdAt, startedAt, finishedAt }
})

const changed = (before: JobRow, after: JobRow) => !isDeepStrictEqual(keptOf(before), keptOf(after))

/** What a row has of its subject. */
const leftIn = (row: JobRow): ReadonlyArray<string> => {
  const { dedupe, history, key, lastError, meta, onDead, payload, progress, result } = row
  const { length } = Object.keys(JSON.parse(meta ?? "{}"))
  const left = {
    ...{ result, progress, lastError, onDead, key },
    payload: payload === "null" ? undefined : payload,
    meta: length === 1 && erasedAtOf(JSON.parse(meta ?? "{}")) !== undefined ? undefined : meta,
    dedupe: dedupe === undefined || dedupe.key === `erased:${row.id}` ? undefined : dedupe,
    history: history.some(({ message }) => message !== undefined) ? history : undefined
  }
  return Object.entries(left).flatMap(([name, value]) => (value === undefined ? [] : [name]))
}

const onlyItsOwn: Invariant = {
  name: "erasure",
  promise: "an erasure changes only finished jobs of its subject, and neither their states nor their counts",
  onChange: ({ after, before, call }, history) => {
    if (call?.call !== "Erasure.erase" || before === undefined) return undefined
    const job = history.nameOf(before.id)
    if (after === undefined) return `${job} was deleted by an erasure`
    if (history.subjects.get(before.id) !== call.args[0]) return `${job} was erased with another subject`
    if (before.finishedAt === undefined) return `${job} was erased before it ended`
    return changed(before, after) ? `${job} was ${before.status} before it was erased, and has changed` : undefined
  }
}

const staysErased: Invariant = {
  name: "erased stays",
  promise: "an erased job never runs again",
  onRun: ({ job }, history) => (history.erased.has(job) ? `${history.nameOf(job)} was erased and runs` : undefined),
  onChange: ({ after }, history) => {
    const before = after === undefined ? undefined : history.erased.get(after.id)
    if (before === undefined || after === undefined || !changed(before, after)) return undefined
    return `${history.nameOf(after.id)} was ${before.status} when it was erased, and is ${after.status}`
  }
}

const ofExecution = (row: JobRow, ending: Ending | undefined): ReadonlyArray<string> => {
  const seen = ending?.executions.get(row.id)
  if (!isExecution(row) || seen === undefined) return []
  const isBlank = seen.steps.every(({ exit, name }) => exit === null && /^step \d+$/.test(name))
  return [
    ...(isBlank ? [] : ["steps"]),
    ...(seen.others > 0 ? ["waits or streams"] : []),
    ...(Object.keys({ ...seen.values, ...seen.tags }).length > 0 ? ["values or tags"] : [])
  ]
}

const nothingLeft: Invariant = {
  name: "erased",
  promise: "after an erasure has ended, nothing of its subject is stored",
  atEnd: (history: History) => [
    ...(history.reported.get("erased") ?? []),
    ...[...history.rows.values()].flatMap((row): ReadonlyArray<Finding> => {
      const left = history.erased.has(row.id) ? [...leftIn(row), ...ofExecution(row, history.ending)] : []
      return left.length === 0
        ? []
        : [{ job: row.id, found: `${history.nameOf(row.id)} was erased and has its ${left.join(", ")}` }]
    })
  ]
}

export const all: ReadonlyArray<Invariant> = [onlyItsOwn, staysErased, nothingLeft]
