// Enqueues of two cells of a fleet while the server of a third is up, and while it is stopped and its enqueues fail.
// `node scripts/bench/fleet-outage.mjs [enqueues per cell and phase]` prints percentiles in milliseconds. Needs a build.
import { setTimeout as sleep } from "node:timers/promises"
import { connect, job } from "../../dist/client.js"
import { startPostgres } from "./postgres.mjs"
import { quantile } from "./statistics.mjs"

const count = Number(process.argv[2] ?? 5_000)
const anything = { "~standard": { version: 1, vendor: "bench", validate: (value) => ({ value }) } }
const names = ["one", "two", "three"]
const jobs = Object.fromEntries(names.map((name) => [name, job("ping", { payload: anything, queue: name })]))

const servers = await Promise.all(names.map(startPostgres))
const fleet = {
  cells: Object.fromEntries(names.map((name, place) => [name, { database: servers[place].url }])),
  queues: Object.fromEntries(names.map((name) => [name, name])),
  default: "one"
}
const shift = await connect({ fleet, log: false })

/** Durations of enqueues in one cell, one after the other. */
const measure = async (cell) => {
  const taken = []
  for (let number = 0; number < count; number += 1) {
    const begun = performance.now()
    await shift.enqueue(jobs[cell], { number })
    taken.push(performance.now() - begun)
  }
  return taken
}

/** Enqueues in the third cell at a steady pace, until aborted. Returns how many succeeded and failed. */
const disturb = async (control) => {
  const outcome = { stored: 0, failed: 0 }
  while (!control.aborted) {
    const isStored = await shift.enqueue(jobs.three, {}).then(
      () => true,
      () => false
    )
    outcome[isStored ? "stored" : "failed"] += 1
    await sleep(5)
  }
  return outcome
}

const phase = async () => {
  const control = new AbortController()
  const disturbed = disturb(control.signal)
  const taken = await Promise.all([measure("one"), measure("two")])
  control.abort()
  return { taken, outcome: await disturbed }
}

const print = (name, { outcome, taken }) => {
  const [one, two] = taken.map((of) => [0.5, 0.95, 0.99].map((share) => quantile(of, share).toFixed(2)).join(" / "))
  const both = quantile(taken.flat(), 0.99)
  console.log(
    `${name}: p50 / p95 / p99 ms: one ${one}; two ${two}; p99 of both ${both.toFixed(2)}; three ${JSON.stringify(outcome)}`
  )
  return both
}

try {
  await phase()
  const before = print("all up", await phase())
  const again = print("all up again", await phase())
  await servers[2].stop()
  const during = print("three stopped", await phase())
  const later = print("three stopped again", await phase())
  const ratio = (during + later) / (before + again)
  console.log(`p99 of the other cells while one is stopped: ${((ratio - 1) * 100).toFixed(1)} % compared to before`)
} finally {
  await shift.close()
  await Promise.all(servers.map(({ stop }) => stop()))
}
