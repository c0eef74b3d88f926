import { Effect, Exit, Runtime, Schema } from "effect"
import { ofRecipe } from "../../client/Handlers.js"
import { job } from "../../client/JobDefinition.js"
import type { CoreHandler } from "../../client/PromiseHandler.js"
import type { Step } from "../../client/workflow/Step.js"
import { child, workflow } from "../../client/workflow/WorkflowDefinition.js"
import * as Outcome from "../../core/Outcome.js"
import type { JobContext } from "../../handlers/JobContext.js"
import type { NewJob } from "../../queue/NewJob.js"
import * as Chapters from "./Chapters.js"
import type { History } from "./History.js"
import { Dice, digest } from "./Seed.js"

// Workflow executions in the simulation, run by the real replay of async workflows: each runs a step that misbehaves and
// can be undone, sleeps and ends with a second step. Between or before them is a chapter, and usually two children.

export const executionKind = "story"

/** Makes the job of an execution. */
export const executionJobOf = (job: NewJob, n: number): NewJob => ({
  ...job,
  isExecution: true,
  dedupe: { key: `${executionKind}/${n}`, scope: "retained" }
})

/** What clients do with the execution of a job. Undefined for other jobs. */
export const mailTo = (seed: number, { dedupe, kind }: NewJob): Chapters.Mail | undefined => {
  if (kind !== executionKind || dedupe === undefined) return undefined
  return Chapters.mailTo(seed, Number(dedupe.key.slice(executionKind.length + 1)), dedupe.key)
}

/** Which jobs of a seed are executions: none in some seeds, most of them in others. */
export const areExecutions = (seed: number, count: number): ReadonlyArray<boolean> => {
  const dice = new Dice(digest("stories", seed))
  const share = dice.pick(0, 0.15, 0.3, 0.8)
  return Array.from({ length: count }, () => dice.chance(share))
}

const settings = {
  payload: Schema.standardSchemaV1(Schema.Struct({ n: Schema.Int, part: Schema.optional(Schema.Int) })),
  queue: "plain",
  timeout: "5 seconds",
  attempts: 2,
  backoff: "2 seconds"
} as const

const leaf = job("leaf", settings)

/** What the code of an execution uses of the simulation. */
interface World {
  readonly seed: number
  readonly context: JobContext
  /** Fails in every way a handler can. */
  readonly trouble: (n: number, signal: AbortSignal) => Promise<unknown>
  readonly sleep: (millis: number, signal: AbortSignal) => Promise<void>
  readonly history: StoryHistory
}

/** What the code of executions records and looks up outside the database. */
export type StoryHistory = Pick<History, "affected" | "enter" | "report" | "childOf" | "mayRun" | "rows">

const code =
  ({ context, history, seed, sleep, trouble }: World) =>
  async ({ n, part = 0 }: { readonly n: number; readonly part?: number | undefined }, step: Step) => {
    const { id } = context
    const lease = context.execution?.run.lease
    const story: Chapters.Story = {
      seed,
      n,
      part,
      step,
      sleep,
      enter: (most) => history.enter(id, lease, most),
      expect: (invariant, holds, found) => {
        if (!holds) history.report(invariant, id, found)
      },
      leaf: (index) => child(leaf, { n: n * 1000 + index }),
      isDone: (name, index) => {
        const found = history.childOf(id, name, index)
        return found !== undefined && history.rows.get(found)?.status === "done"
      }
    }
    await Chapters.begin(story)
    const retries = { attempts: 3, backoff: "2 seconds" } as const
    await step.run(
      "first",
      async ({ idempotencyKey, signal }) => {
        // The effect comes before or after the trouble: a step that is cut off may or may not have had its effect.
        if (n % 2 === 0) history.affected("charged", id, idempotencyKey)
        await trouble(n, signal)
        if (n % 2 === 1) history.affected("charged", id, idempotencyKey)
        return { lease, key: idempotencyKey }
      },
      { ...retries, undo: ({ key }) => history.affected("refunded", id, key) }
    )
    await step.sleep("nap", "1500ms")
    await Chapters.run(story)
    await step.run("second", () => lease, retries)
  }

const declaredWith = (pin: boolean) => ofRecipe(workflow(executionKind, { ...settings, pin }, async () => undefined))

/** Declared once, because declaring a workflow compiles the schema of its kind. */
const declared = { free: declaredWith(false), pinned: declaredWith(true) }

/** The handler of executions. `misbehave` fails in every way a handler can. */
export const handler = (
  misbehave: (job: JobContext, n: number) => Effect.Effect<unknown, string>,
  { history, seed }: Pick<World, "history" | "seed">
): CoreHandler => {
  const pin = Chapters.arePinned(seed)
  const { kind, transactional } = pin ? declared.pinned : declared.free
  return {
    kind,
    transactional,
    run: (payload, context) =>
      Effect.flatMap(Effect.runtime<never>(), (runtime) => {
        const { execution, id } = context
        if (!history.mayRun(id, execution?.run.lease, execution?.state.release))
          history.report("pin", id, "runs in another release than the one that it is pinned to")
        const trouble = async (n: number, signal: AbortSignal) => {
          const exit = await Runtime.runPromiseExit(runtime)(misbehave(context, n), { signal })
          if (Exit.isFailure(exit)) throw new Error("on purpose")
          // Handlers of jobs return an outcome, but a step throws it: `dead` ends the retries of the step.
          if (Outcome.isOutcome(exit.value)) throw exit.value
        }
        const sleep = async (millis: number, signal: AbortSignal) => {
          const exit = await Runtime.runPromiseExit(runtime)(Effect.sleep(millis), { signal })
          if (Exit.isFailure(exit)) throw new Error("aborted")
        }
        const made = workflow(executionKind, { ...settings, pin }, code({ seed, context, trouble, sleep, history }))
        return ofRecipe(made).run(payload, context)
      })
  }
}
