import { Schema } from "effect"
import { Backoff, Job } from "nightshift"

export const ChargeCard = Job.make("charge_card", {
  payload: Schema.Struct({ order: Schema.String, cents: Schema.Int }),
  queue: "payments",
  attempts: 3,
  backoff: Backoff.exponential({ base: "10 seconds", max: "5 minutes", jitter: false })
})
