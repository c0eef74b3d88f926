import { expect } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { never } from "../../src/core/Suspension.js"
import { End } from "../../src/queue/AttemptEnd.js"
import type { Match, WaitAnswer } from "../../src/queue/events/Events.js"
import type { ClaimedJob } from "../../src/queue/Queue.js"
import { ends, type Law, type Line } from "./Line.js"
import { continued, end, step } from "./WorkflowLine.js"

const eventOf = (line: Line) => `${line.name}.paid`
const nameOf = (line: Line, number = 1) => `event:${eventOf(line)}${number === 1 ? "" : `#${number}`}`

const publish = (line: Line, data: unknown) => line.events.publish([{ name: eventOf(line), data }])

const order = (value: unknown): Match => ({ paths: [["order"]], values: [value] })

/** Starts an execution and claims it. */
const started = (line: Line, key: string) =>
  Effect.gen(function* () {
    const execution = `${line.name}/${key}`
    yield* line.workflows.start({ ...line.job({ kind: "order" }), execution })
    const run = yield* line.claimOne
    return { execution, run }
  })

/** The first call stores the wait, and may do no more. */
const once = (
  line: Line,
  { execution, run }: { readonly execution: string; readonly run: ClaimedJob },
  match: Match,
  number = 1,
  isLast = false
) => line.events.wait({ execution, job: run.id, name: nameOf(line, number), event: eventOf(line), match, ends: isLast })

const isSettled = (answer: WaitAnswer) => "data" in answer || answer.settled

/** Waits until the answer is settled. */
const wait = (...call: Parameters<typeof once>) => Effect.repeat(once(...call), { until: isSettled })

const suspend = (line: Line, { id, lease }: ClaimedJob, number = 1) =>
  Effect.gen(function* () {
    const { woken } = yield* line.workflows.load({ id, lease })
    const waits = [{ kind: "signal" as const, name: nameOf(line, number) }]
    yield* line.queue.finalize([{ id, lease, end: End.Suspended({ woken, waits, runAt: never, error: undefined }) }])
  })

export const eventWaitLaws = (law: Law): void => {
  law("find the first matching event since the execution was started, and keep it", (line) =>
    Effect.gen(function* () {
      yield* publish(line, { order: "A", at: "before" })
      yield* line.advance("1 second")
      const one = yield* started(line, "A")
      yield* publish(line, { order: "B" })
      yield* publish(line, { order: "A", at: "first" })
      yield* publish(line, { order: "A", at: "second" })
      expect(yield* wait(line, one, order("A"))).toEqual({ data: { order: "A", at: "first" } })
      expect(yield* wait(line, one, order("A"))).toEqual({ data: { order: "A", at: "first" } })
      expect(yield* wait(line, one, order("A"), 2)).toEqual({ data: { order: "A", at: "second" } })
      expect(yield* wait(line, one, order("A"), 3)).toEqual({ settled: true })
    })
  )

  law("take an earlier event before one that is published while they are stored", (line) =>
    Effect.gen(function* () {
      const one = yield* started(line, "A")
      yield* publish(line, { order: "A", n: 1 })
      yield* once(line, one, order("A"))
      yield* publish(line, { order: "B" })
      yield* publish(line, { order: "A", n: 2 })
      yield* once(line, one, order("A"), 2)
      yield* publish(line, { order: "A", n: 3 })
      expect(yield* wait(line, one, order("A"))).toEqual({ data: { order: "A", n: 1 } })
      expect(yield* wait(line, one, order("A"), 2)).toEqual({ data: { order: "A", n: 2 } })
      expect(yield* wait(line, one, order("A"), 3)).toEqual({ data: { order: "A", n: 3 } })
      expect(yield* wait(line, one, order("A"), 4)).toEqual({ settled: true })
    })
  )

  law("wake a suspended execution once, and only the one that matches", (line) =>
    Effect.gen(function* () {
      const one = yield* started(line, "A")
      expect(yield* wait(line, one, order("A"))).toEqual({ settled: true })
      yield* suspend(line, one.run)
      const other = yield* started(line, "B")
      expect(yield* wait(line, other, order("B"))).toEqual({ settled: true })
      yield* suspend(line, other.run)
      expect(yield* line.claim()).toEqual([])
      yield* publish(line, { order: "C" })
      expect(yield* line.claim()).toEqual([])
      yield* publish(line, { order: "A" })
      yield* publish(line, { order: "A", again: true })
      const run = yield* line.claimOne
      expect(run.id).toBe(one.run.id)
      const { waits } = yield* line.workflows.load(run)
      expect(waits.find(({ name }) => name === nameOf(line))).toMatchObject({ exit: { order: "A" } })
      expect(yield* wait(line, { ...one, run }, order("A"))).toEqual({ data: { order: "A" } })
    })
  )

  law("are ended by an event between the look and the suspension", (line) =>
    Effect.gen(function* () {
      const one = yield* started(line, "A")
      expect(yield* wait(line, one, order("A"))).toEqual({ settled: true })
      const { woken } = yield* line.workflows.load(one.run)
      yield* publish(line, { order: "A" })
      const { id, lease } = one.run
      const waits = [{ kind: "signal" as const, name: nameOf(line) }]
      yield* line.queue.finalize([{ id, lease, end: End.Suspended({ woken, waits, runAt: never, error: undefined }) }])
      expect((yield* line.claimOne).id).toBe(id)
    })
  )

  law("without a path take any event, and compare null with what is missing", (line) =>
    Effect.gen(function* () {
      const one = yield* started(line, "any")
      expect(yield* wait(line, one, { paths: [], values: [] })).toEqual({ settled: true })
      expect(yield* wait(line, one, order(null), 2)).toEqual({ settled: true })
      expect(yield* wait(line, one, { paths: [["a", "b"], ["n"]], values: [true, 1.5] }, 3)).toEqual({ settled: true })
      yield* publish(line, { other: 1 })
      yield* publish(line, { order: 1, n: 1.5, a: { b: true } })
      expect(yield* wait(line, one, { paths: [], values: [] })).toEqual({ data: { other: 1 } })
      expect(yield* wait(line, one, order(null), 2)).toEqual({ data: { other: 1 } })
      expect(yield* wait(line, one, { paths: [["a", "b"], ["n"]], values: [true, 1.5] }, 3)).toMatchObject({
        data: { order: 1 }
      })
    })
  )

  law("that timed out leave later events to the next wait, and get those that came first", (line) =>
    Effect.gen(function* () {
      const one = yield* started(line, "A")
      expect(yield* wait(line, one, order("A"))).toEqual({ settled: true })
      expect(yield* wait(line, one, order("A"), 1, true)).toEqual({ settled: true })
      yield* publish(line, { order: "A", n: 1 })
      expect(yield* wait(line, one, order("A"), 2)).toEqual({ data: { order: "A", n: 1 } })
      expect(yield* wait(line, one, order("A"), 3)).toEqual({ settled: true })
      yield* publish(line, { order: "A", n: 2 })
      expect(yield* wait(line, one, order("A"), 3, true)).toEqual({ data: { order: "A", n: 2 } })
    })
  )

  law("are ended by an event of a process whose clock is behind", (line) =>
    Effect.gen(function* () {
      const one = yield* started(line, "A")
      expect(yield* wait(line, one, order("A"))).toEqual({ settled: true })
      yield* suspend(line, one.run)
      yield* line.setBack("1 minute")
      yield* publish(line, { order: "A" })
      yield* line.advance("1 minute")
      expect((yield* line.claimOne).id).toBe(one.run.id)
    })
  )

  law("belong to one execution, not to a later one with the same id", (line) =>
    Effect.gen(function* () {
      const first = yield* started(line, "A")
      yield* publish(line, { order: "A", n: 1 })
      expect(yield* wait(line, first, order("A"))).toMatchObject({ data: { n: 1 } })
      expect(yield* wait(line, first, order("A"), 2)).toEqual({ settled: true })
      yield* line.end(first.run, End.Done({ result: undefined }))
      yield* line.jobAdmin.remove(first.run.id)
      yield* line.advance("1 second")
      const second = yield* started(line, "A")
      expect(yield* wait(line, second, order("A"))).toEqual({ settled: true })
      yield* publish(line, { order: "A", n: 2 })
      expect(yield* wait(line, second, order("A"))).toMatchObject({ data: { n: 2 } })
      expect(yield* wait(line, second, order("A"), 2)).toEqual({ settled: true })
    })
  )

  law("end with their journal, and the next one gets the events that were not received", (line) =>
    Effect.gen(function* () {
      const one = yield* started(line, "A")
      yield* publish(line, { order: "A", n: 1 })
      expect(yield* wait(line, one, order("A"))).toMatchObject({ data: { n: 1 } })
      yield* line.workflows.record(one.run, step(nameOf(line), { kind: "signal" }))
      expect(yield* wait(line, one, order("A"), 2)).toEqual({ settled: true })
      yield* publish(line, { order: "A", n: 2 })
      expect(yield* wait(line, one, order("A"), 3)).toEqual({ settled: true })
      yield* end(line, one.run, continued())
      const next = { ...one, run: yield* line.claimOne }
      yield* publish(line, { order: "A", n: 3 })
      const shown = yield* line.workflows.show(one.execution)
      expect([shown.unclaimed, shown.deferreds]).toEqual([[], []])
      expect(yield* wait(line, next, order("A"), 4)).toMatchObject({ data: { n: 2 } })
      expect(yield* wait(line, next, order("A"), 5)).toMatchObject({ data: { n: 3 } })
      expect(yield* wait(line, next, order("A"), 6)).toEqual({ settled: true })
    })
  )

  law("of an execution that is requeued do not take the events again", (line) =>
    Effect.gen(function* () {
      const one = yield* started(line, "A")
      yield* publish(line, { order: "A", n: 1 })
      expect(yield* wait(line, one, order("A"))).toMatchObject({ data: { n: 1 } })
      yield* line.end(one.run, ends.dead)
      yield* line.events.purge(Duration.days(1_000))
      yield* line.jobAdmin.requeue(one.run.id)
      const again = { ...one, run: yield* line.claimOne }
      expect(yield* wait(line, again, order("A"), 2)).toEqual({ settled: true })
    })
  )

  law("compare what the code asks for now, not what it asked for before it was changed", (line) =>
    Effect.gen(function* () {
      const one = yield* started(line, "A")
      expect(yield* wait(line, one, order("typo"))).toEqual({ settled: true })
      yield* publish(line, { order: "A" })
      expect(yield* wait(line, one, order("A"))).toEqual({ data: { order: "A" } })
    })
  )

  law("of executions that have ended take nothing", (line) =>
    Effect.gen(function* () {
      const one = yield* started(line, "A")
      yield* wait(line, one, order("A"))
      yield* line.end(one.run, End.Done({ result: undefined }))
      yield* publish(line, { order: "A" })
      expect(yield* wait(line, one, order("B"), 2)).toEqual({ settled: true })
      yield* line.events.purge(Duration.days(1_000))
    })
  )
}
