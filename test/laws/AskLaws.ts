import { assert } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { ends, type Law, type Line } from "./Line.js"
import { begin, end, executionOf, suspend } from "./WorkflowLine.js"

const askOf = (line: Line, id = "1") => ({ execution: `${line.name}/order`, name: "add", id, value: { n: 1 } })

const asks = (line: Line) =>
  Effect.map(line.workflows.show(`${line.name}/order`), ({ deferreds }) =>
    deferreds
      .filter(({ kind }) => kind === "ask")
      .map(({ completedAt, exit, name }) => [name, exit, completedAt !== undefined])
  )

/** Laws of asks and their answers. */
export const askLaws = (law: Law): void => {
  law("an ask wakes an execution that waits, and its answer ends the wait of the caller", (line) =>
    Effect.gen(function* () {
      yield* suspend(line, yield* begin(line), [{ kind: "answer", name: "add" }])
      assert.strictEqual((yield* line.workflows.show(`${line.name}/order`)).state, "waiting")
      yield* line.workflows.ask(askOf(line))
      const job = yield* line.claimOne
      const { waits } = yield* line.workflows.load(job)
      assert.deepStrictEqual(
        waits.filter(({ kind }) => kind === "ask").map(({ exit, name }) => [name, exit]),
        [["add/1", { name: "add", value: { n: 1 } }]]
      )
      const asking = yield* Effect.fork(line.workflows.awaitAnswer(askOf(line)))
      yield* line.workflows.answer(job, "add/1", { value: 7 })
      assert.deepStrictEqual(yield* Fiber.join(asking), { value: 7 })
      // The first answer stays.
      yield* line.workflows.answer(job, "add/1", { value: 8 })
      assert.deepStrictEqual(yield* line.workflows.awaitAnswer(askOf(line)), { value: 7 })
    })
  )

  law("an ask with the same id is stored once", (line) =>
    Effect.gen(function* () {
      yield* begin(line)
      yield* line.workflows.ask(askOf(line))
      yield* line.workflows.ask({ ...askOf(line), value: "other" })
      yield* line.workflows.ask(askOf(line, "2"))
      assert.deepStrictEqual(yield* asks(line), [
        ["add/1", { name: "add", value: { n: 1 } }, false],
        ["add/2", { name: "add", value: { n: 1 } }, false]
      ])
    })
  )

  law("asks whose names and ids have slashes are different asks", (line) =>
    Effect.gen(function* () {
      yield* begin(line)
      yield* line.workflows.ask({ ...askOf(line, "b/c"), name: "a" })
      yield* line.workflows.ask({ ...askOf(line, "c"), name: "a/b" })
      const names = (yield* asks(line)).map(([, exit]) => (exit as { readonly name: string }).name)
      assert.deepStrictEqual(names.toSorted(), ["a", "a/b"])
    })
  )

  law("an ask while an execution runs makes its next suspension due at once", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      yield* line.workflows.ask(askOf(line))
      yield* suspend(line, job, [{ kind: "answer", name: "add" }])
      assert.strictEqual((yield* line.claimOne).id, job.id)
    })
  )

  law("an ask does not start a scheduled execution early", (line) =>
    Effect.gen(function* () {
      yield* line.workflows.start(executionOf(line, "order", { runAt: (yield* line.now) + 3_600_000 }))
      yield* line.workflows.ask(askOf(line))
      assert.deepStrictEqual(yield* line.claim(), [])
      assert.strictEqual((yield* line.workflows.show(`${line.name}/order`)).state, "scheduled")
    })
  )

  law("an execution that has ended refuses asks, and one that does not exist", (line) =>
    Effect.gen(function* () {
      assert.strictEqual((yield* Effect.flip(line.workflows.ask(askOf(line))))._tag, "ExecutionNotFound")
      yield* end(line, yield* begin(line), ends.done)
      const error = yield* Effect.flip(line.workflows.ask(askOf(line)))
      assert.deepInclude(error, { _tag: "ExecutionEnded", state: "done" })
    })
  )

  law("the end of the execution ends the wait of a caller that got no answer", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      yield* line.workflows.ask(askOf(line))
      const asking = yield* Effect.fork(line.workflows.awaitAnswer(askOf(line)))
      yield* end(line, job, ends.dead)
      assert.strictEqual(yield* Fiber.join(asking), "ended")
      // A retry forgets it: its caller was told.
      yield* line.workflows.retry(`${line.name}/order`)
      assert.deepStrictEqual(yield* asks(line), [])
    })
  )

  law("a run that lost its lease answers nothing", (line) =>
    Effect.gen(function* () {
      const zombie = yield* begin(line)
      yield* line.workflows.ask(askOf(line))
      yield* line.crash(zombie)
      yield* line.claimOne
      const error = yield* Effect.flip(line.workflows.answer(zombie, "add/1", { value: 1 }))
      assert.strictEqual(error._tag, "LeaseLost")
      assert.deepStrictEqual(yield* asks(line), [["add/1", { name: "add", value: { n: 1 } }, false]])
    })
  )
}
