import { Effect, Layer } from "effect"
import { Nightshift, SqlClient } from "nightshift"
import { ChargeCardHandler, Payments, placeOrder } from "./orders.js"

// One process that enqueues and runs jobs. It reads DATABASE_URL, and stops in order when its scope closes.
const service = Nightshift.layer({ handlers: [ChargeCardHandler], queues: ["payments"] })

const program = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`create table if not exists orders (id text primary key, cents int not null)`
  const { id } = yield* placeOrder(`A-${Date.now()}`, 1250)
  yield* Effect.log(`order placed, job ${id}`)
  yield* Effect.never
})

const fiber = Effect.runFork(Effect.provide(program, Layer.provideMerge(service, Payments.layerConsole)))
for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => fiber.unsafeInterruptAsFork(fiber.id()))
