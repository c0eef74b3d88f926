import { Context, Effect, Layer } from "effect"
import type { Database } from "../../src/database/Database.js"
import { RateLimits } from "../../src/rate-limits/RateLimits.js"
import * as RateLimitsPg from "../../src/rate-limits/RateLimitsPg.js"
import * as SteppableClock from "../support/SteppableClock.js"
import * as TestDatabase from "../support/TestDatabase.js"
import { limitsLaws, Pods } from "./LimitsLaws.js"

const pods = Layer.effect(
  Pods,
  Effect.map(Effect.context<Database>(), (context) => ({
    open: Layer.build(Layer.fresh(RateLimitsPg.layer)).pipe(
      Effect.map((built) => Context.get(built, RateLimits)),
      Effect.provide(context)
    )
  }))
)

limitsLaws(
  "limits on PostgreSQL",
  pods.pipe(Layer.provide(TestDatabase.layer), Layer.provideMerge(SteppableClock.layer)),
  { clock: "live", advance: SteppableClock.advance }
)
