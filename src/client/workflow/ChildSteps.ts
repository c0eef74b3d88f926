import { Cause, Either, Predicate } from "effect"
import { withoutTrace } from "../../core/ErrorText.js"
import type { Child } from "../../queue/workflow/Execution.js"
import type { NewChild } from "../../queue/workflow/Workflows.js"
import * as Enqueue from "../Enqueue.js"
import { fromCause } from "../FromCause.js"
import type { Stored } from "./Replay.js"
import type { ChildCall, ChildEnd, ChildrenOptions, ChildUndoContext, RaceOptions, Step, StepContext } from "./Step.js"
import { checkAll, checkChildren, checked, checkedChild, checkName, checkRace } from "./StepArguments.js"
import * as StepExit from "./StepExit.js"
import * as StepScope from "./StepScope.js"
import type { WorkflowRun } from "./WorkflowRun.js"

// The steps that start children: `all`, `allSettled`, `race` and `start`.

/** Distinguishes children from those of the same step: of a fork, of another journal, or before an undo. */
interface Names {
  /** The id of a child without a key. */
  readonly fallback: string
  /** Appended to the key of a child, if the execution must not share it. */
  readonly suffix: string
}

const childOf = async (call: ChildCall<unknown>, { fallback, suffix }: Names, now: number): Promise<NewChild> => {
  const target = call.job as Enqueue.Enqueueable<unknown, unknown>
  const made = await Enqueue.newJob(target, call.payload, {}, () => now)
  const job = Either.getOrThrowWith(made, (error) => fromCause(Cause.fail(error)))
  const { dedupe: _, id: __, isExecution: ___, isChild: ____, ...rest } = job
  if (!call.isWorkflow) return rest
  if (suffix === "" || call.execution === undefined) return { ...rest, execution: call.execution ?? fallback }
  return { ...rest, execution: `${call.execution}${suffix}`, meta: { forkOf: call.execution } }
}

/** Whether starting the same children again would fail again. */
const isRefused = (error: unknown): boolean =>
  Predicate.hasProperty(error, "_tag") && ["InvalidJob", "ChildNotLinked", "JobIdTaken"].includes(String(error._tag))

const endOf = ({ job }: Child): ChildEnd<unknown> => {
  if (job === undefined) return { state: "deleted", error: "its job was deleted" }
  if (job.state === "done") return { state: "done", value: job.result ?? null }
  const state = job.state === "cancelled" ? "cancelled" : job.execution === undefined ? "dead" : "failed"
  return { state, error: job.lastError === undefined ? (job.reason ?? state) : withoutTrace(job.lastError) }
}

/** The results of children that are done, by position. */
type Results = ReadonlyArray<readonly [position: number, value: unknown]>

const resultsOf = (ends: ReadonlyArray<ChildEnd<unknown>>): Results =>
  ends.flatMap((end, position) => (end.state === "done" ? [[position, end.value] as const] : []))

/** How the ends of the children become the result of a step, and which children that result undoes. */
interface Judge {
  /** Whether the step ends with the first child. */
  readonly first?: boolean
  readonly conclude: (run: WorkflowRun, name: string, children: ReadonlyArray<Child>) => Promise<Stored> | Stored
  readonly done: (stored: Stored) => Results
}

/** The failure of a step, with the results of children that are done: an undo needs them. */
const failed = (message: string, failures: Parameters<typeof StepExit.ofError>[1], results: Results): Stored => {
  const { exit, outcome } = StepExit.ofError(new Error(message), failures)
  return { outcome, exit: results.length === 0 ? exit : { ...(exit as object), done: results } }
}

const doneOfFailed = ({ exit }: Stored): Results => (Predicate.hasProperty(exit, "done") ? (exit.done as Results) : [])

/** The result of `all`: every value, or the failures. */
const all = (hasUndo: boolean): Judge => ({
  conclude: (_, name, children) => {
    const ends = children.map(endOf)
    const failures = ends.flatMap((end, position) => (end.state === "done" ? [] : [{ position, error: end.error }]))
    if (failures.length === 0) return StepExit.ofValue(ends.map((end) => (end.state === "done" ? end.value : null)))
    const [first] = failures
    const message = `${failures.length} of ${ends.length} children of "${name}" failed; items[${first?.position}]: ${first?.error}`
    return failed(message, failures.slice(0, 100), hasUndo ? resultsOf(ends) : [])
  },
  done: (stored) =>
    stored.outcome === "failed"
      ? doneOfFailed(stored)
      : (StepExit.recordedValue(stored) as ReadonlyArray<unknown>).map((value, position) => [position, value] as const)
})

const allSettled: Judge = {
  conclude: (_, __, children) => StepExit.ofValue(children.map(endOf)),
  done: (stored) =>
    stored.outcome === "failed" ? [] : resultsOf(StepExit.recordedValue(stored) as ReadonlyArray<ChildEnd<unknown>>)
}

/** Earlier ends first. At the same instant, a cancelled child may be a loser that an earlier run has cancelled. */
const rank = ({ job, position }: Child): readonly [number, number, number] => [
  job?.finishedAt ?? 0,
  job?.state === "done" ? 0 : job?.state === "cancelled" ? 2 : 1,
  position
]

const byRank = (a: Child, b: Child): number => {
  const [left, right] = [rank(a), rank(b)]
  return left[0] - right[0] || left[1] - right[1] || left[2] - right[2]
}

/** The result of `race`: the value and the position of the first child to end. */
const race = (cancels: boolean): Judge => ({
  first: true,
  conclude: async (run, name, children) => {
    const [winner] = children.filter(({ job }) => job === undefined || job.finishedAt !== undefined).sort(byRank)
    if (winner === undefined) return failed(`"${name}" has no child that has ended`, undefined, [])
    const { execution, workflows } = { execution: run.execution.id, workflows: run.journal.workflows }
    await run.journal.withRetries(workflows.endRace(execution, name, winner.position, cancels))
    const end = endOf(winner)
    const { position } = winner
    if (end.state === "done") return StepExit.ofValue({ index: position, value: end.value })
    const message = `the first child of "${name}" to end, items[${position}], failed: ${end.error}`
    return failed(message, [{ position, error: end.error }], [])
  },
  done: (stored) => {
    if (stored.outcome === "failed") return []
    const { index, value } = StepExit.recordedValue(stored) as { readonly index: number; readonly value: unknown }
    return [[index, value]]
  }
})

export const make = (run: WorkflowRun, isFork: boolean): Pick<Step, "all" | "allSettled" | "race" | "start"> => {
  /** Undoes the children that are done, the last one first: each in a recorded step inside the undo of the step. */
  const undoEach = async (
    undo: (result: never, context: ChildUndoContext) => unknown,
    results: Results
  ): Promise<void> => {
    const errors: Array<unknown> = []
    for (const [index, value] of [...results].reverse()) {
      const one = run.call(
        "run",
        `items[${index}]`,
        (name, settle) =>
          run.attempt({
            name,
            base: name,
            kind: "run",
            options: {},
            perform: async (context: StepContext, record) => {
              const own = Object.assign(context, { index })
              await StepScope.inside(run, name, () => undo(value as never, own))
              return record(StepExit.ofValue(undefined))
            },
            settle
          }),
        () => undefined
      )
      await one.catch((error: unknown) => void errors.push(error))
    }
    const [first] = errors
    if (first !== undefined) throw first
  }

  /** The children of a step. */
  const ended = (step: string): Promise<ReadonlyArray<Child>> =>
    run.journal.withRetries(run.journal.workflows.children(run.execution.id, step))

  const children = <A>(
    name: string,
    items: ReadonlyArray<unknown>,
    call: (item: never, index: number) => ChildCall<unknown>,
    judge: Judge,
    { onParentCancel, undo }: ChildrenOptions<never>,
    detached = false
  ): Promise<A> => {
    const left = onParentCancel === "leave"
    const onUndo = (stored: Stored, step: string, sequence: number) => {
      if (undo === undefined) return
      const isUnstored = judge.first !== true && StepExit.isUnstored(stored.exit)
      const results = isUnstored ? [] : judge.done(stored)
      if (results.length === 0 && !isUnstored) return
      // The result was too large to store: its parts are those of the children.
      const code = async () => undoEach(undo, isUnstored ? resultsOf((await ended(step)).map(endOf)) : results)
      // The steps inside have their own retries.
      run.onUndo({ step, base: name, sequence, options: { attempts: 1 }, code })
    }
    return run.call(
      "children",
      name,
      (numbered, settle) => {
        const startedAt = run.journal.begunAt("children", numbered, run.now())
        const step = { name: numbered, kind: "children" } as const
        const { generation } = run.journal
        // Children that were started before and undone run again as new ones.
        const before = run.journal.attemptsOf(numbered).filter(({ exit }) => !StepExit.isUnstarted(exit)).length
        const again = before === 0 ? "" : `/again-${before}`
        const suffix = `${isFork ? `@${run.execution.id}` : ""}${again}`
        // The mapper and the validators of the payloads are code of the workflow: their errors are those of the step.
        const made = async (): Promise<ReadonlyArray<NewChild>> =>
          Promise.all(
            items.map((item, index) => {
              const child = checkedChild(name, call(item as never, index), ` for items[${index}]`)
              return childOf(child, { fallback: `${generation}/${numbered}/${index}${again}`, suffix }, run.now())
            })
          )
        /** Starts the children. Returns the error of those that can never start. */
        const begin = async (): Promise<{ readonly error: unknown } | undefined> => {
          const jobs = await made().catch((error: unknown) => ({ error }))
          if ("error" in jobs) return jobs
          return run.journal.startChildren(numbered, jobs, { detached, left, first: judge.first }).then(
            () => undefined,
            (error: unknown) => {
              if (isRefused(error)) return { error }
              throw error
            }
          )
        }
        const collect = () =>
          run.busy(async () => {
            run.conclude(step, await judge.conclude(run, numbered, await ended(numbered)), settle, startedAt)
          })
        const arrived = () => {
          const isOver = run.journal.deferred("children", numbered)?.completedAt !== undefined
          if (isOver) collect()
          return isOver
        }
        const wait = () => run.block({ kind: "children", name: numbered }, { arrived })
        run.busy(async () => {
          await run.journal.known()
          const known = run.journal.deferred("children", numbered)
          const fault = known === undefined && items.length > 0 ? await begin() : undefined
          if (fault !== undefined) return run.conclude(step, StepExit.unstarted(fault.error), settle, startedAt)
          if (detached) run.conclude(step, StepExit.ofValue(undefined), settle, startedAt)
          else if (known?.completedAt !== undefined || items.length === 0) collect()
          else wait()
        })
      },
      (stored, step, sequence) => {
        onUndo(stored, step, sequence)
        return StepExit.recordedValue(stored) as A
      },
      // A cancelled execution waits for its children before it undoes those that are done, unless they are left alone.
      { canUndo: undo !== undefined && !left, onFailed: onUndo }
    )
  }

  return {
    all: (name, items, call, options = {}) =>
      checked(() => {
        checkAll(name, items, call)
        checkChildren(name, options)
        return children(name, items, call as never, all(options.undo !== undefined), options)
      }),
    allSettled: (name, items, call, options = {}) =>
      checked(() => {
        checkAll(name, items, call)
        checkChildren(name, options)
        return children(name, items, call as never, allSettled, options)
      }),
    race: <Item, Result>(
      name: string,
      items: ReadonlyArray<Item>,
      call: (item: Item, index: number) => ChildCall<Result>,
      options: RaceOptions<Result> = {}
    ) =>
      checked(() => {
        checkAll(name, items, call)
        checkRace(name, items, options)
        return children<{ readonly index: number; readonly value: Result }>(
          name,
          items,
          call as never,
          race(options.losers !== "leave"),
          options
        )
      }),
    start: (name, call) =>
      checked(() => {
        checkName(name)
        checkedChild(name, call)
        return children(name, [undefined], () => call, all(false), {}, true)
      })
  }
}
