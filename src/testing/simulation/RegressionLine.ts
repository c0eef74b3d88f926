import { Data, Effect, Predicate } from "effect"
import type { Plan } from "./Plan.js"
import type { Report } from "./Report.js"

// A seed and a plan as one line of JSON: short enough to keep in a test, readable enough to edit.

export class BadLine extends Data.TaggedError("BadLine")<{ readonly reason: string }> {
  override get message(): string {
    return `The plan is not valid: ${this.reason}. Copy the whole line that Simulation.regressionLine returned or nightshift simulate printed.`
  }
}

export interface Regression {
  readonly seed: number
  readonly jobs: number
  readonly plan: Plan
}

/** Writes the faults that occurred instead of their probabilities, so that the line stays valid when the code changes. */
export const write = ({ faults, jobCount, plan, seed }: Report): string =>
  JSON.stringify({ seed, jobs: jobCount, ...plan, faults })

const isPlan = (value: unknown): value is Regression & Plan => {
  if (!Predicate.isRecord(value)) return false
  const { faults, jobs, pods, seed, steps }: Readonly<Record<string, unknown>> = value
  return [seed, jobs, pods].every(Number.isInteger) && Array.isArray(steps) && Array.isArray(faults)
}

export const read = (line: string): Effect.Effect<Regression, BadLine> =>
  Effect.flatMap(
    Effect.try({ try: () => JSON.parse(line) as unknown, catch: () => new BadLine({ reason: "it is not JSON" }) }),
    (value) => {
      if (!isPlan(value))
        return new BadLine({ reason: "it needs the numbers seed, jobs and pods, and the lists steps and faults" })
      const { faults, jobs, pods, seed, slowClocks, steps } = value
      return Effect.succeed({ seed, jobs, plan: { pods, slowClocks, steps, faults } })
    }
  )
