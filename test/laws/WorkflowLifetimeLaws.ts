import { assert } from "@effect/vitest"
import { Effect } from "effect"
import type { JobId } from "../../src/core/Ids.js"
import { End } from "../../src/queue/AttemptEnd.js"
import type { ClaimedJob } from "../../src/queue/Queue.js"
import { ends, type Law, type Line } from "./Line.js"
import { begin, childOf, continued, done, end, executionOf, step, suspend } from "./WorkflowLine.js"

const parked = (runAt: number) =>
  End.Again({ runAt, counted: false, error: undefined, remember: undefined, parked: true })

/** Claims for a pod with these releases. */
const claimFor = (line: Line, ...releases: ReadonlyArray<string>) =>
  line.queue.claim({ queue: line.name, pod: line.pod, limit: 10, releases })

/** An execution that is pinned to a release, claimed by a pod with another one, and left to its own. */
const leftToBlue = (line: Line, name = "order", release = "blue", more: { readonly key?: string } = {}) =>
  Effect.gen(function* () {
    const first = yield* begin(line, name, more)
    assert.strictEqual(yield* line.workflows.pin(first, release), release)
    yield* line.workflows.record(first, step("charge"))
    yield* suspend(line, first, [{ kind: "sleep", name: "nap", dueAt: 0 }])
    const second = yield* line.claimOne
    assert.strictEqual(second.execution?.pinned, release)
    yield* end(line, second, parked((yield* line.now) + 600_000))
    return first.id
  })

/** New journals and pins of executions. */
export const workflowLifetimeLaws = (law: Law): void => {
  for (const order of ["none", "serial"] as const)
    law(`an execution that is left to its release counts in its key, whose order is ${order}`, (line) =>
      Effect.gen(function* () {
        yield* line.queues.declare([line.name])
        yield* line.queues.change(line.name, { perKey: { concurrency: 1, order } })
        const left = yield* leftToBlue(line, "order", "blue", { key: "a" })
        yield* line.put({ key: "a" })
        const other = yield* line.claimOne
        assert.notStrictEqual(other.id, left)
        assert.deepStrictEqual(yield* claimFor(line, "blue"), [])
        yield* line.end(other, ends.done)
        const [claimed] = yield* claimFor(line, "blue")
        assert.strictEqual(claimed?.id, left)
        yield* line.put({ key: "a" })
        assert.deepStrictEqual(yield* line.claim(), [])
        if (claimed !== undefined) yield* end(line, claimed, done("over"))
        assert.strictEqual((yield* line.claim()).length, 1)
      })
    )

  law("an execution that is unpinned while another release returns it is due at once", (line) =>
    Effect.gen(function* () {
      const first = yield* begin(line)
      yield* line.workflows.pin(first, "blue")
      yield* line.workflows.record(first, step("charge"))
      yield* suspend(line, first, [{ kind: "sleep", name: "nap", dueAt: 0 }])
      const second = yield* line.claimOne
      yield* line.workflows.unpin({ execution: `${line.name}/order` })
      yield* end(line, second, parked((yield* line.now) + 600_000))
      assert.strictEqual((yield* line.claimOne).id, first.id)
    })
  )

  law(
    "an execution that continues has a new payload and an empty journal under the same id, and is due at once",
    (line) =>
      Effect.gen(function* () {
        const first = yield* begin(line)
        assert.strictEqual(first.execution?.continued, 0)
        yield* line.workflows.record(first, step("charge"))
        yield* end(line, first, continued({ id: "second" }, 3))
        const second = yield* line.claimOne
        assert.deepStrictEqual(
          [second.id, second.payload, second.version, second.attempt, second.execution?.continued],
          [first.id, { id: "second" }, 3, 1, 1]
        )
        assert.deepStrictEqual((yield* line.workflows.load(second)).steps, [])
        yield* end(line, second, continued({ id: "third" }))
        const third = yield* line.claimOne
        assert.strictEqual(third.execution?.continued, 2)
        yield* end(line, third, done("over"))
        const shown = yield* line.workflows.show(`${line.name}/order`)
        assert.deepStrictEqual(
          [shown.state, shown.continued, shown.result, shown.payload],
          ["done", 2, "over", { id: "third" }]
        )
      })
  )

  law(
    "signals that were not received are kept by a new journal, all other waits and the links to children are not",
    (line) =>
      Effect.gen(function* () {
        const execution = `${line.name}/order`
        const job = yield* begin(line)
        yield* line.workflows.startChildren(job, "ship", [childOf(line, "a")])
        yield* suspend(line, job, [
          { kind: "children", name: "ship" },
          { kind: "signal", name: "timed out", dueAt: 1 },
          { kind: "sleep", name: "nap", dueAt: 1 }
        ])
        for (const name of ["early", "received"]) yield* line.workflows.signal({ execution, name, value: name })
        const claimed = yield* line.claim()
        const again = claimed.find(({ id }) => id === job.id)
        const child = claimed.find(({ id }) => id !== job.id)
        if (again === undefined || child === undefined) return assert.fail("the parent and its child")
        yield* line.workflows.record(again, step("received", { kind: "signal" }))
        yield* end(line, again, continued({}))
        const next = yield* line.claimOne
        const { waits } = yield* line.workflows.load(next)
        assert.deepStrictEqual(
          waits.map(({ exit, kind, name }) => [kind, name, exit]),
          [["signal", "early", "early"]]
        )
        assert.deepStrictEqual(yield* line.workflows.children(execution), [])
        assert.strictEqual(yield* line.workflows.signal({ execution, name: "received", value: 2 }), "completed")
        // The end of a child that was left alone neither wakes nor fails anything, and the step may start children again.
        yield* end(line, child, done())
        yield* line.workflows.startChildren(next, "ship", [childOf(line, "b")])
        assert.strictEqual((yield* line.workflows.children(execution)).length, 1)
      })
  )

  law("a stream of an earlier journal keeps its end until its step begins it again", (line) =>
    Effect.gen(function* () {
      const { streams } = line.workflows
      const states = (id: JobId) =>
        Effect.map(streams.list(id), (all) => all.map(({ name, state }) => [name, state]).sort())
      const first = yield* begin(line)
      for (const name of ["cut", "done", "failed"]) yield* streams.begin(first, name, 1)
      yield* line.workflows.record(first, step("done", { kind: "stream" }))
      yield* line.workflows.record(first, step("failed", { kind: "stream", outcome: "failed", sequence: 2 }))
      const ended = [
        ["cut", "interrupted"],
        ["done", "done"],
        ["failed", "failed"]
      ]
      yield* end(line, first, continued({}))
      assert.deepStrictEqual(yield* states(first.id), ended)
      yield* end(line, yield* line.claimOne, continued({}))
      assert.deepStrictEqual(yield* states(first.id), ended)
      const position = { job: first.id, generation: undefined, number: 0 }
      assert.strictEqual((yield* streams.read({ ...position, name: "done" })).state, "done")
      assert.strictEqual((yield* streams.next({ ...position, name: "cut" })).state, "interrupted")
      assert.strictEqual(yield* streams.begin(yield* line.claimOne, "done", 1), 2)
      assert.strictEqual((yield* streams.read({ ...position, name: "done" })).state, "open")
    })
  )

  law("a new journal keeps asks that were not received, and answers for an hour", (line) =>
    Effect.gen(function* () {
      const ask = (id: string) => ({ execution: `${line.name}/order`, name: "add", id, value: 1 })
      const rows = (job: ClaimedJob) =>
        Effect.map(line.workflows.load(job), ({ waits }) => waits.map(({ kind, name }) => `${kind} ${name}`).toSorted())
      const first = yield* begin(line)
      for (const id of ["answered", "cut off", "new"]) yield* line.workflows.ask(ask(id))
      yield* line.workflows.record(first, step("ask:add/answered", { kind: "ask" }))
      yield* line.workflows.record(first, step("ask:add/cut off", { kind: "ask", sequence: 2 }))
      yield* line.workflows.answer(first, "add/answered", { value: 7 })
      yield* end(line, first, continued({}))
      assert.deepStrictEqual(yield* line.workflows.awaitAnswer(ask("answered")), { value: 7 })
      assert.strictEqual(yield* line.workflows.awaitAnswer(ask("cut off")), "ended")
      const second = yield* line.claimOne
      assert.deepStrictEqual(yield* rows(second), ["ask add/answered", "ask add/new"])
      yield* line.advance("61 minutes")
      yield* end(line, second, continued({}))
      assert.deepStrictEqual(yield* rows(yield* line.claimOne), ["ask add/new"])
    })
  )

  law("a cancelled execution does not continue: its steps must be undone", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      yield* line.workflows.record(job, step("charge"))
      yield* line.workflows.cancel(`${line.name}/order`)
      yield* end(line, job, continued({ id: "second" }))
      const next = yield* line.claimOne
      assert.deepStrictEqual([next.payload, next.execution?.continued], [{ id: "order" }, 0])
      assert.strictEqual((yield* line.workflows.load(next)).steps.length, 1)
    })
  )

  law("a run that has lost its lease does not continue", (line) =>
    Effect.gen(function* () {
      const lost = yield* begin(line)
      yield* line.crash(lost)
      const job = yield* line.claimOne
      yield* line.workflows.record(job, step("charge"))
      assert.deepStrictEqual(yield* end(line, lost, continued({ id: "second" })), [lost.id])
      assert.strictEqual((yield* line.workflows.load(job)).steps.length, 1)
      assert.strictEqual((yield* line.workflows.show(`${line.name}/order`)).continued, 0)
    })
  )

  law("a fork has the number of the journal that it copies, and is not pinned", (line) =>
    Effect.gen(function* () {
      yield* end(line, yield* begin(line), continued())
      const job = yield* line.claimOne
      yield* line.workflows.pin(job, "blue")
      yield* line.workflows.record(job, step("ship"))
      const { execution } = yield* line.workflows.fork(`${line.name}/order`, "ship")
      const fork = (yield* line.claimOne).execution
      assert.deepStrictEqual([fork?.id, fork?.continued, fork?.pinned], [execution, 1, undefined])
    })
  )

  law("the count of new journals and the pin are deleted with the execution, and restored with it", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      yield* end(line, job, continued({ id: "second" }))
      const next = yield* line.claimOne
      yield* line.workflows.pin(next, "blue")
      yield* end(line, next, done())
      const act = yield* line.newId
      yield* line.jobAdmin.recordingUndo(act).remove(job.id)
      assert.deepStrictEqual(
        yield* line.workflows.start(executionOf(line, "another")).pipe(Effect.map(({ outcome }) => outcome)),
        "enqueued"
      )
      yield* line.jobAdmin.undo(job.id, act)
      const shown = yield* line.workflows.show(`${line.name}/order`)
      assert.deepStrictEqual([shown.continued, shown.pinned], [1, "blue"])
    })
  )

  law("a pin is set once, by the holder of the lease, and a new journal is not pinned", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      assert.strictEqual(yield* line.workflows.pin(job, "blue"), "blue")
      assert.strictEqual(yield* line.workflows.pin(job, "green"), "blue")
      const stranger: ClaimedJob = { ...job, lease: (yield* line.newId) as never }
      assert.strictEqual((yield* Effect.flip(line.workflows.pin(stranger, "green")))._tag, "LeaseLost")
      assert.strictEqual((yield* line.workflows.show(`${line.name}/order`)).pinned, "blue")
      yield* end(line, job, continued({}))
      assert.strictEqual((yield* line.claimOne).execution?.pinned, undefined)
    })
  )

  law(
    "an execution that was left to its release is taken at once by a pod with that release, and by no other",
    (line) =>
      Effect.gen(function* () {
        const id = yield* leftToBlue(line)
        assert.strictEqual((yield* line.standing.of(id)).leftTo, "blue")
        assert.deepStrictEqual(yield* line.claim(), [])
        assert.deepStrictEqual(yield* claimFor(line, "green"), [])
        const [taken, ...more] = yield* claimFor(line, "green", "blue")
        assert.deepStrictEqual(
          [taken?.id, taken?.execution?.pinned, taken?.execution?.journal?.steps.length ?? 1, more],
          [id, "blue", 1, []]
        )
        assert.deepStrictEqual(yield* claimFor(line, "blue"), [])
        if (taken === undefined) return
        // Suspended by its own release: it sleeps, and no process takes it.
        yield* suspend(line, taken, [{ kind: "sleep", name: "long", dueAt: (yield* line.now) + 600_000 }])
        assert.deepStrictEqual(yield* claimFor(line, "blue"), [])
      })
  )

  law("an execution that was left to its release and is woken is due for every pod", (line) =>
    Effect.gen(function* () {
      const id = yield* leftToBlue(line)
      yield* line.workflows.signal({ execution: `${line.name}/order`, name: "go", value: 1 })
      const again = yield* line.claimOne
      assert.deepStrictEqual([again.id, again.execution?.pinned], [id, "blue"])
    })
  )

  law("nothing that was left to a release is taken from a paused queue", (line) =>
    Effect.gen(function* () {
      const id = yield* leftToBlue(line)
      yield* line.queues.change(line.name, { paused: true })
      assert.deepStrictEqual(yield* claimFor(line, "blue"), [])
      yield* line.queues.change(line.name, { paused: false })
      assert.deepStrictEqual(
        (yield* claimFor(line, "blue")).map((job) => job.id),
        [id]
      )
    })
  )

  law("nothing that was left to a release is taken from a queue that cools down", (line) =>
    Effect.gen(function* () {
      yield* line.queues.declare([line.name])
      const id = yield* leftToBlue(line)
      const hot = yield* begin(line, "hot")
      const again = { runAt: yield* line.now, counted: false, error: undefined, remember: undefined }
      yield* line.end(hot, End.Again({ ...again, cools: { scope: "queue", after: 60_000 } }))
      assert.deepStrictEqual(yield* claimFor(line, "blue"), [])
      yield* line.advance("61 seconds")
      const taken = (yield* claimFor(line, "blue")).map((job) => job.id)
      assert.deepStrictEqual(taken, [hot.id, id])
    })
  )

  law("an unpinned execution is due for every release; a release can be unpinned as a whole", (line) =>
    Effect.gen(function* () {
      const [a, b] = [yield* leftToBlue(line, "a", line.name), yield* leftToBlue(line, "b", line.name)]
      const pins = (yield* line.workflows.pins).filter(({ release }) => release === line.name)
      const executions = [`${line.name}/a`, `${line.name}/b`]
      assert.deepStrictEqual(pins, [{ workflow: "order", release: line.name, count: 2, executions }])
      assert.strictEqual(yield* line.workflows.unpin({ release: undefined as never }), 0)
      assert.strictEqual(yield* line.workflows.unpin({ execution: `${line.name}/a` }), 1)
      const job = yield* line.claimOne
      assert.deepStrictEqual([job.id, job.execution?.pinned], [a, undefined])
      yield* end(line, job, done())
      assert.strictEqual(yield* line.workflows.unpin({ execution: `${line.name}/a` }), 0)
      assert.strictEqual(yield* line.workflows.unpin({ release: line.name }), 1)
      assert.deepStrictEqual((yield* line.claimOne).id, b)
      const missing = yield* Effect.flip(line.workflows.unpin({ execution: `${line.name}/none` }))
      assert.strictEqual(missing._tag, "ExecutionNotFound")
    })
  )

  law("executions with a long journal are named, until they end", (line) =>
    Effect.gen(function* () {
      const job = yield* begin(line)
      const own = Effect.map(line.workflows.longJournals(100), (all) =>
        all.filter(({ execution }) => execution === `${line.name}/order`)
      )
      yield* line.workflows.record(job, step("a", { sequence: 4_999 }))
      assert.deepStrictEqual(yield* own, [])
      yield* line.workflows.record(job, step("b", { sequence: 5_000 }))
      yield* line.workflows.record(job, step("c", { sequence: 5_001 }))
      assert.deepStrictEqual(yield* own, [{ execution: `${line.name}/order`, steps: 5_001 }])
      yield* end(line, job, done())
      assert.deepStrictEqual(yield* own, [])
    })
  )

  law("a race wakes its parent with the first end; the losers are cancelled and no longer belong to it", (line) =>
    Effect.gen(function* () {
      const execution = `${line.name}/order`
      const parent = yield* begin(line)
      yield* line.workflows.startChildren(parent, "race", [childOf(line, "a"), childOf(line, "b")], { first: true })
      yield* suspend(line, parent, [{ kind: "children", name: "race" }])
      const [a, b] = yield* line.claim()
      if (a === undefined || b === undefined) return assert.fail("two children")
      yield* end(line, b, done("fast"))
      const woken = yield* line.claimOne
      assert.strictEqual(woken.id, parent.id)
      yield* line.workflows.endRace(execution, "race", 1, true)
      yield* line.workflows.endRace(execution, "race", 1, true)
      const children = yield* line.workflows.children(execution, "race")
      assert.deepStrictEqual(
        children.map(({ owned, position }) => [position, owned]),
        [
          [0, false],
          [1, true]
        ]
      )
      assert.strictEqual((yield* line.search.get(a.id)).cancelRequestedAt === undefined, false)
      yield* end(line, a, ends.cancelled)
      // The race is over: a retry of the parent does not run the loser again.
      yield* line.workflows.record(woken, step("race", { kind: "children" }))
      yield* end(line, woken, ends.dead)
      yield* line.workflows.retry(execution)
      assert.strictEqual((yield* line.search.get(a.id)).state, "cancelled")
    })
  )

  law("children that a cancel leaves alone are waited for, and not cancelled", (line) =>
    Effect.gen(function* () {
      const parent = yield* begin(line)
      yield* line.workflows.startChildren(parent, "ship", [childOf(line, "a")], { left: true })
      yield* suspend(line, parent, [{ kind: "children", name: "ship" }])
      const child = yield* line.claimOne
      assert.strictEqual((yield* line.workflows.cancel(`${line.name}/order`)).cancelled, 1)
      assert.strictEqual((yield* line.search.get(child.id)).cancelRequestedAt, undefined)
    })
  )

  law("children that were undone are started again by a retry, others are kept", (line) =>
    Effect.gen(function* () {
      const execution = `${line.name}/order`
      const parent = yield* begin(line)
      for (const name of ["kept", "undone"]) yield* line.workflows.startChildren(parent, name, [childOf(line, name)])
      for (const child of yield* line.claim()) yield* end(line, child, done())
      const steps = ["kept", "undone"].map((name, index) => step(name, { kind: "children", sequence: index + 1 }))
      for (const each of steps) yield* line.workflows.record(parent, each)
      yield* line.workflows.record(parent, step("undo:undone", { kind: "undo", sequence: 3 }))
      yield* end(line, parent, ends.dead)
      yield* line.workflows.retry(execution)
      const again = yield* line.claimOne
      const journal = yield* line.workflows.load(again)
      assert.deepStrictEqual(
        journal.waits.map(({ name }) => name),
        ["kept"]
      )
      assert.deepStrictEqual(
        journal.steps.map(({ name, reopenedAt }) => [name, reopenedAt !== undefined]),
        [
          ["kept", false],
          ["undone", true]
        ]
      )
      yield* line.workflows.startChildren(again, "undone", [childOf(line, "undone again")])
      assert.strictEqual((yield* line.workflows.children(execution)).length, 2)
    })
  )
}
