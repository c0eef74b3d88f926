import { Clock, Effect } from "effect"
import * as Outcome from "../../core/Outcome.js"
import * as Suspension from "../../core/Suspension.js"
import * as Handler from "../../handlers/Handler.js"
import type { JobContext } from "../../handlers/JobContext.js"
import type { NewJob } from "../../queue/enqueue/NewJob.js"
import type * as Job from "../../queue/Job.js"
import type { JobRow } from "../../queue/JobRowMemory.js"
import type { Recorded } from "../../queue/workflow/Workflows.js"
import { Workflows } from "../../queue/workflow/Workflows.js"
import type { Finding, Invariant } from "./Invariant.js"
import { Dice, digest } from "./Seed.js"

// Workflow executions in the simulation: each records a step, sleeps, starts two children and waits for them, records a
// second step and ends. Its steps are counted outside the database.

type Numbered = Job.JobKind<{ readonly n: number }>

export const storyKind = "story"

/** Makes the job of an execution. */
export const storyOf = (job: NewJob, n: number): NewJob => ({
  ...job,
  link: "execution",
  dedupe: { key: `story ${n}`, scope: "retained" }
})

/** Which jobs of a seed are executions. */
export const isStory = (seed: number, count: number): ReadonlyArray<boolean> => {
  const dice = new Dice(digest("stories", seed))
  const share = dice.pick(0.2, 0.5, 0.9)
  return Array.from({ length: count }, () => dice.chance(share))
}

/** The handler of executions. `misbehave` fails in every way a handler can. */
export const handler = (
  story: Numbered,
  leaf: Numbered,
  misbehave: (job: JobContext, n: number) => Effect.Effect<unknown, string>
): Handler.Handler<Workflows> =>
  Handler.make(story, ({ n }, job) =>
    Effect.gen(function* () {
      const { execution } = job
      if (execution === undefined) return Outcome.dead("no execution")
      const workflows = yield* Workflows
      const { cancelled, steps, waits, woken } = yield* workflows.load(execution.run)
      if (cancelled) return Outcome.cancelled
      const now = yield* Clock.currentTimeMillis
      const record = (name: string, sequence: number) =>
        workflows.record(execution.run, {
          name,
          kind: "run",
          attempt: 1,
          sequence,
          outcome: "done",
          exit: { value: execution.run.lease },
          startedAt: now
        })
      const isRecorded = (name: string) => steps.some((step) => step.name === name)
      if (!isRecorded("first")) {
        const outcome = yield* misbehave(job, n)
        // The journal holds only results; other outcomes end the run as they do for plain jobs.
        if (Outcome.isOutcome(outcome)) return outcome
        yield* record("first", 1)
      }
      const nap = waits.find((wait) => wait.kind === "sleep" && wait.name === "nap")
      if (nap === undefined || (nap.dueAt ?? 0) > now) {
        return Suspension.make({ woken, waits: [{ kind: "sleep", name: "nap", dueAt: nap?.dueAt ?? now + 1_500 }] })
      }
      const children = waits.find((wait) => wait.kind === "children")
      if (children === undefined) {
        const payloads = [n * 1000 + 1, n * 1000 + 2]
        const jobs = yield* Effect.forEach(payloads, (child) => leaf.job({ n: child }))
        yield* workflows.startChildren(execution.run, "leaves", jobs)
      }
      if (children?.completedAt === undefined) {
        return Suspension.make({ woken, waits: [{ kind: "children", name: "leaves" }] })
      }
      if (!isRecorded("second")) yield* record("second", 2)
      return undefined
    })
  )

const ofStories = (rows: Iterable<JobRow>) => [...rows].filter(({ kind }) => kind === storyKind)

/** A step that was recorded again although it was already in the journal. */
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
    const key = `${run.id} ${step.name}`
    const before = history.recorded.get(key)
    const value = JSON.stringify((answer as Recorded).exit)
    history.recorded.set(key, value)
    return before === undefined || before === value
      ? []
      : [{ job: run.id, found: `"${step.name}" of ${history.nameOf(run.id)} was recorded twice` }]
  }
}

/** An execution is done only when its children have ended. */
const childrenEnded: Invariant = {
  name: "children",
  promise: "an execution that waits for children is done only after all of them have ended",
  onChange: ({ after, before }, history) => {
    if (after?.kind !== storyKind || after.status !== "done" || before?.status === "done") return undefined
    return history.recorded.has(`${after.id} second`)
      ? undefined
      : `${history.nameOf(after.id)} is done, but its last step is not recorded`
  },
  atEnd: (history) =>
    ofStories(history.rows.values()).flatMap((row): ReadonlyArray<Finding> => {
      const isOpen = row.status !== "done" && row.status !== "dead"
      return isOpen ? [{ job: row.id, found: `${history.nameOf(row.id)} still waits` }] : []
    })
}

export const invariants: ReadonlyArray<Invariant> = [recordedOnce, childrenEnded]
