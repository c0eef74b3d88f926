import { assert } from "@effect/vitest"
import { Duration, Effect, Option } from "effect"
import type { JobId } from "../../src/core/Ids.js"
import type { Action, Operation } from "../../src/queue/admin/Operations.js"
import { isLong } from "../support/Scale.js"
import { ends, type Law, type Line } from "./Line.js"
import { begin, childOf, done, end, executionOf, step, suspend } from "./WorkflowLine.js"

const finish = (line: Line, id: string): Effect.Effect<Operation, unknown> =>
  Effect.flatMap(line.operations.step(id), (went) =>
    Option.isSome(went) && went.value.status === "running" ? finish(line, id) : line.operations.get(id)
  )

/** Runs an operation on these jobs, and lets a second pass. */
const perform = (line: Line, action: Action, ids: ReadonlyArray<JobId>) =>
  Effect.gen(function* () {
    yield* line.advance("1 second")
    const { id } = yield* line.operations.begin({ action, who: "law", target: { ids } })
    const ended = yield* finish(line, id)
    yield* line.advance("1 second")
    return ended
  })

const undoAll = (line: Line, { id }: Operation) =>
  Effect.flatMap(line.operations.undo(id, { who: "law" }), (begun) => finish(line, begun.id))

/** An execution that has paid and waits for a signal and for two children: an execution and a plain job. */
const waiting = (line: Line) =>
  Effect.gen(function* () {
    const order = yield* begin(line, "order", { tags: { customer: line.name } })
    yield* line.workflows.record(order, step("pay"))
    yield* line.workflows.streams.begin(order, "tokens", 1)
    const batch = { name: "tokens", generation: 1, number: 0, count: 2, bytes: 7, text: '["a","b"]' }
    yield* line.workflows.streams.append(order, batch)
    const { execution: _, ...plain } = childOf(line, "plain")
    yield* line.workflows.startChildren(order, "ship", [childOf(line, "a"), plain])
    yield* line.workflows.signal({ execution: `${line.name}/order`, name: "early", value: 7 })
    yield* suspend(
      line,
      order,
      [
        { kind: "children", name: "ship" },
        { kind: "signal", name: "approve", dueAt: (yield* line.now) + 86_400_000 }
      ],
      1
    )
    const [a, b] = yield* line.workflows.children(`${line.name}/order`)
    if (a === undefined || b === undefined) return assert.fail("two children")
    return { order: order.id, children: [a.id, b.id] as const }
  })

/** All that can be read about the execution, without the times that an undo moves. */
const whole = (line: Line) =>
  Effect.gen(function* () {
    const { updatedAt: _, ...shown } = yield* line.workflows.show(`${line.name}/order`)
    const jobs = (yield* line.all()).map(({ updatedAt: _, ...job }) => job)
    return { shown, jobs, children: yield* line.workflows.children(`${line.name}/order`) }
  })

const waitFor = (line: Line, kind: "children" | "signal", named: string) =>
  Effect.map(line.workflows.show(`${line.name}/order`), ({ deferreds }) =>
    deferreds.find((each) => each.kind === kind && each.name === named)
  )

/** Claims the execution, which sees its recorded step. */
const goesOn = (line: Line, order: JobId) =>
  Effect.gen(function* () {
    const run = yield* line.claimOne
    assert.strictEqual(run.id, order)
    const journal = yield* line.workflows.load(run)
    assert.deepStrictEqual(
      journal.steps.map(({ exit, name }) => [name, exit]),
      [["pay", { value: "pay" }]]
    )
    return { run, journal }
  })

/** Laws of undo for workflow executions that were deleted or cancelled. */
export const undoExecutionLaws = (law: Law): void => {
  law("undo of a delete restores an execution with its journal, waits, signals and children", (line) =>
    Effect.gen(function* () {
      const { children, order } = yield* waiting(line)
      const before = yield* whole(line)
      const deleted = yield* perform(line, "delete", [order, ...children])
      assert.strictEqual(deleted.done, 3)
      assert.deepStrictEqual(yield* line.all(), [])
      const undo = yield* undoAll(line, deleted)
      assert.deepStrictEqual([undo.total?.count, undo.done, undo.skipped], [3, 3, {}])
      assert.deepStrictEqual(yield* whole(line), before)
      for (const child of yield* line.claim(2)) yield* end(line, child, done())
      const { journal } = yield* goesOn(line, order)
      assert.strictEqual(journal.waits.find(({ name }) => name === "early")?.exit, 7)
    })
  )

  law("undo of the delete of one execution restores it too", (line) =>
    Effect.gen(function* () {
      const { order } = yield* waiting(line)
      const before = yield* whole(line)
      const act = yield* line.newId
      yield* line.jobAdmin.recordingUndo(act).remove(order)
      yield* line.advance("1 second")
      yield* line.jobAdmin.undo(order, act)
      assert.deepStrictEqual(yield* whole(line), before)
    })
  )

  law("a restored execution sees signals and ends of children that came while it was deleted", (line) =>
    Effect.gen(function* () {
      const { order } = yield* waiting(line)
      const deleted = yield* perform(line, "delete", [order])
      for (const child of yield* line.claim(2)) yield* end(line, child, done())
      yield* line.workflows.signal({ execution: `${line.name}/order`, name: "approve", value: "yes" })
      yield* undoAll(line, deleted)
      const { journal } = yield* goesOn(line, order)
      const waits = journal.waits.map(({ completedAt, exit, name }) => [name, completedAt !== undefined, exit ?? null])
      assert.sameDeepMembers(waits, [
        ["early", true, 7],
        ["approve", true, "yes"],
        ["ship", true, null]
      ])
    })
  )

  for (const action of ["delete", "cancel"] as const) {
    law(`a parent waits again for children whose ${action} was undone before it ran`, (line) =>
      Effect.gen(function* () {
        const { children, order } = yield* waiting(line)
        const acted = yield* perform(line, action, action === "delete" ? children : [children[1]])
        const counted = action === "delete" ? 0 : 1
        assert.strictEqual((yield* waitFor(line, "children", "ship"))?.remaining, counted)
        yield* undoAll(line, acted)
        assert.strictEqual((yield* waitFor(line, "children", "ship"))?.remaining, 2)
        const due = yield* line.claim()
        const parent = due.find(({ id }) => id === order)
        if (parent !== undefined) {
          yield* suspend(line, parent, [{ kind: "children", name: "ship" }], parent.execution?.woken)
        }
        for (const child of due.filter(({ id }) => id !== order)) yield* end(line, child, done())
        assert.strictEqual((yield* goesOn(line, order)).run.id, order)
      })
    )
  }

  law("undo of a cancel restores an execution that has not run since, and its children", (line) =>
    Effect.gen(function* () {
      const { order } = yield* waiting(line)
      const before = yield* whole(line)
      const cancelled = yield* perform(line, "cancel", [order])
      assert.strictEqual((yield* line.workflows.show(`${line.name}/order`)).state, "cancelling")
      const undo = yield* undoAll(line, cancelled)
      assert.deepStrictEqual([undo.total?.count, undo.done, undo.skipped], [1, 1, {}])
      const after = yield* whole(line)
      assert.deepStrictEqual(after.jobs, before.jobs)
      assert.deepStrictEqual(after.children, before.children)
      assert.strictEqual((yield* waitFor(line, "children", "ship"))?.remaining, 2)
    })
  )

  law("undo of a delete skips an execution whose id was started again, and keeps the new one", (line) =>
    Effect.gen(function* () {
      const { order } = yield* waiting(line)
      const deleted = yield* perform(line, "delete", [order])
      for (const child of yield* line.claim(2)) yield* end(line, child, done())
      const again = yield* begin(line)
      yield* line.workflows.record(again, step("pay", { exit: { value: "anew" } }))
      const undo = yield* undoAll(line, deleted)
      assert.deepStrictEqual([undo.done, undo.skipped], [0, { changed: 1 }])
      const { id, steps } = yield* line.workflows.show(`${line.name}/order`)
      assert.deepStrictEqual([id, steps.map(({ exit }) => exit)], [again.id, [{ value: "anew" }]])
    })
  )

  const inLongRuns: Law = isLong ? law : () => {}
  inLongRuns("parents and children in different batches are restored, and ends are counted once", (line) =>
    Effect.gen(function* () {
      const runAt = (yield* line.now) + 3_600_000
      const early = yield* begin(line, "early")
      const shared = yield* line.workflows.start(executionOf(line, "ship/shared", { runAt }))
      const filling = yield* line.queue.enqueue(Array.from({ length: 1000 }, () => line.job({ runAt })))
      const late = yield* begin(line, "late")
      yield* line.workflows.startChildren(late, "ship", [childOf(line, "shared")])
      yield* line.workflows.startChildren(early, "ship", [childOf(line, "a", { runAt })])
      for (const job of [early, late]) yield* suspend(line, job, [{ kind: "children", name: "ship" }])
      const state = Effect.forEach(["early", "late"], (name) =>
        Effect.zip(
          line.workflows.children(`${line.name}/${name}`),
          Effect.map(line.workflows.show(`${line.name}/${name}`), ({ deferreds }) => deferreds)
        )
      )
      const before = yield* state
      const children = before.flatMap(([links]) => links.map(({ id }) => id))
      const ids = [early, shared, ...filling, late].map(({ id }) => id)
      const deleted = yield* perform(line, "delete", [...ids, ...children])
      assert.strictEqual(deleted.done, 1004)
      const undo = yield* undoAll(line, deleted)
      assert.deepStrictEqual([undo.done, undo.skipped], [1004, {}])
      assert.deepStrictEqual(yield* state, before)
    })
  )

  law("a restored parent does not wait for a child that cannot be restored", (line) =>
    Effect.gen(function* () {
      const { children, order } = yield* waiting(line)
      const deleted = yield* perform(line, "delete", [order, ...children])
      const holder = yield* begin(line, "ship/a")
      yield* end(line, holder, done())
      const undo = yield* undoAll(line, deleted)
      assert.deepStrictEqual([undo.done, undo.skipped], [2, { changed: 1 }])
      assert.strictEqual((yield* waitFor(line, "children", "ship"))?.remaining, 1)
    })
  )

  law("an operation says truthfully why it cannot be undone", (line) =>
    Effect.gen(function* () {
      const why = (operation: Operation) =>
        Effect.map(Effect.flip(line.operations.undo(operation.id, { who: "law" })), (error) =>
          error._tag === "OperationNotUndoable" ? error.why : error._tag
        )
      const { id } = yield* line.run()
      assert.strictEqual(yield* why(yield* perform(line, "cancel", [id])), "nothing")
      const job = yield* line.put()
      const deleted = yield* perform(line, "delete", [job])
      const undo = yield* undoAll(line, deleted)
      assert.strictEqual(yield* why(undo), "undo")
      assert.strictEqual(yield* why(deleted), "undone")
      const old = yield* perform(line, "delete", [job])
      yield* line.advance("2 hours")
      yield* line.jobAdmin.pruneUndo(Duration.hours(1))
      assert.strictEqual(yield* why(old), "expired")
    })
  )

  law("an operation that took longer than an hour can be undone for an hour after its end", (line) =>
    Effect.gen(function* () {
      const stored = yield* line.queue.enqueue(Array.from({ length: 6 }, () => line.job()))
      for (const run of yield* line.claim(6)) yield* line.end(run, ends.dead)
      const target = { ids: stored.map(({ id }) => id) }
      const { createdAt, id } = yield* line.operations.begin({ action: "requeue", who: "law", target, rehearse: 5 })
      yield* line.operations.step(id)
      for (const run of yield* line.claim(5)) {
        yield* line.advance("13 minutes")
        yield* line.end(run, ends.done)
        yield* line.operations.step(id)
      }
      const operation = yield* finish(line, id)
      assert.deepStrictEqual([operation.status, operation.done], ["done", 6])
      assert.isAbove((operation.finishedAt ?? 0) - createdAt, 3_600_000)
      yield* line.advance("30 minutes")
      yield* line.jobAdmin.pruneUndo(Duration.hours(1))
      const undo = yield* undoAll(line, operation)
      assert.deepStrictEqual([undo.total?.count, undo.done, undo.skipped], [6, 1, { changed: 5 }])
    })
  )

  law("an operation is undone once, even if the undo skipped jobs", (line) =>
    Effect.gen(function* () {
      const job = yield* line.put({ runAt: (yield* line.now) + 60_000 })
      const operation = yield* perform(line, "run-now", [job])
      yield* line.claimOne
      assert.deepStrictEqual((yield* undoAll(line, operation)).skipped, { changed: 1 })
      const again = yield* Effect.flip(line.operations.undo(operation.id, { who: "law" }))
      assert.include(String(again), "was already undone")
    })
  )
}
