import { assert } from "@effect/vitest"
import { Effect, Option } from "effect"
import type { JobId } from "../../src/core/Ids.js"
import type { ClaimedJob } from "../../src/queue/Queue.js"
import { ends, type Law, type Line } from "./Line.js"
import { begin, childOf, done, end, executionOf, step, suspend } from "./WorkflowLine.js"

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

/** Requeues jobs with one operation. */
const requeueAll = (line: Line, ids: ReadonlyArray<JobId>) =>
  Effect.gen(function* () {
    const { id } = yield* line.operations.begin({ action: "requeue", who: "law", reason: "because", target: { ids } })
    for (let more = true; more; ) {
      const stepped = yield* line.operations.step(id)
      more = Option.isSome(stepped) && stepped.value.status === "running"
    }
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
        children.map(({ job, position }) => [position, job?.state, job?.result]),
        [
          [0, "done", { parcel: 1 }],
          [1, "failed", undefined],
          [2, "done", undefined]
        ]
      )
    })
  )

  law("a child is shown in the state of its own job or execution", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      const plain = (name: string) => childOf(line, name, { execution: undefined })
      const children = [childOf(line, "a"), childOf(line, "b"), childOf(line, "c"), plain("d"), plain("e")]
      yield* line.workflows.startChildren(job, "ship", children)
      yield* suspend(line, job, [wait])
      const claimed = yield* line.claim()
      const { children: started } = yield* line.workflows.show(`${line.name}/order`)
      const [a, b, c, d, e] = started.map(({ id }) => claimed.find((each) => each.id === id))
      if (a === undefined || b === undefined || c === undefined || d === undefined || e === undefined)
        return assert.fail("five children")
      yield* suspend(line, a, [{ kind: "signal", name: "approval" }])
      yield* end(line, b, ends.dead)
      yield* end(line, c, done())
      yield* end(line, d, ends.dead)
      yield* end(line, e, ends.again(yield* line.now))
      const shown = yield* line.workflows.show(`${line.name}/order`)
      assert.deepStrictEqual(
        shown.children.map(({ job }) => job?.state),
        ["waiting", "failed", "done", "dead", "retrying"]
      )
      for (const { id, job } of shown.children) {
        const own = yield* job?.execution === undefined ? line.search.get(id) : line.workflows.show(job.execution)
        assert.strictEqual(job?.state, own.state)
      }
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

  law("an execution that becomes a child while it runs wakes its parent", (line) =>
    Effect.gen(function* () {
      const { execution: _, ...child } = childOf(line, "old")
      yield* line.workflows.start({ ...child, execution: `${line.name}/ship/old` })
      const running = yield* line.claimOne
      assert.strictEqual(running.isChild, false)
      const parent = yield* parentOf(line, ["old"])
      assert.deepStrictEqual(yield* end(line, running, ends.dead), [])
      assert.strictEqual((yield* line.claimOne).id, parent.id)
    })
  )

  law("an execution that became a child after its end wakes its parent if both run again", (line) =>
    Effect.gen(function* () {
      const { execution: _, ...child } = childOf(line, "old")
      yield* line.workflows.start({ ...child, execution: `${line.name}/ship/old` })
      const first = yield* line.claimOne
      yield* end(line, first, ends.dead)
      const parent = yield* parentOf(line, ["old"])
      const woken = yield* line.claimOne
      yield* line.workflows.record(woken, step("ship", { kind: "children", outcome: "failed" }))
      yield* end(line, woken, ends.dead)
      yield* requeueAll(line, [first.id])
      yield* line.workflows.retry(`${line.name}/order`)
      const due = new Map((yield* line.claim()).map((job) => [job.id, job]))
      const [again, waiting] = [due.get(first.id), due.get(parent.id)]
      if (again === undefined || waiting === undefined) return assert.fail("both are due")
      yield* suspend(line, waiting, [wait])
      assert.deepStrictEqual(yield* line.claim(), [])
      yield* end(line, again, done())
      assert.strictEqual((yield* line.claimOne).id, parent.id)
    })
  )

  law("a child that has already ended is not waited for", (line) =>
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
      const states = yield* Effect.forEach(["order", "ship/a", "ship/grandchild", "ship/detached"], (name) =>
        Effect.map(line.workflows.show(`${line.name}/${name}`), ({ state }) => state)
      )
      assert.deepStrictEqual(states, ["cancelling", "running", "cancelling", "pending"])
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
      assert.strictEqual((yield* line.workflows.show(`${line.name}/order`)).state, "waiting")
      yield* line.jobAdmin.remove(b.id)
      assert.strictEqual((yield* line.claimOne).id, job.id)
    })
  )

  law("a child that crashes its pods to death wakes its parent", (line) =>
    Effect.gen(function* () {
      const parent = yield* parentOf(line, ["poison"])
      for (let crash = 0; crash < 5; crash += 1) yield* line.crash(yield* line.claimOne)
      yield* end(line, yield* line.claimOne, ends.cancelled)
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

  /** A parent with the children a and b, of which b failed, and with it the parent. */
  const failedParent = (line: Line) =>
    Effect.gen(function* () {
      const parent = yield* parentOf(line, ["a", "b"])
      const [a, b] = yield* line.claim()
      if (a === undefined || b === undefined) return yield* Effect.die("two children")
      yield* end(line, a, done({ parcel: 1 }))
      yield* end(line, b, ends.dead)
      const woken = yield* line.claimOne
      yield* line.workflows.record(woken, step("ship", { kind: "children", outcome: "failed" }))
      yield* end(line, woken, ends.dead)
      return { parent, a, b }
    })

  /** The parent is due, waits for b only, and wakes when b has ended. */
  const goesOn = (line: Line, parent: ClaimedJob, b: ClaimedJob) =>
    Effect.gen(function* () {
      const due = yield* line.claim()
      assert.deepStrictEqual(new Set(due.map(({ id }) => id)), new Set([parent.id, b.id]))
      for (const job of due) {
        if (job.id !== parent.id) continue
        const { steps, waits } = yield* line.workflows.load(job)
        assert.deepStrictEqual([waits[0]?.remaining, waits[0]?.completedAt], [1, undefined])
        assert.isDefined(steps.find(({ name }) => name === "ship")?.reopenedAt)
        yield* suspend(line, job, [wait])
      }
      assert.deepStrictEqual(yield* line.claim(), [])
      for (const job of due) if (job.id === b.id) yield* end(line, job, done({ parcel: 2 }))
      assert.strictEqual((yield* line.claimOne).id, parent.id)
      const children = yield* line.workflows.children(`${line.name}/order`, "ship")
      assert.deepStrictEqual(
        children.map(({ job }) => [job?.state, job?.result]),
        [
          ["done", { parcel: 1 }],
          ["done", { parcel: 2 }]
        ]
      )
    })

  law("a retry of the parent retries its failed children, keeps the others and waits again", (line) =>
    Effect.gen(function* () {
      const { b, parent } = yield* failedParent(line)
      yield* line.workflows.retry(`${line.name}/order`)
      yield* goesOn(line, parent, b)
    })
  )

  law("a parent that is retried after its child was requeued waits for that child", (line) =>
    Effect.gen(function* () {
      const { b, parent } = yield* failedParent(line)
      yield* line.jobAdmin.requeue(b.id)
      yield* line.workflows.retry(`${line.name}/order`)
      yield* goesOn(line, parent, b)
    })
  )

  law("a bulk requeue of parent and child does the same", (line) =>
    Effect.gen(function* () {
      const { b, parent } = yield* failedParent(line)
      yield* requeueAll(line, [b.id, parent.id])
      yield* goesOn(line, parent, b)
    })
  )

  law("a bulk requeue of the parent retries its failed children", (line) =>
    Effect.gen(function* () {
      const { b, parent } = yield* failedParent(line)
      yield* requeueAll(line, [parent.id])
      yield* goesOn(line, parent, b)
    })
  )

  law("a retry reaches failed children of failed children, but not detached ones", (line) =>
    Effect.gen(function* () {
      yield* parentOf(line, ["a"])
      const a = yield* line.claimOne
      yield* line.workflows.startChildren(a, "pack", [childOf(line, "leaf")])
      yield* line.workflows.startChildren(a, "log", [childOf(line, "detached")], { detached: true })
      yield* suspend(line, a, [{ kind: "children", name: "pack" }])
      for (const leaf of yield* line.claim()) yield* end(line, leaf, ends.dead)
      for (const name of ["pack", "ship"]) {
        const job = yield* line.claimOne
        yield* line.workflows.record(job, step(name, { kind: "children", outcome: "failed" }))
        yield* end(line, job, ends.dead)
      }
      yield* line.workflows.retry(`${line.name}/order`)
      const states = yield* Effect.forEach(["order", "ship/a", "ship/leaf", "ship/detached"], (name) =>
        Effect.map(line.workflows.show(`${line.name}/${name}`), ({ state }) => state)
      )
      assert.deepStrictEqual(states, ["pending", "pending", "pending", "failed"])
    })
  )

  law("a retry of a cancelled parent retries the children that were cancelled with it", (line) =>
    Effect.gen(function* () {
      const parent = yield* parentOf(line, ["a"])
      yield* line.workflows.cancel(`${line.name}/order`, { now: true })
      yield* line.workflows.retry(`${line.name}/order`)
      const due = yield* line.claim()
      assert.strictEqual(due.length, 2)
      for (const job of due) if (job.id === parent.id) yield* suspend(line, job, [wait])
      for (const job of due) if (job.id !== parent.id) yield* end(line, job, done())
      assert.strictEqual((yield* line.claimOne).id, parent.id)
    })
  )

  law("a child shared by two failed parents is waited for by each parent that is retried", (line) =>
    Effect.gen(function* () {
      yield* parentOf(line, ["shared"], "one")
      const child = yield* line.claimOne
      yield* parentOf(line, ["shared"], "two")
      yield* end(line, child, ends.dead)
      for (const job of yield* line.claim()) {
        yield* line.workflows.record(job, step("ship", { kind: "children", outcome: "failed" }))
        yield* end(line, job, ends.dead)
      }
      for (const name of ["one", "two"]) yield* line.workflows.retry(`${line.name}/${name}`)
      const due = yield* line.claim()
      assert.strictEqual(due.length, 3)
      for (const job of due) if (job.kind === "order") yield* suspend(line, job, [wait])
      for (const job of due) if (job.kind !== "order") yield* end(line, job, done())
      assert.strictEqual((yield* line.claim()).length, 2)
    })
  )
}
