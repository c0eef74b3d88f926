import { job } from "nightshift/client"
import { z } from "zod"

export const welcome = job("welcome", {
  payload: z.object({ email: z.email(), plan: z.enum(["free", "team"]) }),
  queue: "mail"
})
