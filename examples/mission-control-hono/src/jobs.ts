import { job } from "nightshift/client"
import * as v from "valibot"

export const greet = job("greet", { payload: v.object({ name: v.string() }), queue: "greetings" })
