import * as SqlClient from "@effect/sql/SqlClient"
import { describe, expect, it } from "@effect/vitest"
import { Cause, Context, Effect, Exit, Fiber, Layer, Schedule, Schema, Scope } from "effect"
import { Database } from "../../src/database/Database.js"
import * as Job from "../../src/queue/Job.js"
import * as Nightshift from "../../src/worker/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"

const Parcel = Job.make("parcel", { payload: Schema.Struct({}), queue: "parcels" })

/** A client whose Scope the test closes. */
const client = Effect.gen(function* () {
  const databaseUrl = yield* TestDatabase.migrated
  const scope = yield* Scope.make()
  const context = yield* Layer.buildWithScope(Nightshift.client({ databaseUrl, handlerPool: 1 }), scope)
  return { context, close: Scope.close(scope, Exit.void) }
})

const until = <A, E>(look: Effect.Effect<A, E>, isSo: (found: A) => boolean) =>
  Effect.repeat(look, { until: isSo, schedule: Schedule.spaced("5 millis") })

describe.concurrent("a client whose Scope closes", () => {
  it.scopedLive("ends callers that wait for a result, and later ones", () =>
    Effect.gen(function* () {
      const { close, context } = yield* client
      const { id } = yield* Effect.provide(Parcel.enqueue({}), context)
      const result = Effect.exit(Effect.provide(Job.result(id), context))
      const waiting = yield* Effect.fork(result)
      yield* Effect.yieldNow()
      yield* close
      for (const exit of [yield* Fiber.join(waiting), yield* result])
        expect(Exit.isFailure(exit) && Cause.isInterruptedOnly(exit.cause)).toBe(true)
    })
  )

  it.scopedLive("fails statements that wait for a connection", () =>
    Effect.gen(function* () {
      const { close, context } = yield* client
      const sql = Context.get(context, SqlClient.SqlClient)
      const { handlerPoolUse } = Context.get(context, Database)
      const held = yield* Scope.make()
      yield* Scope.extend(sql.reserve, held)
      const waiting = yield* Effect.fork(Effect.flip(sql`select 1`))
      yield* until(handlerPoolUse, (use) => use.waiting === 1)
      const closing = yield* Effect.fork(close)
      expect(String((yield* Fiber.join(waiting)).cause)).toContain("Cannot use a pool after calling end on the pool")
      yield* Scope.close(held, Exit.void)
      yield* Fiber.join(closing)
    })
  )
})
