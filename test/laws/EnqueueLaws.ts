import { expect } from "@effect/vitest"
import { Duration, Effect, Exit } from "effect"
import { limits } from "../../src/core/StoredJob.js"
import type { NewJob } from "../../src/queue/NewJob.js"
import { ends, type Law } from "./Line.js"

/** Jobs that must be refused, and the field at fault. */
const refusals: ReadonlyArray<readonly [what: string, job: Partial<NewJob>, field: string]> = [
  ["a priority out of range", { priority: 32_768 }, "priority"],
  ["a priority that is no whole number", { priority: 0.5 }, "priority"],
  ["a queue's name with a space", { queue: "my queue" }, "queue"],
  ["an empty queue's name", { queue: "" }, "queue"],
  ["an empty kind", { kind: "" }, "kind"],
  ["a kind with NUL", { kind: "a\u0000b" }, "kind"],
  ["no attempts", { attempts: 0 }, "attempts"],
  ["a version of 0", { version: 0 }, "version"],
  ["a start that is no instant", { runAt: Number.NaN }, "runAt"],
  ["a payload over the cap", { payload: "x".repeat(limits.payloadBytes) }, "payload"],
  ["a payload over the cap in bytes only", { payload: "é".repeat(limits.payloadBytes / 2) }, "payload"],
  ["no payload", { payload: undefined }, "payload"],
  ["a payload that is no JSON", { payload: { n: 1n } }, "payload"],
  ["NUL in a payload", { payload: { text: "a\u0000b" } }, "payload"],
  ["NUL in a name in a payload", { payload: { "a\u0000b": 1 } }, "payload"],
  ["half a surrogate pair in a payload", { payload: ["\ud83d"] }, "payload"],
  ["NUL in a key", { key: "a\u0000b" }, "key"],
  ["half a surrogate pair in a key", { key: "\udc00" }, "key"],
  ["an empty dedupe key", { dedupe: { key: "", scope: "active" } }, "dedupe.key"],
  ["a dedupe key that is too long", { dedupe: { key: "k".repeat(513), scope: "active" } }, "dedupe.key"],
  ["NaN in a payload", { payload: { n: Number.NaN } }, "payload"],
  ["infinity in a payload", { payload: [null, [Number.NEGATIVE_INFINITY]] }, "payload"],
  ["a payload of 1,001 levels", { payload: JSON.parse(`${"[".repeat(1_001)}${"]".repeat(1_001)}`) }, "payload"],
  ["an infinite start", { runAt: Number.POSITIVE_INFINITY }, "runAt"],
  [
    "a dedupe window without end",
    { dedupe: { key: "k", scope: "retained", window: Duration.infinity } },
    "dedupe.window"
  ],
  [
    "a dedupe window beyond the calendar",
    { dedupe: { key: "k", scope: "retained", window: Duration.days(1e9) } },
    "dedupe.window"
  ],
  ["NUL in meta", { meta: { trace: "\u0000" } }, "meta"]
]

/** JSON as other programs write it. */
const texts = [
  ' {\n\t"a" : [ 1.10 , -0 , 0.10000000000000001 ] }\r\n',
  '{"a":1,"a":2,"__proto__":3}',
  "12345678901234567890",
  "1e2",
  "1E-400",
  '"1234567890123456.5"',
  '"\\u0416\\u00e9 \\u2028 \\/ \\ud83d\\ude00 \\uD83D\\uDE00"',
  '"\\\\u0000 \\\\ud800"',
  '"é 😀 \u2028"',
  "null",
  `"${"x".repeat(400_000)}"`
]

const unstorableTexts = [
  '"\\u0000"',
  '{"\\uD800":1}',
  '["\\uDC00\\uD800"]',
  "1e400",
  `${"[".repeat(1_001)}${"]".repeat(1_001)}`
]

export const enqueueLaws = (law: Law): void => {
  law("is part of the caller's transaction: stores nothing if that fails", (line) =>
    Effect.gen(function* () {
      const inside = Effect.zipRight(line.put(), line.queue.enqueue([line.job(), line.job({ key: "k" })]))
      yield* Effect.ignore(line.transactions.run(Effect.zipRight(inside, Effect.fail("no"))))
      expect(yield* line.all()).toEqual([])
      yield* line.transactions.run(inside)
      expect(yield* line.claim(10)).toHaveLength(3)
    })
  )

  law("stores a job with the given fields, pending and due now", (line) =>
    Effect.gen(function* () {
      const now = yield* line.now
      const onDead = { kind: "mourn", version: 2, queue: line.name, payload: { of: "Ada" }, attempts: 3 }
      const given = { key: "chat:1", priority: -3, onDead, meta: { trace: "t" }, version: 7, attempts: 9 }
      const id = yield* line.put(given)
      expect(yield* line.search.get(id)).toEqual({
        ...given,
        id,
        kind: "greet",
        queue: line.name,
        payload: { name: "Ada" },
        state: "pending",
        runAt: now,
        attempt: 0,
        crashCount: 0,
        dedupe: undefined,
        pod: undefined,
        createdAt: now,
        updatedAt: now,
        startedAt: undefined,
        heartbeatAt: undefined,
        finishedAt: undefined,
        cancelRequestedAt: undefined,
        result: undefined,
        progress: undefined,
        lastError: undefined,
        history: [],
        reason: undefined
      })
    })
  )

  law("keeps every JSON value unchanged", (line) =>
    Effect.gen(function* () {
      const payloads = [
        null,
        true,
        0,
        -1.5e10,
        "",
        [],
        {},
        { a: [{ b: null }] },
        'quote " and \\ and \n',
        "\\u0000",
        "😀é",
        "NaN null [[",
        JSON.parse(`${"[".repeat(1_000)}${"]".repeat(1_000)}`)
      ]
      const answers = yield* line.queue.enqueue(payloads.map((payload) => line.job({ payload })))
      const stored = yield* Effect.forEach(answers, ({ id }) => line.search.get(id))
      expect(stored.map(({ payload }) => payload)).toEqual(payloads)
      const claimed = yield* line.claim(payloads.length)
      expect(claimed.map(({ payload }) => payload)).toEqual(payloads)
    })
  )

  law("stores the same value with the text of a payload as without it", (line) =>
    Effect.gen(function* () {
      for (const text of texts) {
        const payload: unknown = JSON.parse(text)
        const id = yield* line.put({ payload, payloadText: text })
        expect((yield* line.search.get(id))?.payload, text).toEqual(JSON.parse(JSON.stringify(payload)))
      }
      for (const text of unstorableTexts) {
        const refused = yield* Effect.flip(line.put({ payload: JSON.parse(text), payloadText: text }))
        expect(refused, text).toMatchObject({ _tag: "InvalidJob", field: "payload" })
      }
    })
  )

  law("stores a thousand jobs in one request and answers in order", (line) =>
    Effect.gen(function* () {
      const jobs = Array.from({ length: limits.batch }, (_, n) => line.job({ payload: n }))
      const answers = yield* line.queue.enqueue(jobs)
      expect(answers.every(({ outcome }) => outcome === "enqueued")).toBe(true)
      const stored = new Map((yield* line.all()).map(({ id, payload }) => [id, payload]))
      expect(answers.map(({ id }) => stored.get(id))).toEqual(jobs.map(({ payload }) => payload))
    })
  )

  law("stores many similar jobs with different start times, and claims them in that order", (line) =>
    Effect.gen(function* () {
      const now = yield* line.now
      const jobs = Array.from({ length: 120 }, (_, n) => line.job({ payload: n, runAt: now - (n % 3) * 1_000 }))
      const answers = yield* line.queue.enqueue(jobs)
      const stored = new Map((yield* line.all()).map(({ id, runAt }) => [id, runAt]))
      expect(answers.map(({ id }) => stored.get(id))).toEqual(jobs.map(({ runAt }) => runAt))
      const claimed = (yield* line.claim(200)).map(({ payload }) => Number(payload))
      expect(claimed).toEqual(claimed.toSorted((a, b) => (b % 3) - (a % 3) || a - b))
      expect(claimed).toHaveLength(120)
    })
  )

  law("refuses one invalid job among a hundred by its index, and stores none", (line) =>
    Effect.gen(function* () {
      for (const [what, bad, field] of refusals) {
        const jobs = Array.from({ length: 100 }, (_, n) => line.job(n === 61 ? bad : { payload: n }))
        const refusal = yield* Effect.flip(line.queue.enqueue(jobs))
        expect(refusal, what).toMatchObject({ _tag: "InvalidJob", index: 61, field })
      }
      const dated = { payload: { toJSON: () => undefined } }
      const jobs = Array.from({ length: 100 }, (_, n) => line.job(n === 7 ? dated : { payload: n }))
      expect(yield* Effect.flip(line.queue.enqueue(jobs))).toMatchObject({ index: 7, field: "payload" })
      expect(yield* line.all()).toEqual([])
    })
  )

  law("stores or refuses each request of a batch separately, and answers in order", (line) =>
    Effect.gen(function* () {
      const dedupe = { key: `${line.name}-once`, scope: "active" } as const
      const own = yield* line.newId
      const good = [line.job({ payload: 1 }), line.job({ payload: "\u0000" }), line.job({ payload: 3, dedupe })]
      const exits = yield* line.submit([...good, line.job({ payload: 4, dedupe })])
      const ends = exits.map((exit) => Exit.match(exit, { onSuccess: ({ outcome }) => outcome, onFailure: String }))
      expect(ends).toMatchObject(["enqueued", expect.stringContaining("InvalidJob"), "enqueued", "deduplicated"])
      const [single] = yield* line.submit([line.job({ id: own, payload: 5 })])
      expect(single).toEqual(Exit.succeed({ outcome: "enqueued", id: own }))
      expect((yield* line.all()).map(({ payload }) => payload).toSorted()).toEqual([1, 3, 5])
    })
  )

  law("keeps storing submitted jobs when a caller's callback throws", (line) =>
    Effect.gen(function* () {
      const submit = yield* line.queue.submitter
      submit(line.job({ payload: 1 }), () => {
        throw new Error("thrown by the test")
      })
      expect(yield* line.submit([line.job({ payload: 2 })])).toMatchObject([{ _tag: "Success" }])
      expect(yield* line.submit([line.job({ payload: 3 })])).toMatchObject([{ _tag: "Success" }])
      expect((yield* line.all()).map(({ payload }) => payload).toSorted()).toEqual([1, 2, 3])
    })
  )

  law("stores a repeated id with the same content once, even after it was done", (line) =>
    Effect.gen(function* () {
      const id = yield* line.newId
      const job = line.job({ id, payload: { a: 1, b: [2] }, key: "k" })
      expect(yield* line.queue.enqueue([job])).toEqual([{ outcome: "enqueued", id }])
      yield* line.advance("1 minute")
      const same = { ...job, payload: { b: [2], a: 1 } }
      expect(yield* line.queue.enqueue([same])).toEqual([{ outcome: "enqueued", id }])
      yield* line.end(yield* line.claimOne, ends.done)
      const before = yield* line.all()
      expect(yield* line.queue.enqueue([same])).toEqual([{ outcome: "enqueued", id }])
      expect(yield* line.all()).toEqual(before)
      expect(before).toHaveLength(1)
    })
  )

  law("refuses an id that belongs to a job with other content, and stores nothing of that request", (line) =>
    Effect.gen(function* () {
      const id = yield* line.put()
      const others = [{ payload: { name: "Bob" } }, { kind: "part" }, { version: 2 }, { queue: `${line.name}-other` }]
      for (const other of others) {
        const refusal = yield* Effect.flip(line.queue.enqueue([line.job(), line.job({ id, ...other })]))
        expect(refusal).toMatchObject({ _tag: "JobIdTaken", index: 1, id })
      }
      expect((yield* line.all()).map((job) => job.id)).toEqual([id])
    })
  )

  law("refuses the same id twice in one request", (line) =>
    Effect.gen(function* () {
      const id = yield* line.newId
      const refusal = yield* Effect.flip(line.queue.enqueue([line.job({ id }), line.job(), line.job({ id })]))
      expect(refusal).toMatchObject({ _tag: "InvalidJob", index: 2, field: "id" })
      expect(yield* line.all()).toEqual([])
    })
  )

  law("refuses a request with no job or too many jobs", (line) =>
    Effect.gen(function* () {
      for (const jobs of [[], Array.from({ length: limits.batch + 1 }, () => line.job())]) {
        expect(yield* Effect.flip(line.queue.enqueue(jobs))).toMatchObject({ _tag: "InvalidJob", field: "jobs" })
      }
      expect(yield* line.all()).toEqual([])
    })
  )

  for (const [what, bad, field] of refusals) {
    law(`refuses ${what}, names the field and the job, and stores nothing of that request`, (line) =>
      Effect.gen(function* () {
        const refusal = yield* Effect.flip(line.queue.enqueue([line.job(), line.job(bad), line.job()]))
        expect(refusal).toMatchObject({ _tag: "InvalidJob", index: 1, field })
        expect(yield* line.all()).toEqual([])
      })
    )
  }

  for (const queue of ["null", "NULL", "true", "-"]) {
    law(`a queue may be named ${queue}`, (line) =>
      Effect.gen(function* () {
        const now = yield* line.now
        yield* line.queues.declare([queue])
        yield* line.queues.change(queue, { perKey: { concurrency: 1, order: "none" } })
        const own = { queue, key: "null", dedupe: { key: `${line.name}-${queue}`, scope: "active" as const } }
        yield* line.queue.enqueue([
          line.job({ ...own, runAt: now + 60_000 }),
          line.job({ queue, key: "k", runAt: now + 60_000 })
        ])
        expect(yield* line.queue.nextDue([queue])).toEqual(new Map([[queue, now + 60_000]]))
        yield* line.advance("2 minutes")
        const runs = yield* line.queue.claim({ queue, pod: line.pod, limit: 10 })
        expect(runs).toHaveLength(2)
        yield* line.queue.finalize(runs.map(({ id, lease }) => ({ id, lease, end: ends.done })))
        expect((yield* line.all(queue)).map(({ state }) => state)).toEqual(["done", "done"])
      })
    )
  }
}
