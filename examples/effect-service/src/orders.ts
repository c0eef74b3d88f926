import { Context, Data, Effect, Layer } from "effect"
import { Handler, Outcome, SqlClient } from "nightshift"
import { ChargeCard } from "./jobs.js"

export class CardDeclined extends Data.TaggedError("CardDeclined")<{ readonly reason: string }> {}
export class ProviderDown extends Data.TaggedError("ProviderDown")<{}> {}

/** The payment provider. The same key twice is one charge. */
export class Payments extends Context.Tag("Payments")<
  Payments,
  { readonly charge: (key: string, cents: number) => Effect.Effect<void, CardDeclined | ProviderDown> }
>() {
  static readonly layerConsole = Layer.succeed(Payments, {
    charge: (key, cents) => Effect.log(`charged ${cents} cents for ${key}`)
  })
}

/** The order and its charge commit together: `enqueue` joins the surrounding transaction. */
export const placeOrder = (order: string, cents: number) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    return yield* sql.withTransaction(
      Effect.gen(function* () {
        yield* sql`insert into orders (id, cents) values (${order}, ${cents})`
        return yield* ChargeCard.enqueue({ order, cents })
      })
    )
  })

/** Runs at least once, so the job's id is the provider's idempotency key. */
export const ChargeCardHandler = Handler.make(ChargeCard, ({ cents }, job) =>
  Effect.gen(function* () {
    const payments = yield* Payments
    yield* payments.charge(job.id, cents)
    return { charged: cents }
  }).pipe(Effect.catchTag("CardDeclined", ({ reason }) => Effect.succeed(Outcome.dead(reason))))
)
