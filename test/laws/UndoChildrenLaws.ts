import { assert } from "@effect/vitest"
import { Effect, Option } from "effect"
import type { JobId } from "../../src/core/Ids.js"
import type { Operation } from "../../src/queue/admin/Operations.js"
import { ends, type Law, type Line } from "./Line.js"
import { begin, childOf, done, end, step, suspend } from "./WorkflowLine.js"

const finish = (line: Line, id: string): Effect.Effect<Operation, unknown> =>
  Effect.flatMap(line.operations.step(id), (went) =>
    Option.isSome(went) && went.value.status === "running" ? finish(line, id) : line.operations.get(id)
  )

const states = (line: Line) =>
  Effect.map(
    Effect.forEach(["order", "ship/a", "ship/leaf"], (name) => line.workflows.show(`${line.name}/${name}`)),
    (all) => all.map(({ state }) => state)
  )

/** The execution `order` with the child a, whose child leaf failed, and with it both. */
const failedTree = (line: Line) =>
  Effect.gen(function* () {
    const order = yield* begin(line)
    yield* line.workflows.startChildren(order, "ship", [childOf(line, "a")])
    yield* suspend(line, order, [{ kind: "children", name: "ship" }])
    const a = yield* line.claimOne
    yield* line.workflows.startChildren(a, "pack", [childOf(line, "leaf")])
    yield* suspend(line, a, [{ kind: "children", name: "pack" }])
    const leaf = yield* line.claimOne
    yield* end(line, leaf, ends.dead)
    for (const name of ["pack", "ship"]) {
      const job = yield* line.claimOne
      yield* line.workflows.record(job, step(name, { kind: "children", outcome: "failed" }))
      yield* end(line, job, ends.dead)
    }
    yield* line.advance("1 second")
    return { order: order.id, a: a.id, leaf: leaf.id }
  })

/** Requeues a job, so that it can be undone. Returns the act. */
const requeue = (line: Line, id: JobId) =>
  Effect.gen(function* () {
    const act = yield* line.newId
    yield* line.jobAdmin.recordingUndo(act).requeue(id)
    yield* line.advance("1 second")
    return act
  })

const requeueAll = (line: Line, ids: ReadonlyArray<JobId>) =>
  Effect.gen(function* () {
    const { id } = yield* line.operations.begin({ action: "requeue", who: "law", target: { ids } })
    yield* finish(line, id)
    yield* line.advance("1 second")
    return id
  })

const undoAll = (line: Line, id: string) =>
  Effect.flatMap(line.operations.undo(id, { who: "law" }), (begun) => finish(line, begun.id))

/** Ends the whole tree after another retry: each execution waits for its child. */
const goesOn = (line: Line) =>
  Effect.gen(function* () {
    yield* line.workflows.retry(`${line.name}/order`)
    assert.deepStrictEqual(yield* states(line), ["pending", "pending", "pending"])
    const due = yield* line.claim()
    assert.strictEqual(due.length, 3)
    const named = (name: string) => due.find(({ execution }) => execution?.id === `${line.name}/${name}`)
    const [order, a, leaf] = [named("order"), named("ship/a"), named("ship/leaf")]
    if (order === undefined || a === undefined || leaf === undefined) return assert.fail("three executions")
    yield* suspend(line, order, [{ kind: "children", name: "ship" }])
    yield* suspend(line, a, [{ kind: "children", name: "pack" }])
    assert.deepStrictEqual(yield* line.claim(), [])
    yield* end(line, leaf, done())
    for (const id of [a.id, order.id]) {
      const job = yield* line.claimOne
      assert.strictEqual(job.id, id)
      yield* end(line, job, done())
    }
  })

/** Laws of the undo of a requeue that reached children. */
export const undoChildrenLaws = (law: Law): void => {
  law("undo of a requeue takes back the children that were requeued with their parent", (line) =>
    Effect.gen(function* () {
      const { order } = yield* failedTree(line)
      const before = yield* line.all()
      const act = yield* requeue(line, order)
      assert.deepStrictEqual(yield* states(line), ["pending", "pending", "pending"])
      yield* line.jobAdmin.undo(order, act)
      assert.deepStrictEqual(yield* states(line), ["failed", "failed", "failed"])
      const untimed = (jobs: typeof before) => jobs.map(({ updatedAt: _, ...job }) => job)
      assert.deepStrictEqual(untimed(yield* line.all()), untimed(before))
      assert.deepStrictEqual(yield* line.claim(), [])
      yield* goesOn(line)
    })
  )

  law("undo of an operation does the same, and counts the jobs that the operation named", (line) =>
    Effect.gen(function* () {
      const { order } = yield* failedTree(line)
      const operation = yield* requeueAll(line, [order])
      const undo = yield* undoAll(line, operation)
      assert.deepStrictEqual([undo.total?.count, undo.done, undo.skipped], [1, 1, {}])
      assert.deepStrictEqual(yield* states(line), ["failed", "failed", "failed"])
      yield* goesOn(line)
    })
  )

  law("undo of an operation that named parents and children restores them all", (line) =>
    Effect.gen(function* () {
      const { a, leaf, order } = yield* failedTree(line)
      const operation = yield* requeueAll(line, [leaf, a, order])
      yield* undoAll(line, operation)
      assert.deepStrictEqual(yield* states(line), ["failed", "failed", "failed"])
      yield* goesOn(line)
    })
  )

  law("undo leaves children that changed since, and those below them", (line) =>
    Effect.gen(function* () {
      const { a, order } = yield* failedTree(line)
      const act = yield* requeue(line, order)
      yield* line.jobAdmin.edit(a, { priority: 5 })
      yield* line.jobAdmin.undo(order, act)
      assert.deepStrictEqual(yield* states(line), ["failed", "pending", "pending"])
    })
  )

  law("undo of a parent that changed since leaves its children", (line) =>
    Effect.gen(function* () {
      const { order } = yield* failedTree(line)
      const act = yield* requeue(line, order)
      yield* line.jobAdmin.edit(order, { priority: 5 })
      assert.strictEqual((yield* Effect.flip(line.jobAdmin.undo(order, act)))._tag, "UndoRefused")
      assert.deepStrictEqual(yield* states(line), ["pending", "pending", "pending"])
    })
  )

  law("undo leaves a child that another execution waits for", (line) =>
    Effect.gen(function* () {
      const { order } = yield* failedTree(line)
      const other = yield* begin(line, "other")
      const act = yield* requeue(line, order)
      yield* line.workflows.startChildren(other, "pack", [childOf(line, "leaf")])
      yield* suspend(line, other, [{ kind: "children", name: "pack" }])
      yield* line.jobAdmin.undo(order, act)
      assert.deepStrictEqual(yield* states(line), ["failed", "failed", "pending"])
      yield* end(line, yield* line.claimOne, done())
      assert.strictEqual((yield* line.claimOne).id, other.id)
    })
  )

  law("undo of the requeue of a child ends the wait of a parent that was retried since", (line) =>
    Effect.gen(function* () {
      const { a, leaf } = yield* failedTree(line)
      const act = yield* requeue(line, leaf)
      yield* line.jobAdmin.requeue(a)
      const wait = Effect.map(line.workflows.show(`${line.name}/ship/a`), ({ deferreds }) => deferreds[0])
      assert.strictEqual((yield* wait)?.remaining, 1)
      yield* line.jobAdmin.undo(leaf, act)
      const { completedAt, remaining } = (yield* wait) ?? {}
      assert.deepStrictEqual([remaining, completedAt === undefined], [0, false])
    })
  )
}
