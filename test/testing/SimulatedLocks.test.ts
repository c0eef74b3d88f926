import { describe, expect, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import * as Handler from "../../src/handlers/Handler.js"
import * as Job from "../../src/queue/Job.js"
import type { Recovered } from "../../src/queue/Queue.js"
import { Simulation } from "../../src/testing/effect.js"
import type { Step } from "../../src/testing/simulation/Plan.js"

const Receipt = Job.make("receipt", { payload: Schema.Struct({ order: Schema.Int }), queue: "mail" })
const handler = Handler.make(Receipt, () => Effect.sleep("8 seconds"))
const receipts = Array.from({ length: 8 }, (_, index) => Receipt.job({ order: index + 1 }))

/** Both pods run jobs from the eighth second on, and have watched each other for ten when the faults begin. */
const arrivals = receipts.map((_, index): Step => ({ at: 8_000, _tag: "Enqueue", nth: index + 1 }))
const at = 11_500

/** Returns which rescues took jobs, by operation, with the process that made them. */
const rescues = (steps: ReadonlyArray<Step>) =>
  Effect.gen(function* () {
    const found: Array<string> = []
    const report = yield* Simulation.run({
      seed: 1,
      handlers: [handler],
      jobs: receipts,
      plan: { pods: 2, steps: [...arrivals, ...steps], faults: [] },
      invariants: [
        {
          name: "rescues",
          promise: "rescues are recorded",
          onAnswer: ({ call, who }, answer) => {
            const isRescue = call === "Queue.recoverStuck" || call === "Queue.recoverOrphaned"
            if (isRescue && (answer as Recovered).rescued > 0) found.push(`${who} ${call}`)
            return []
          }
        }
      ]
    })
    expect(report.violations, Simulation.describe(report)).toEqual([])
    expect(report.jobs.map(({ state }) => state)).toEqual(receipts.map(() => "done"))
    return new Set(found)
  })

const patient = { timeout: 600_000 }

describe("the jobs of a pod in a simulation", () => {
  it.live(
    "are rescued without waiting for the stale limit when the pod is killed",
    () =>
      Effect.gen(function* () {
        const found = yield* rescues([{ at, _tag: "Kill", pod: "pod-2" }])
        expect(found).toEqual(new Set(["pod-1.1 Queue.recoverOrphaned"]))
      }),
    patient
  )

  it.live(
    "are rescued after the stale limit when the pod is killed and its lock stays, or when it freezes",
    () =>
      Effect.gen(function* () {
        const killed = yield* rescues([{ at, _tag: "Kill", pod: "pod-2", lockedMillis: 60_000 }])
        expect(killed).toEqual(new Set(["pod-1.1 Queue.recoverStuck"]))
        const frozen = yield* rescues([{ at: 8_500, _tag: "Freeze", pod: "pod-2", millis: 60_000 }])
        expect(frozen).not.toContain("pod-1.1 Queue.recoverOrphaned")
      }),
    patient
  )

  it.live(
    "are left to it when it only loses its lock",
    () =>
      Effect.gen(function* () {
        expect(yield* rescues([{ at, _tag: "LoseLock", pod: "pod-2", millis: 9_000 }])).toEqual(new Set())
      }),
    patient
  )

  it.live(
    "are left to it when it loses its lock while another one dies, which is rescued after the stale limit",
    () =>
      Effect.gen(function* () {
        const found = yield* rescues([
          { at, _tag: "LoseLock", pod: "pod-1", millis: 2_000 },
          { at, _tag: "Kill", pod: "pod-2", lockedMillis: 2_000 }
        ])
        expect(found).toEqual(new Set(["pod-1.1 Queue.recoverStuck"]))
      }),
    patient
  )

  it.live(
    "are rescued once when it lives without a connection, and it cannot finish them",
    () =>
      Effect.gen(function* () {
        const found = yield* rescues([
          { at, _tag: "LoseLock", pod: "pod-2", millis: 8_000 },
          { at, _tag: "Disconnect", pod: "pod-2", millis: 8_000 }
        ])
        expect(found).toEqual(new Set(["pod-1.1 Queue.recoverOrphaned"]))
      }),
    patient
  )
})
