import { expect, layer } from "@effect/vitest"
import { Effect, Either, Layer } from "effect"
import { Database } from "../../src/database/Database.js"
import * as Listener from "../../src/database/Listener.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import * as TestDatabase from "../support/TestDatabase.js"

const house = QueuePg.layer.pipe(Layer.provide(Listener.layerPolling), Layer.provideMerge(TestDatabase.layer))

layer(house, { excludeTestServices: true })("callers with large payloads", (it) => {
  it.scoped(
    "are all served when 300 of them send a megabyte each at once, beside five small ones",
    () =>
      Effect.gen(function* () {
        const queue = yield* Queue
        const { sql } = yield* Database
        const large = "x".repeat(1024 * 1024 - 2)
        const payloads = [...Array.from({ length: 300 }, () => large), 1, 2, 3, 4, 5]
        const answers = yield* Effect.forEach(
          payloads,
          (payload) =>
            Effect.either(queue.enqueue([{ kind: "test", version: 1, queue: "large", payload, attempts: 5 }])),
          { concurrency: "unbounded" }
        )
        expect(answers.filter(Either.isLeft)).toEqual([])
        expect(yield* sql`select count(*)::int as count from nightshift.job`).toEqual([{ count: 305 }])
      }),
    120_000
  )
})
