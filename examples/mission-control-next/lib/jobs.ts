import { job } from "nightshift/client"
import { z } from "zod"

export const greet = job("greet", { payload: z.object({ name: z.string() }), queue: "greetings" })
