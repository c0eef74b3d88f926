import { Effect, Layer } from "effect"
import { stateOf } from "../../core/StoredJob.js"
import { erasedKey, type SubjectDigest, subjectOf } from "../../core/Subject.js"
import { isExecution, type JobRow } from "../JobRowMemory.js"
import { JobTable } from "../JobTableMemory.js"
import { LogTable } from "../logs/JobLogsMemory.js"
import { WorkflowTable } from "../workflow/WorkflowTableMemory.js"
import { Erasure, erasedExecution } from "./Erasure.js"
import { emptyStates } from "./HeldStates.js"

const make = Effect.gen(function* () {
  const jobs = yield* JobTable
  const workflows = yield* WorkflowTable
  const logs = yield* LogTable

  const ofSubject = (subject: SubjectDigest): ReadonlyArray<JobRow> =>
    [...jobs.rows()].filter(({ meta }) => meta !== undefined && subjectOf(JSON.parse(meta)) === subject)
  const isOver = ({ finishedAt }: JobRow) => finishedAt !== undefined
  const keyOf = (row: JobRow) => (isExecution(row) ? row.dedupe?.key : undefined)

  /** Erases the journal of an execution. Its steps and links to children stay, with numbers as names. */
  const eraseJournal = (row: JobRow, execution: string) => {
    const [steps, links, lifetime] = [
      workflows.stepsOf(row.id),
      workflows.linksOf(execution),
      workflows.lifetimes.of(row.id)
    ]
    const names = [...new Set([...steps, ...links].map(({ name }) => name))]
    const numbered = (name: string) => `step ${names.indexOf(name) + 1}`
    workflows.unlink(execution)
    workflows.forget(row)
    workflows.lifetimes.put(row.id, lifetime)
    workflows.setSteps(
      row.id,
      steps.map((step) => ({ ...step, name: numbered(step.name), exit: null }))
    )
    const parent = erasedExecution(row.id)
    workflows.link(
      parent,
      links.map((link) => ({ ...link, parent, name: numbered(link.name) }))
    )
  }

  const eraseOne = (row: JobRow, now: number) => {
    const execution = keyOf(row)
    if (execution !== undefined) eraseJournal(row, execution)
    if (logs.of(row.id).size > 0) logs.restore(row.id, new Map())
    jobs.dueFollowUps.delete(`${row.id}:${row.deathCount}`)
    jobs.put({
      ...row,
      payload: "null",
      result: undefined,
      progress: undefined,
      lastError: undefined,
      onDead: undefined,
      key: undefined,
      history: row.history.map(({ message: _, ...entry }) => entry),
      meta: JSON.stringify({ [erasedKey]: new Date(now).toISOString() }),
      dedupe:
        execution === undefined ? undefined : { key: erasedExecution(row.id), scope: "retained", until: undefined }
    })
  }

  return Erasure.of({
    held: (subject) =>
      jobs.atomically((now) => {
        const own = ofSubject(subject)
        const states = emptyStates()
        for (const row of own) states[stateOf(row, now)] += 1
        const sum = (of: (row: JobRow, execution: string) => number) =>
          own.reduce((total, row) => total + of(row, keyOf(row) ?? ""), 0)
        return {
          states,
          executions: own.filter(isExecution).length,
          logs: sum(({ id }) => logs.of(id).size),
          steps: sum(({ id }) => workflows.stepsOf(id).length),
          streams: sum(({ id }) => workflows.streamsOf(id).size),
          waits: sum((_, execution) => workflows.deferredsOf(execution).length),
          tags: sum(({ id }) => Object.keys(workflows.tagsOf(id)).length)
        }
      }),
    unfinished: (subject, limit) =>
      jobs.atomically(() =>
        ofSubject(subject)
          .filter((row) => !isOver(row))
          .map((row) => ({
            id: row.id,
            kind: row.kind,
            execution: keyOf(row),
            running: row.run !== undefined,
            asked: row.cancelRequestedAt !== undefined
          }))
          .sort((a, b) => Number(a.asked) - Number(b.asked))
          .slice(0, limit)
      ),
    erase: (subject, act) =>
      jobs.atomically((now) => {
        const over = ofSubject(subject).filter(isOver)
        if (act === "erase") for (const row of over) eraseOne(row, now)
        return over.length
      }),
    // Audit entries and saved views are not part of the tables in memory.
    quotes: () => Effect.succeed(0)
  })
})

export const layer: Layer.Layer<Erasure, never, JobTable | WorkflowTable | LogTable> = Layer.effect(Erasure, make)
