import { Effect } from "effect"
import type { Plan } from "./Plan.js"
import type { Report } from "./Report.js"

// Reduces a failing plan to the few steps that matter. Removes steps and faults, many at a time at first, and keeps a
// removal if the same invariant is still violated.

/** Maximum number of runs per shrink. */
const maxRuns = 120

/** The plan with the faults that were actually injected. */
const asPlayed = ({ faults, plan }: Report): Plan => ({ ...plan, faults })

/** Returns the smallest list found that still fails, by removing halves, then quarters, down to single elements. */
const smallest = <A, R>(
  all: ReadonlyArray<A>,
  stillFails: (fewer: ReadonlyArray<A>) => Effect.Effect<boolean, never, R>
): Effect.Effect<ReadonlyArray<A>, never, R> =>
  Effect.gen(function* () {
    let kept = all
    for (let size = Math.max(1, kept.length); size >= 1; size = Math.floor(size / 2)) {
      for (let from = 0; from < kept.length; ) {
        const fewer = [...kept.slice(0, from), ...kept.slice(from + size)]
        if (yield* stillFails(fewer)) kept = fewer
        else from += size
      }
    }
    return kept
  })

/** Returns the report of a smaller plan that violates the same invariant, or the given report if there is none. */
export const shrink = <R>(
  report: Report,
  run: (plan: Plan, stopAt: string | undefined) => Effect.Effect<Report, never, R>
): Effect.Effect<Report, never, R> =>
  Effect.gen(function* () {
    const broken = report.violations[0]?.invariant
    let best = report
    let runs = 0

    const tried = (plan: Plan) =>
      Effect.gen(function* () {
        if (broken === undefined || runs >= maxRuns) return false
        runs += 1
        const next = yield* run(plan, broken)
        const fails = next.violations.some(({ invariant }) => invariant === broken)
        if (fails) best = next
        return fails
      })

    if (!(yield* tried(asPlayed(report)))) return report
    yield* smallest(best.plan.steps, (steps) => tried({ ...asPlayed(best), steps }))
    yield* smallest(best.faults, (faults) => tried({ ...best.plan, faults }))
    for (let pods = 1; pods < best.plan.pods; pods += 1) if (yield* tried({ ...asPlayed(best), pods })) break
    return yield* run(asPlayed(best), undefined)
  })
