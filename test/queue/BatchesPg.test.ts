import { expect, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { Database } from "../../src/database/Database.js"
import * as Listener from "../../src/database/Listener.js"
import { Batches } from "../../src/queue/batch/Batches.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import * as TestDatabase from "../support/TestDatabase.js"

const house = QueuePg.layer.pipe(Layer.provide(Listener.layerPolling), Layer.provideMerge(TestDatabase.layer))

layer(house, { excludeTestServices: true })("a batch whose stored follow-up is not valid", (it) => {
  it.scoped("is closed without it, and keeps no other batch from being closed or shown", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const batches = yield* Batches
      const followUp = { kind: "report", queue: "report", version: 1, attempts: 1, payload: {} }
      const { batch } = yield* batches.create({ jobs: [], followUp })
      yield* sql`update nightshift.batch set follow_up = follow_up || '{"priority": 1.5}' where id = ${batch.id}`
      yield* batches.create({ jobs: [], followUp })
      expect((yield* batches.close).closed).toBe(2)
      const { batches: all } = yield* batches.list({ limit: 10 })
      expect(all.map(({ closedAt, followUpId }) => [closedAt !== undefined, followUpId !== undefined])).toEqual([
        [true, true],
        [true, false]
      ])
    })
  )
})
