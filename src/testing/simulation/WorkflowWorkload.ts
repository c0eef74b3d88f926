import { Effect, Exit, Runtime, Schema } from "effect"
import { ofRecipe } from "../../client/Handlers.js"
import { job } from "../../client/JobDefinition.js"
import type { CoreHandler } from "../../client/PromiseHandler.js"
import type { Step } from "../../client/workflow/Step.js"
import { child, workflow } from "../../client/workflow/WorkflowDefinition.js"
import * as Outcome from "../../core/Outcome.js"
import type { JobContext } from "../../handlers/JobContext.js"
import type { JobRow } from "../../queue/JobRowMemory.js"
import type { NewJob } from "../../queue/NewJob.js"
import type { Recorded, Workflows } from "../../queue/workflow/Workflows.js"
import type { History } from "./History.js"
import type { Finding, Invariant } from "./Invariant.js"
import { Dice, digest } from "./Seed.js"

// Workflow executions in the simulation, run by the real replay of async workflows: each runs a step that misbehaves and
// can be undone, sleeps, starts two children and waits for them, runs a second step and ends. The invariants compare the
// recorded steps with the answers that the processes got.

export const executionKind = "story"

/** Makes the job of an execution. */
export const executionJobOf = (job: NewJob, n: number): NewJob => ({
  ...job,
  link: "execution",
  dedupe: { key: `${executionKind}/${n}`, scope: "retained" }
})

/** Which jobs of a seed are executions: none in some seeds, most of them in others. */
export const areExecutions = (seed: number, count: number): ReadonlyArray<boolean> => {
  const dice = new Dice(digest("stories", seed))
  const share = dice.pick(0, 0.15, 0.3, 0.8)
  return Array.from({ length: count }, () => dice.chance(share))
}

const settings = {
  payload: Schema.standardSchemaV1(Schema.Struct({ n: Schema.Int })),
  queue: "plain",
  timeout: "5 seconds",
  attempts: 2,
  backoff: "2 seconds"
} as const

const leaf = job("leaf", settings)

const code =
  (context: JobContext, trouble: (n: number, signal: AbortSignal) => Promise<unknown>, affected: History["affected"]) =>
  async ({ n }: { readonly n: number }, step: Step) => {
    const lease = context.execution?.run.lease
    const retries = { attempts: 3, backoff: "2 seconds" } as const
    await step.run(
      "first",
      async ({ idempotencyKey, signal }) => {
        // The effect comes before or after the trouble: a step that is cut off may or may not have had its effect.
        if (n % 2 === 0) affected("charged", context.id, idempotencyKey)
        await trouble(n, signal)
        if (n % 2 === 1) affected("charged", context.id, idempotencyKey)
        return { lease, key: idempotencyKey }
      },
      { ...retries, undo: ({ key }) => affected("refunded", context.id, key) }
    )
    await step.sleep("nap", "1500ms")
    await step.allSettled("leaves", [1, 2], (index) => child(leaf, { n: n * 1000 + index }))
    await step.run("second", () => lease, retries)
  }

/** Declared once, because declaring a workflow compiles the schema of its kind. */
const declared = ofRecipe(workflow(executionKind, settings, async () => undefined))

/** The handler of executions. `misbehave` fails in every way a handler can. */
export const handler = (
  misbehave: (job: JobContext, n: number) => Effect.Effect<unknown, string>,
  affected: History["affected"]
): CoreHandler => {
  const made = (context: JobContext, trouble: Parameters<typeof code>[1]) =>
    ofRecipe(workflow(executionKind, settings, code(context, trouble, affected)))
  const { kind, transactional } = declared
  return {
    kind,
    transactional,
    run: (payload, context) =>
      Effect.flatMap(Effect.runtime<never>(), (runtime) => {
        const trouble = async (n: number, signal: AbortSignal) => {
          const exit = await Runtime.runPromiseExit(runtime)(misbehave(context, n), { signal })
          if (Exit.isFailure(exit)) throw new Error("on purpose")
          // Handlers of jobs return an outcome, but a step throws it: `dead` ends the retries of the step.
          if (Outcome.isOutcome(exit.value)) throw exit.value
        }
        return made(context, trouble).run(payload, context)
      })
  }
}

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

export const invariants: ReadonlyArray<Invariant> = [
  recordedOnce,
  childrenEnded,
  undoneWhenOver,
  undoneWhenDead,
  neverChanged
]
