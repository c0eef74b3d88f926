import { setTimeout as sleep } from "node:timers/promises"
import { job, Outcome } from "nightshift/client"
import { z } from "zod"

// A call that fails more often than not. After the fourth failure the job is dead, and its follow-up runs.
const Call = z.object({ customer: z.int() })
const apology = job("apology", { payload: Call, queue: "calls" })
const call = job("call", {
  payload: Call,
  queue: "calls",
  attempts: 4,
  backoff: ["1s", "3s", "9s"],
  timeout: "4s",
  onDead: ({ customer }) => apology.followUp({ customer })
})

const makeCall = call.handle(async ({ customer }, { attempt, signal }) => {
  const chance = Math.random()
  if (chance < 0.1) return Outcome.dead("this number does not exist")
  if (chance < 0.2) await sleep(60_000, undefined, { signal }) // The timeout aborts the signal after 4 s.
  await sleep(1500)
  if (chance < 0.7) throw new Error(`line busy at attempt ${attempt}`)
  return { customer, answered: true }
})

const apologize = apology.handle(async ({ customer }, { log }) => {
  await sleep(1000)
  log.info("sorry that we did not reach you", { customer })
})

export const handlers = [makeCall, apologize]
export const queues = { calls: 4 }

// The buttons of this page. Open Dead in Mission Control to see why calls failed, and requeue them.
let customers = 0
const next = () => ({ customer: ++customers })
export const actions = {
  "Enqueue 1 call": (shift) => shift.enqueue(call, next()),
  "Enqueue 20 calls": (shift) => shift.enqueueMany(call, Array.from({ length: 20 }, next)),
  "Enqueue a call in 30 s": (shift) => shift.enqueue(call, next(), { delay: "30s" })
}
