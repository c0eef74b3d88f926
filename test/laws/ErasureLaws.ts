import { expect } from "@effect/vitest"
import { Effect, Either, Option } from "effect"
import { ownSubject } from "../../src/core/OwnSubject.js"
import { computed } from "../../src/core/StoredJob.js"
import { subjectOf } from "../../src/core/Subject.js"
import { digestOf, type Erase } from "../../src/database/SubjectText.js"
import { End } from "../../src/queue/AttemptEnd.js"
import { ends, type Law, type Line } from "./Line.js"
import { begin, childOf, done, end, step, suspend } from "./WorkflowLine.js"

/** The subject of a law, and a text that must be gone. */
const subjectIn = (line: Line) => `customer:${line.name}`
const digestIn = (line: Line) => digestOf(subjectIn(line))
const marker = "Ada Lovelace"

/** Erases until nothing is left. Returns how many. */
const all = (line: Line, of: Erase): Effect.Effect<number, unknown> =>
  Effect.flatMap(of(digestIn(line), "erase"), (count) =>
    count === 0 ? Effect.succeed(0) : Effect.map(all(line, of), (more) => count + more)
  )

const register = (line: Line, name: string, more: object = {}) =>
  line.kinds.register([
    {
      name: `${line.name}.${name}`,
      queue: line.name,
      routed: false,
      version: 1,
      attempts: 5,
      onDead: undefined,
      ...more
    }
  ])

/** Laws of subjects, and of the erasure of their data. */
export const erasureLaws = (law: Law): void => {
  law("a job has the digest of its subject, and no text of it", (line) =>
    Effect.gen(function* () {
      const id = yield* line.put({ subject: subjectIn(line), meta: { order: 7 } })
      const job = yield* line.search.get(id)
      expect(job.meta).toEqual({ order: 7, subjectDigest: digestIn(line) })
      expect(JSON.stringify(job)).not.toContain(subjectIn(line))
      expect((yield* line.search.get(yield* line.put())).meta).toBeUndefined()
      const refused = yield* Effect.flip(line.queue.enqueue([line.job({ subject: "" })]))
      expect(refused).toMatchObject({ _tag: "InvalidJob", field: "subject" })
    })
  )

  law("what a job of a subject stores has the same, unless it names another", (line) =>
    Effect.gen(function* () {
      const own = digestIn(line)
      const kind = `${line.name}.heard`
      yield* register(line, "heard")
      yield* line.events.subscribe([kind], [{ event: `${line.name}.paid`, kind }])
      yield* Effect.gen(function* () {
        yield* line.put({ dedupe: { key: `${line.name} inherited` } })
        yield* line.put({ subject: "other" })
        yield* line.queue.enqueue(Array.from({ length: 60 }, () => line.job({ kind: "bulk" })))
        yield* line.events.publish([{ name: `${line.name}.paid`, data: 1 }])
        const followUp = { kind: "after", version: 1, queue: line.name, payload: null, attempts: 1 }
        yield* line.batches.create({ jobs: [line.job({ kind: "member" })], followUp })
      }).pipe(Effect.locally(ownSubject, own))
      const jobs = yield* line.all()
      expect(jobs.filter(({ meta }) => subjectOf(meta) === digestOf("other"))).toHaveLength(1)
      expect(jobs.filter(({ meta }) => subjectOf(meta) === own)).toHaveLength(63)
      for (const job of yield* line.claim(100))
        yield* line.queue.finalize([{ id: job.id, lease: job.lease, end: ends.done }])
      yield* line.batches.close
      const after = (yield* line.all()).find(({ kind }) => kind === "after")
      expect(subjectOf(after?.meta)).toBe(own)
      yield* line.events.subscribe([kind], [])
    })
  )

  law("the follow-up of a dead job has its subject", (line) =>
    Effect.gen(function* () {
      const onDead = { kind: "notify", version: 1, queue: line.name, payload: { for: marker }, attempts: 1 }
      const run = yield* line.run({ subject: subjectIn(line), onDead })
      yield* line.end(run, ends.dead)
      const followUp = (yield* line.all()).find(({ kind }) => kind === "notify")
      expect(followUp?.meta).toMatchObject({ follows: run.id, subjectDigest: digestIn(line) })
    })
  )

  law(
    "a follow-up that is computed after its job was deleted has its subject, and none is made after an erasure",
    (line) =>
      Effect.gen(function* () {
        const kind = `${line.name}.computed`
        const make = line.queue.makeFollowUps([kind], ({ payload }) =>
          Either.right({ kind: "notify", version: 1, queue: line.name, payload, attempts: 1 })
        )
        const removed = Effect.gen(function* () {
          const run = yield* line.run({ kind, subject: subjectIn(line), payload: marker, onDead: computed })
          yield* line.end(run, ends.dead)
          yield* line.jobAdmin.remove(run.id)
          return run.id
        })
        const id = yield* removed
        expect(yield* make).toEqual({ made: 1, failed: [] })
        const [followUp] = yield* line.all()
        expect(followUp?.meta).toMatchObject({ follows: id, subjectDigest: digestIn(line) })
        yield* line.jobAdmin.remove(followUp?.id ?? id)
        yield* removed
        expect(yield* line.jobAdmin.eraseUndo(digestIn(line), "count")).toBe(1)
        expect(yield* all(line, line.jobAdmin.eraseUndo)).toBe(1)
        expect(yield* make).toEqual({ made: 0, failed: [] })
      })
  )

  law("a job whose payload is replaced has the subject of the new payload", (line) =>
    Effect.gen(function* () {
      const [old, own] = [`${subjectIn(line)} before`, subjectIn(line)]
      const dedupe = { key: line.name, replace: true }
      const id = yield* line.put({ subject: old, dedupe, meta: { order: 7 } })
      const plain = yield* line.put({ dedupe: { key: `${line.name} plain`, replace: true } })
      const held = (subject: string) =>
        Effect.map(line.erasure.unfinished(digestOf(subject), 10), (jobs) => jobs.map((job) => job.id))
      const replace = (subject: string | undefined) => line.queue.enqueue([line.job({ subject, dedupe })])
      yield* replace(own)
      expect(yield* held(old)).toEqual([])
      expect(yield* held(own)).toEqual([id])
      expect((yield* line.search.get(id)).meta).toEqual({ order: 7, subjectDigest: digestOf(own) })
      yield* replace(undefined)
      expect(yield* held(own)).toEqual([])
      expect((yield* line.search.get(id)).meta).toEqual({ order: 7 })
      const more = { key: `${line.name} plain`, replace: true }
      yield* line.queue.enqueue([line.job({ subject: own, dedupe: more })])
      expect(yield* held(own)).toEqual([plain])
      yield* line.queue.enqueue([line.job({ dedupe: more })])
      expect((yield* line.search.get(plain)).meta).toBeUndefined()
    })
  )

  law("events of different subjects are in different windows, whose jobs have the subject", (line) =>
    Effect.gen(function* () {
      const kind = `${line.name}.joined`
      const name = `${line.name}.changed`
      yield* register(line, "joined")
      yield* line.events.subscribe([kind], [{ event: name, kind, window: { debounce: 1_000, max: 100, by: [] } }])
      for (const subject of [subjectIn(line), "other", subjectIn(line), undefined])
        yield* line.events.publish([{ name, data: marker, subject }])
      yield* line.advance("2 seconds")
      yield* line.events.closeWindows
      const jobs = yield* line.all()
      expect(jobs).toHaveLength(3)
      const own = jobs.find(({ meta }) => subjectOf(meta) === digestIn(line))
      expect(own?.payload).toEqual([marker, marker])
      yield* line.events.subscribe([kind], [])
    })
  )

  law("an ended job loses its data, and keeps state, reason, attempts and times", (line) =>
    Effect.gen(function* () {
      const subject = subjectIn(line)
      const keyed = { subject, payload: { name: marker }, key: `${line.name} ${marker}` }
      const dedupe = { key: `${line.name} ${marker}`, scope: "retained" } as const
      const run = yield* line.run({ ...keyed, dedupe, meta: { about: marker } })
      yield* line.queue.progress(run, JSON.stringify(marker))
      yield* line.logs.write([
        { ...run, count: 1, lines: [JSON.stringify({ message: marker })], bounds: { lines: 10, bytes: 10_000 } }
      ])
      const failed = { reason: "rejected", counted: true, error: `no ${marker}`, remember: "rejected" } as const
      yield* line.end(run, End.Dead(failed))
      const before = yield* line.search.get(run.id)
      expect(JSON.stringify(before)).toContain(marker)
      expect((yield* line.erasure.held(digestIn(line))).states).toMatchObject({ dead: 1, done: 0 })
      yield* line.advance("1 second")
      expect(yield* all(line, line.erasure.erase)).toBe(1)
      const job = yield* line.search.get(run.id)
      expect(JSON.stringify(job)).not.toContain("Ada")
      const { attempt, attempts, createdAt, finishedAt, reason, startedAt, state, updatedAt } = before
      expect(job).toMatchObject({ attempt, attempts, createdAt, finishedAt, reason, startedAt, state, updatedAt })
      expect(job).toMatchObject({ payload: null, dedupe: undefined, key: undefined, lastError: undefined })
      expect(job.history.map(({ message, outcome }) => [outcome, message])).toEqual([["rejected", undefined]])
      expect(job.meta).toEqual({ subjectErasedAt: new Date(yield* line.now).toISOString() })
      expect(yield* line.logs.read(run.id)).toEqual([])
      // Repeated, it finds nothing.
      expect(yield* all(line, line.erasure.erase)).toBe(0)
      // The dedupe key is free.
      yield* line.put({ dedupe })
    })
  )

  law("an erased job cannot run again, alone or among others", (line) =>
    Effect.gen(function* () {
      const run = yield* line.run({ subject: subjectIn(line) })
      yield* line.end(run, ends.dead)
      yield* all(line, line.erasure.erase)
      const refused = yield* Effect.flip(line.jobAdmin.requeue(run.id))
      expect(refused).toMatchObject({ _tag: "JobNotInState", state: "dead" })
      expect(String(refused)).toContain("its data was erased on")
      const { id } = yield* line.operations.begin({ action: "requeue", who: "law", target: { ids: [run.id] } })
      while (Option.getOrUndefined(yield* line.operations.step(id))?.status === "running");
      expect(yield* line.operations.get(id)).toMatchObject({ done: 0, skipped: { erased: 1 } })
      expect((yield* line.search.get(run.id)).state).toBe("dead")
    })
  )

  law("jobs that have not ended are named and stay, also those of others", (line) =>
    Effect.gen(function* () {
      const subject = subjectIn(line)
      const waiting = yield* line.put({ subject, runAt: (yield* line.now) + 3_600_000 })
      const run = yield* line.run({ subject, payload: marker })
      const other = yield* line.run({ subject: `${subject}0`, payload: marker })
      yield* line.end(other, ends.done)
      expect(yield* all(line, line.erasure.erase)).toBe(0)
      const unfinished = yield* line.erasure.unfinished(digestIn(line), 10)
      expect(new Map(unfinished.map(({ asked, id, running }) => [id, [running, asked]]))).toEqual(
        new Map([
          [waiting, [false, false]],
          [run.id, [true, false]]
        ])
      )
      yield* line.jobAdmin.cancel(run.id)
      yield* line.jobAdmin.cancel(waiting)
      expect(yield* line.erasure.unfinished(digestIn(line), 10)).toMatchObject([{ id: run.id, asked: true }])
      yield* line.end(run, ends.cancelled)
      expect(yield* all(line, line.erasure.erase)).toBe(2)
      expect((yield* line.search.get(other.id)).payload).toBe(marker)
    })
  )

  law("an execution loses its journal, signals, streams, tags and id, and its step count stays", (line) =>
    Effect.gen(function* () {
      const subject = subjectIn(line)
      const order = yield* begin(line, marker, { subject, tags: { customer: marker } })
      const execution = `${line.name}/${marker}`
      yield* line.workflows.record(order, step(`mail ${marker}`, { exit: { value: marker } }))
      yield* line.workflows.record(order, step("step 1", { sequence: 2, exit: { value: marker } }))
      yield* line.workflows.streams.begin(order, "tokens", 1)
      yield* line.workflows.streams.append(order, {
        name: "tokens",
        generation: 1,
        number: 0,
        count: 1,
        bytes: 14,
        text: JSON.stringify([marker])
      })
      const { execution: _, ...plain } = childOf(line, "plain")
      yield* line.workflows.startChildren(order, `ship ${marker}`, [{ ...plain, subject }])
      yield* line.workflows.signal({ execution, name: marker, value: marker })
      yield* suspend(line, order, [{ kind: "children", name: `ship ${marker}` }], 1)
      const child = yield* line.claimOne
      yield* end(line, child, done(marker))
      const again = yield* line.claimOne
      yield* end(line, again, done(marker))
      const before = yield* line.workflows.show(execution)
      expect(yield* line.erasure.held(digestIn(line))).toMatchObject({ executions: 1, steps: 2, streams: 1, tags: 1 })
      expect(yield* all(line, line.erasure.erase)).toBe(2)
      const shown = yield* line.workflows.show(order.id)
      expect(JSON.stringify(shown)).not.toContain("Ada")
      expect(shown).toMatchObject({ execution: `erased:${order.id}`, state: before.state, tags: {}, deferreds: [] })
      expect(shown.steps.map(({ exit, name, sequence }) => [name, sequence, exit])).toEqual([
        ["step 1", 1, null],
        ["step 2", 2, null]
      ])
      expect(shown.childCounts).toEqual(before.childCounts)
      expect((yield* line.workflows.show(order.id)).children).toMatchObject([{ id: child.id, name: "step 3" }])
      expect((yield* line.search.get(child.id)).result).toBeUndefined()
      expect(yield* Effect.flip(line.workflows.show(execution))).toMatchObject({ _tag: "ExecutionNotFound" })
      expect(yield* line.erasure.held(digestIn(line))).toMatchObject({ executions: 0, steps: 0, waits: 0 })
      // It can neither run again nor be the source of a fork, and its id is free.
      expect(yield* Effect.flip(line.jobAdmin.requeue(order.id))).toMatchObject({ _tag: "JobNotInState" })
      const fork = yield* Effect.flip(line.workflows.fork(order.id, "step 1"))
      expect(fork).toMatchObject({ _tag: "JobNotInState" })
      expect((yield* begin(line, marker)).id).not.toBe(order.id)
    })
  )

  law("a fork has the subject of its source", (line) =>
    Effect.gen(function* () {
      const order = yield* begin(line, "order", { subject: subjectIn(line) })
      yield* line.workflows.record(order, step("pay"))
      const fork = yield* line.workflows.fork(`${line.name}/order`, "pay")
      expect((yield* line.search.get(fork.id)).meta).toMatchObject({ subjectDigest: digestIn(line) })
    })
  )

  law("events of a subject are deleted, also from open windows", (line) =>
    Effect.gen(function* () {
      const kind = `${line.name}.listed`
      const name = `${line.name}.moved`
      yield* register(line, "listed")
      yield* line.events.subscribe([kind], [{ event: name, kind, window: { debounce: 1_000, max: 100, by: [] } }])
      const [own] = yield* line.events.publish([
        { name, data: marker, subject: subjectIn(line), id: marker, key: marker }
      ])
      const [other] = yield* line.events.publish([{ name, data: "kept" }])
      expect(yield* line.events.erase(digestIn(line), "count")).toBe(1)
      expect(yield* all(line, line.events.erase)).toBe(1)
      expect(yield* Effect.flip(line.events.get(own?.id ?? ""))).toMatchObject({ _tag: "EventNotFound" })
      yield* line.advance("2 seconds")
      yield* line.events.closeWindows
      expect((yield* line.all()).map(({ payload }) => payload)).toEqual([["kept"]])
      expect(yield* line.events.get(other?.id ?? "")).toMatchObject({ data: "kept" })
      yield* line.events.subscribe([kind], [])
    })
  )

  law("a batch of a subject loses its name and its follow-up, and closes", (line) =>
    Effect.gen(function* () {
      const followUp = { kind: "after", version: 1, queue: line.name, payload: marker, attempts: 1 }
      const jobs = [line.job({ payload: marker })]
      const { batch } = yield* line.batches.create({ jobs, name: marker, followUp, subject: subjectIn(line) })
      yield* line.batches.add(batch.id, jobs)
      expect(yield* all(line, line.batches.erase)).toBe(1)
      for (const { id } of yield* line.erasure.unfinished(digestIn(line), 10)) yield* line.jobAdmin.cancel(id)
      yield* line.batches.close
      expect(yield* all(line, line.erasure.erase)).toBe(2)
      const closed = yield* line.batches.get(batch.id)
      expect(closed).toMatchObject({ name: undefined, followUp: undefined, total: 2, counts: { cancelled: 2 } })
      expect(closed.closedAt).toBeDefined()
      expect((yield* line.all()).map(({ kind }) => kind)).toEqual(["greet", "greet"])
    })
  )

  law("copies that are kept for an undo are deleted", (line) =>
    Effect.gen(function* () {
      const subject = subjectIn(line)
      const [deleted, requeued] = [yield* line.newId, yield* line.newId]
      const one = yield* line.put({ subject, payload: marker })
      yield* line.jobAdmin.recordingUndo(deleted).remove(one)
      const two = yield* line.run({ subject })
      yield* line.end(two, ends.dead)
      yield* line.jobAdmin.recordingUndo(requeued).requeue(two.id)
      yield* line.end(yield* line.claimOne, ends.done)
      expect(yield* line.jobAdmin.eraseUndo(digestIn(line), "count")).toBeGreaterThanOrEqual(1)
      yield* all(line, line.erasure.erase)
      yield* all(line, line.jobAdmin.eraseUndo)
      expect(yield* line.jobAdmin.eraseUndo(digestIn(line), "count")).toBe(0)
      for (const [id, act] of [
        [one, deleted],
        [two.id, requeued]
      ] as const)
        expect(yield* Effect.flip(line.jobAdmin.undo(id, act))).toMatchObject({ _tag: "UndoRefused", why: "forgotten" })
    })
  )

  law("copies of changed jobs are deleted even if the jobs no longer exist", (line) =>
    Effect.gen(function* () {
      const subject = subjectIn(line)
      const run = yield* line.run({ subject, key: marker, meta: { order: 7 } })
      const dead = yield* line.end(run, End.Dead({ reason: "rejected", counted: true, error: `no ${marker}` }))
      const first = yield* line.newId
      yield* line.jobAdmin.recordingUndo(first).requeue(dead.id)
      yield* line.jobAdmin.undo(dead.id, first)
      expect((yield* line.search.get(dead.id)).meta).toEqual(dead.meta)
      const act = yield* line.newId
      yield* line.jobAdmin.recordingUndo(act).requeue(dead.id)
      yield* line.jobAdmin.remove(dead.id)
      expect(yield* all(line, line.erasure.erase)).toBe(0)
      expect(yield* line.jobAdmin.eraseUndo(digestIn(line), "count")).toBe(1)
      expect(yield* all(line, line.jobAdmin.eraseUndo)).toBe(1)
      expect(yield* Effect.flip(line.jobAdmin.undo(dead.id, act))).toMatchObject({ why: "forgotten" })
    })
  )

  law("more jobs than fit into one transaction are erased in several", (line) =>
    Effect.gen(function* () {
      const jobs = Array.from({ length: 1_000 }, (_, n) =>
        line.job({ subject: subjectIn(line), payload: `${marker} ${n}` })
      )
      const stored = yield* line.queue.enqueue(jobs)
      expect(stored).toHaveLength(1_000)
      const { id } = yield* line.operations.begin({
        action: "cancel",
        who: "law",
        target: { ids: stored.map((job) => job.id) }
      })
      while (Option.getOrUndefined(yield* line.operations.step(id))?.status === "running");
      expect(yield* all(line, line.erasure.erase)).toBe(1_000)
      expect((yield* line.all()).every(({ payload, state }) => payload === null && state === "cancelled")).toBe(true)
    })
  )
}
