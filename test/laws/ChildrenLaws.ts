import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { ends, type Law, type Line } from "./Line.js"
import { begin, childOf, done, end, executionOf, suspend } from "./WorkflowLine.js"

const wait = { kind: "children", name: "ship" } as const

/** Starts an execution that waits for children with these names. */
const parentOf = (line: Line, names: ReadonlyArray<string>, name = "order") =>
  Effect.gen(function* () {
    const job = yield* begin(line, name)
    yield* line.workflows.startChildren(
      job,
      "ship",
      names.map((child) => childOf(line, child))
    )
    yield* suspend(line, job, [wait])
    return job
  })

/** Laws of children: started once, counted once, cancelled with their parent. */
export const childrenLaws = (law: Law): void => {
  law("the parent wakes once, when all its children have ended, whether or not they succeeded", (line) =>
    Effect.gen(function* () {
      const parent = yield* parentOf(line, ["a", "b", "c"])
      const [a, b, c] = yield* line.claim()
      if (a === undefined || b === undefined || c === undefined) return assert.fail("three children")
      yield* end(line, a, done({ parcel: 1 }))
      yield* end(line, b, ends.dead)
      assert.deepStrictEqual(yield* line.claim(), [])
      yield* end(line, c, done())
      const woken = yield* line.claimOne
      assert.deepStrictEqual([woken.id, woken.execution?.woken], [parent.id, 2])
      const children = yield* line.workflows.children(`${line.name}/order`, "ship")
      assert.deepStrictEqual(
        children.map(({ job, position }) => [position, job?.status, job?.result]),
        [
          [0, "done", { parcel: 1 }],
          [1, "dead", undefined],
          [2, "done", undefined]
        ]
      )
    })
  )

  law("children are started once, even if the step runs again", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      for (const _ of [1, 2]) yield* line.workflows.startChildren(job, "ship", [childOf(line, "a"), childOf(line, "b")])
      assert.strictEqual((yield* line.workflows.children(`${line.name}/order`)).length, 2)
      assert.strictEqual((yield* line.all()).length, 3)
    })
  )

  law("a run that lost its lease starts no children", (line) =>
    Effect.gen(function* () {
      const zombie = yield* begin(line)
      yield* line.crash(zombie)
      const error = yield* Effect.flip(line.workflows.startChildren(zombie, "ship", [childOf(line, "a")]))
      assert.strictEqual(error._tag, "LeaseLost")
      assert.strictEqual((yield* line.all()).length, 1)
    })
  )

  law("two parents of one child are both woken", (line) =>
    Effect.gen(function* () {
      const first = yield* parentOf(line, ["shared"], "one")
      const child = yield* line.claimOne
      const second = yield* parentOf(line, ["shared"], "two")
      yield* end(line, child, done())
      assert.deepStrictEqual(new Set((yield* line.claim()).map(({ id }) => id)), new Set([first.id, second.id]))
    })
  )

  law("a child that ended before is not waited for", (line) =>
    Effect.gen(function* () {
      const { execution: _, ...child } = childOf(line, "old")
      yield* line.workflows.start({ ...child, execution: `${line.name}/ship/old` })
      yield* end(line, yield* line.claimOne, done(7))
      const parent = yield* parentOf(line, ["old"])
      assert.strictEqual((yield* line.claimOne).id, parent.id)
    })
  )

  law("a plain job can be a child", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      const { execution: _, ...mail } = childOf(line, "mail")
      yield* line.workflows.startChildren(job, "ship", [mail])
      yield* suspend(line, job, [wait])
      const child = yield* line.claimOne
      assert.deepStrictEqual([child.execution, child.linked], [undefined, true])
      yield* end(line, child, done())
      assert.strictEqual((yield* line.claimOne).id, job.id)
    })
  )

  law("cancel reaches the children of children, but not detached ones nor those of another parent", (line) =>
    Effect.gen(function* () {
      yield* parentOf(line, ["a"])
      const child = yield* line.claimOne
      yield* line.workflows.startChildren(child, "pack", [childOf(line, "grandchild")])
      yield* line.workflows.startChildren(child, "log", [childOf(line, "detached")], { detached: true })
      const { cancelled } = yield* line.workflows.cancel(`${line.name}/order`)
      assert.strictEqual(cancelled, 3)
      const statuses = yield* Effect.forEach(["order", "ship/a", "ship/grandchild", "ship/detached"], (name) =>
        Effect.map(line.workflows.show(`${line.name}/${name}`), ({ status }) => status)
      )
      assert.deepStrictEqual(statuses, ["cancelling", "running", "cancelling", "pending"])
      assert.deepStrictEqual((yield* line.queue.heartbeat([child])).cancelRequested, [child])
    })
  )

  law("a cancelled or deleted child wakes its parent", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      const plain = ["a", "b"].map((name) => {
        const { execution: _, ...child } = childOf(line, name)
        return child
      })
      yield* line.workflows.startChildren(job, "ship", plain)
      yield* suspend(line, job, [wait])
      const [a, b] = yield* line.workflows.children(`${line.name}/order`)
      if (a === undefined || b === undefined) return assert.fail("two children")
      yield* line.jobAdmin.cancel(a.id)
      assert.strictEqual((yield* line.workflows.show(`${line.name}/order`)).status, "waiting")
      yield* line.jobAdmin.remove(b.id)
      assert.strictEqual((yield* line.claimOne).id, job.id)
    })
  )

  law("a child that crashes its pods to death wakes its parent", (line) =>
    Effect.gen(function* () {
      const parent = yield* parentOf(line, ["poison"])
      for (let crash = 0; crash < 5; crash += 1) yield* line.crash(yield* line.claimOne)
      assert.strictEqual((yield* line.claimOne).id, parent.id)
    })
  )

  law("an execution is shown with its children and its parents", (line) =>
    Effect.gen(function* () {
      yield* parentOf(line, ["a"])
      const parent = yield* line.workflows.show(`${line.name}/order`)
      assert.deepStrictEqual(
        parent.children.map(({ job, name, owned }) => [name, owned, job?.execution]),
        [["ship", true, `${line.name}/ship/a`]]
      )
      assert.deepStrictEqual((yield* line.workflows.show(`${line.name}/ship/a`)).parents, [`${line.name}/order`])
      const alone = yield* line.workflows.start(executionOf(line, "alone"))
      assert.deepStrictEqual((yield* line.workflows.show(alone.id)).parents, [])
    })
  )
}
