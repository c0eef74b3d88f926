import { job } from "nightshift/client"
import * as v from "valibot"

export const remind = job("remind", {
  payload: v.object({ email: v.pipe(v.string(), v.email()), cart: v.string() }),
  queue: "mail"
})
