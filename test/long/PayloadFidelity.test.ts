import { describe, expect, it } from "@effect/vitest"
import { Console, Effect, Either, FastCheck, Layer, Redacted, Runtime, Schema } from "effect"
import * as Cli from "../../src/cli/Cli.js"
import type { PodId } from "../../src/core/Ids.js"
import { limits } from "../../src/core/StoredJob.js"
import { Database } from "../../src/database/Database.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as Job from "../../src/queue/Job.js"
import { Kinds } from "../../src/queue/Kinds.js"
import { Queue } from "../../src/queue/Queue.js"
import { message } from "../gateway/Updates.js"
import { layer as gateLayer, WebhookServer } from "../gateway/WebhookServer.js"
import { layerPostgres, TestServer } from "../http/TestServer.js"
import { isLong } from "../support/Scale.js"

// A handler receives exactly the payload that was sent, through every entry point. What cannot be kept is refused.

const yaml = "bots:\n  jobs: { handler: echo, requireAuth: false, async: true }\n"
const sameStores = Layer.merge(Layer.effect(Queue, Queue), Layer.effect(Kinds, Kinds))
// Fresh: otherwise both would share one server.
const house = Layer.provideMerge(Layer.fresh(gateLayer({ yaml }, sameStores)), layerPostgres())

const Anything = Job.make("anything", { payload: Schema.Unknown })
const pod = "0198c0de-0000-7000-8000-000000000001" as PodId

/** Any sequence of UTF-16 units, including NUL, lone surrogates and control characters. */
const units = FastCheck.array(
  FastCheck.oneof(
    { weight: 6, arbitrary: FastCheck.integer({ min: 0x20, max: 0x7e }) },
    { weight: 1, arbitrary: FastCheck.integer({ min: 0, max: 0xffff }) }
  ),
  { maxLength: 8 }
).map((codes) => String.fromCharCode(...codes))

const text = FastCheck.oneof(
  units,
  FastCheck.constantFrom("", "😀é\u2028", "null", '"\\', "\\u0000", "__proto__", "1e400")
)

const number = FastCheck.oneof(
  FastCheck.double({ noNaN: true, noDefaultInfinity: true }),
  FastCheck.maxSafeInteger(),
  FastCheck.constantFrom(-0, 5e-324, Number.MAX_VALUE, 2 ** 53, 2 ** 60, 1e21, 0.1 + 0.2)
)

const payloads = FastCheck.anything({
  key: text.filter((key) => key !== "__proto__"),
  values: [text, number, FastCheck.boolean(), FastCheck.constant(null)],
  maxDepth: 4,
  maxKeys: 4
})

const nested = (levels: number): unknown => JSON.parse(`${"[".repeat(levels)}${"]".repeat(levels)}`)

/** Payloads that every run tries as well, and whether they are kept. */
const edges: ReadonlyArray<readonly [payload: unknown, kept: boolean]> = [
  [null, true],
  ["", true],
  [{}, true],
  [[], true],
  [nested(limits.nesting), true],
  [nested(limits.nesting + 1), false],
  ["x".repeat(limits.payloadBytes - 2), true],
  ["x".repeat(limits.payloadBytes - 1), false],
  ["😀".repeat(1_000), true],
  ["\ud83d", false],
  [{ "a\u0000": 1 }, false]
]

/** PostgreSQL text cannot hold NUL or lone surrogates. */
const isKept = (value: unknown) => {
  let kept = true
  JSON.stringify(value, (key, inner: unknown) => {
    for (const each of [key, inner]) if (typeof each === "string" && /[\0\p{Surrogate}]/u.test(each)) kept = false
    return inner
  })
  return kept
}
const arriving = (value: unknown): unknown => JSON.parse(JSON.stringify(value))

type EntryPoint = (payload: unknown, queue: string) => Effect.Effect<boolean, unknown, TestServer | Queue | Database>

const entryPoints: Readonly<Record<string, EntryPoint>> = {
  TypeScript: (payload, queue) => Effect.as(Anything.enqueue(payload, { queue }), true),
  HTTP: (payload, queue) =>
    Effect.flatMap(TestServer, ({ admin }) =>
      Effect.map(
        admin("POST", "/api/v1/jobs", { json: { kind: "anything", payload, queue, force: true } }),
        ({ status }) => status === 201
      )
    ),
  SQL: (payload, queue) =>
    Effect.flatMap(Database, ({ sql }) =>
      Effect.as(
        sql`select nightshift.enqueue('anything', ${JSON.stringify(payload)}::jsonb, queue => ${queue}, force => true)`,
        true
      )
    )
}

const silent = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(Console.consoleWith(Effect.succeed), (inner) =>
    Effect.withConsole(effect, { ...inner, log: () => Effect.void, error: () => Effect.void })
  )

const commandLine: EntryPoint = (payload, queue) =>
  silent(
    Cli.run([
      "node",
      "nightshift",
      "enqueue",
      "anything",
      `--payload=${JSON.stringify(payload)}`,
      "--queue",
      queue,
      "--force"
    ])
  ).pipe(Effect.as(true))

/** The next job's payload; the server's clock may be slightly ahead of ours. */
const next = (queue: string) =>
  Effect.flatMap(Queue, ({ claim }) =>
    Effect.repeat(claim({ queue, pod, limit: 10 }), { until: (jobs) => jobs.length > 0 })
  )

let opened = 0

/** Sends a payload through an entry point, and checks what arrives. */
const passes = (entryPoint: EntryPoint, payload: unknown, kept: boolean) =>
  Effect.gen(function* () {
    opened += 1
    const queue = `fidelity-${opened}`
    const answer = yield* Effect.either(entryPoint(payload, queue))
    expect(
      Either.getOrElse(answer, () => false),
      `${JSON.stringify(payload).slice(0, 200)}: ${answer}`
    ).toBe(kept)
    const { claim } = yield* Queue
    const jobs = kept ? yield* next(queue) : yield* claim({ queue, pod, limit: 10 })
    expect(jobs.map((job) => job.payload)).toEqual(kept ? [arriving(payload)] : [])
  })

const assertAll = <R>(runs: number, property: (payload: unknown) => Effect.Effect<void, unknown, R>) =>
  Effect.flatMap(Effect.runtime<R>(), (runtime) =>
    Effect.promise(() =>
      FastCheck.assert(
        FastCheck.asyncProperty(payloads, (payload) => Runtime.runPromise(runtime)(property(payload))),
        { numRuns: runs }
      )
    )
  )

describe("a payload that is sent", () => {
  it.scopedLive("is the payload that the handler receives, or is refused", () =>
    Effect.gen(function* () {
      for (const entryPoint of Object.values(entryPoints)) {
        for (const [payload, kept] of edges) yield* passes(entryPoint, payload, kept)
        yield* assertAll(isLong ? 25 : 10, (payload) => passes(entryPoint, payload, isKept(payload)))
      }

      const { update } = yield* WebhookServer
      let updates = 0
      yield* assertAll(isLong ? 10 : 4, (payload) =>
        Effect.gen(function* () {
          if (!isKept(payload)) return
          updates += 1
          const sent = { ...message(updates, "hello", updates), tomorrow: payload }
          expect((yield* update("jobs", sent)).status).toBe(200)
          const jobs = yield* next("bot-jobs")
          expect(jobs.map((job) => job.payload)).toEqual([arriving(sent)])
        })
      )

      // The command line reads the environment of its process, which is this one.
      const url = Redacted.value(yield* DatabaseUrl)
      const before = process.env.DATABASE_URL
      process.env.DATABASE_URL = url
      yield* Effect.addFinalizer(() =>
        Effect.sync(() => {
          if (before === undefined) delete process.env.DATABASE_URL
          else process.env.DATABASE_URL = before
        })
      )
      yield* passes(commandLine, { "😀é\u2028\n": "\r" }, true)
      for (const [payload, kept] of edges.slice(4, 6)) yield* passes(commandLine, payload, kept)
      yield* assertAll(4, (payload) => passes(commandLine, payload, isKept(payload)))
    }).pipe(Effect.provide(house))
  )
})
