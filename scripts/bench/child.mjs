// Runs one measurement of one system in a separate process. The argument is the task; results are JSON lines on stdout.
import { createInterface } from "node:readline"
import { measures } from "./measures.mjs"
import { loadSystem } from "./systems.mjs"

const { measure, params, system, url } = JSON.parse(process.argv[2])

// Marks our own lines: some peers also write to the console.
const send = (message) => new Promise((done) => process.stdout.write(`${JSON.stringify({ bench: message })}\n`, done))

const end = async (message) => {
  await send(message)
  // Skip the graceful stop: the database is dropped anyway.
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
// The parent process has exited.
lines.on("close", () => process.exit(1))

const run = async () => {
  const { open, prepare } = await loadSystem(system)
  if (params.prepare) await prepare(url)
  // Browsing clients use only the HTTP server.
  const instance = params.outside ? undefined : await open(url, params)
  const parent = { send, onMessage: (listener) => listeners.add(listener) }
  return measures[measure](instance, params, parent)
}

run().then((result) => end({ result }), fail)
