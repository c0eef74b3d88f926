// One measurement of one system, in a process of its own: told by its argument what to do, answers in JSON lines.
import { createInterface } from "node:readline"
import { measures } from "./measures.mjs"
import { loadSystem } from "./systems.mjs"

const { measure, params, system, url } = JSON.parse(process.argv[2])

// Some peers write to the console, so a line that is ours says so.
const say = (message) => new Promise((done) => process.stdout.write(`${JSON.stringify({ bench: message })}\n`, done))

const end = async (message) => {
  await say(message)
  // The database goes with all that is open in it: a graceful stop would only take time.
  process.exit(0)
}

const fail = (error) => end({ error: error?.stack ?? String(error) })
process.on("uncaughtException", fail)
process.on("unhandledRejection", fail)

const listeners = new Set()
const lines = createInterface({ input: process.stdin })
lines.on("line", (line) => {
  for (const listener of listeners) listener(JSON.parse(line))
})
// Whoever asked is gone.
lines.on("close", () => process.exit(1))

const run = async () => {
  const { open, prepare } = await loadSystem(system)
  if (params.prepare) await prepare(url)
  // Visitors know the system only by its doors.
  const instance = params.outside ? undefined : await open(url)
  const parent = { say, hear: (listener) => listeners.add(listener) }
  return measures[measure](instance, params, parent)
}

run().then((result) => end({ result }), fail)
