import { assert } from "@effect/vitest"
import { Effect } from "effect"
import type { ExecutionFilter } from "../../src/queue/workflow/Execution.js"
import type { ExecutionSort } from "../../src/queue/workflow/ExecutionPage.js"
import { ends, type Law, type Line } from "./Line.js"
import { begin, childOf, done, end, executionOf, step, suspend } from "./WorkflowLine.js"

const wait = { kind: "children", name: "ship" } as const

/** Starts an execution with three children that have ended, one that failed, and one that waits for a signal. */
const family = (line: Line) =>
  Effect.gen(function* () {
    const parent = yield* begin(line)
    const plain = (name: string) => childOf(line, name, { execution: undefined })
    const children = [childOf(line, "a"), childOf(line, "b"), childOf(line, "c"), plain("d"), plain("e")]
    yield* line.workflows.startChildren(parent, "ship", children)
    yield* suspend(line, parent, [wait])
    const claimed = yield* line.claim()
    const { children: started } = yield* line.workflows.show(`${line.name}/order`)
    const [a, b, c, d, e] = started.map(({ id }) => claimed.find((each) => each.id === id))
    if (a === undefined || b === undefined || c === undefined || d === undefined || e === undefined)
      return assert.fail("five children")
    yield* end(line, a, done())
    yield* end(line, b, ends.cancelled)
    yield* suspend(line, c, [{ kind: "signal", name: "approval" }])
    yield* end(line, d, done())
    yield* end(line, e, ends.dead)
    return { d }
  })

/** Names of all executions, one per page. */
const pagesOf = (
  line: Line,
  filter: ExecutionFilter,
  sort: ExecutionSort,
  afterPage: Effect.Effect<unknown> = Effect.void
) =>
  Effect.gen(function* () {
    const found: Array<string> = []
    let before: string | undefined
    do {
      const page = yield* line.workflows.list({ prefix: `${line.name}/`, ...filter }, { limit: 1, before, sort })
      found.push(...page.executions.map(({ execution }) => execution.slice(line.name.length + 1)))
      before = page.next
      yield* afterPage
    } while (before !== undefined)
    return found.join("")
  })

/** What lists of executions tell besides the executions: children, failed steps, counts and orders. */
export const executionListLaws = (law: Law): void => {
  law("a list of roots leaves out executions that another one started", (line) =>
    Effect.gen(function* () {
      yield* family(line)
      yield* line.workflows.start(executionOf(line, "other", { tags: { customer: line.name } }))
      const names = (filter: ExecutionFilter) =>
        Effect.map(line.workflows.list({ prefix: `${line.name}/`, ...filter }, { limit: 10 }), ({ executions }) =>
          executions.map(({ execution }) => execution.slice(line.name.length + 1))
        )
      assert.deepStrictEqual(yield* names({ roots: true }), ["other", "order"])
      assert.strictEqual((yield* names({})).length, 5)
      assert.strictEqual((yield* names({ roots: false })).length, 5)
      assert.deepStrictEqual(yield* names({ roots: true, tag: { customer: line.name } }), ["other"])
      assert.strictEqual(yield* line.workflows.count({ prefix: `${line.name}/`, roots: true }), 2)
    })
  )

  law("a summary counts the children by what happened to them", (line) =>
    Effect.gen(function* () {
      const { d } = yield* family(line)
      const counts = Effect.map(line.workflows.show(`${line.name}/order`), ({ childCounts }) => childCounts)
      const expected = { done: 2, failed: 1, cancelled: 1, open: 1, deleted: 0, more: false }
      assert.deepStrictEqual(yield* counts, expected)
      yield* line.jobAdmin.remove(d.id)
      assert.deepStrictEqual(yield* counts, { ...expected, done: 1, deleted: 1 })
      const none = (yield* line.workflows.show(`${line.name}/ship/a`)).childCounts
      assert.deepStrictEqual(none, { done: 0, failed: 0, cancelled: 0, open: 0, deleted: 0, more: false })
    })
  )

  law("a summary has the number of done steps, and the step that failed last if the execution failed", (line) =>
    Effect.gen(function* () {
      const run = yield* begin(line)
      const exit = { error: { name: "Error", message: "no" } }
      yield* line.workflows.record(run, step("reserve"))
      yield* line.workflows.record(run, step("charge", { sequence: 2, outcome: "failed", exit }))
      yield* line.workflows.record(run, step("notify", { sequence: 3 }))
      const shown = Effect.map(line.workflows.show(`${line.name}/order`), ({ failedStep, stepsDone }) => ({
        failedStep,
        stepsDone
      }))
      // The code has caught the error.
      assert.deepStrictEqual(yield* shown, { stepsDone: 2, failedStep: undefined })
      yield* line.workflows.record(run, step("ship", { sequence: 4, outcome: "failed", exit }))
      yield* end(line, run, ends.dead)
      assert.deepStrictEqual(yield* shown, { stepsDone: 2, failedStep: "ship" })
      const cancelled = yield* begin(line, "other")
      yield* line.workflows.record(cancelled, step("charge", { outcome: "failed", exit }))
      yield* end(line, cancelled, ends.cancelled)
      assert.strictEqual((yield* line.workflows.show(`${line.name}/other`)).failedStep, undefined)
    })
  )

  law("executions are counted by state", (line) =>
    Effect.gen(function* () {
      yield* family(line)
      yield* line.workflows.start(executionOf(line, "other", { tags: { customer: line.name } }))
      const states = (filter: ExecutionFilter) =>
        Effect.map(line.workflows.countStates({ prefix: `${line.name}/`, ...filter }), ({ counts, exact }) => {
          assert.isTrue(exact)
          return Object.entries(counts).filter(([, count]) => count > 0)
        })
      assert.deepStrictEqual(yield* states({}), [
        ["pending", 1],
        ["waiting", 2],
        ["done", 1],
        ["cancelled", 1]
      ])
      assert.deepStrictEqual(yield* states({ roots: true }), [
        ["pending", 1],
        ["waiting", 1]
      ])
      assert.deepStrictEqual(yield* states({ tag: { customer: line.name } }), [["pending", 1]])
    })
  )

  law("executions are sorted by duration and by their end, page by page", (line) =>
    Effect.gen(function* () {
      const tags = { customer: line.name }
      const runs = new Map<string, Effect.Effect.Success<ReturnType<typeof begin>>>()
      for (const name of ["a", "b", "c"]) {
        runs.set(name, yield* begin(line, name, { tags }))
        yield* line.advance("1 minute")
      }
      for (const name of ["b", "a"]) {
        const run = runs.get(name)
        if (run === undefined) return assert.fail("a run")
        yield* end(line, run, done())
        yield* line.advance("3 minutes")
      }
      const pages = (filter: ExecutionFilter, sort: ExecutionSort) => pagesOf(line, filter, sort)
      for (const filter of [{}, { tag: tags }]) {
        // Six minutes and a bit, seven, and two.
        assert.strictEqual(yield* pages(filter, { by: "duration", descending: true }), "cab")
        assert.strictEqual(yield* pages(filter, { by: "duration", descending: false }), "bac")
        // One that has not ended is last.
        assert.strictEqual(yield* pages(filter, { by: "finished", descending: true }), "abc")
        assert.strictEqual(yield* pages(filter, { by: "finished", descending: false }), "bac")
      }
      const bad = line.workflows.list({}, { limit: 1, before: "x", sort: { by: "duration", descending: true } })
      assert.strictEqual((yield* Effect.flip(bad))._tag, "BadCursor")
    })
  )

  law("executions that run are sorted by duration as of the first page", (line) =>
    Effect.gen(function* () {
      for (const name of ["a", "b", "c"]) {
        yield* begin(line, name)
        yield* line.advance("1 minute")
      }
      const pages = (descending: boolean) =>
        pagesOf(line, {}, { by: "duration", descending }, line.advance("5 minutes"))
      assert.strictEqual(yield* pages(true), "abc")
      assert.strictEqual(yield* pages(false), "cba")
    })
  )
}
