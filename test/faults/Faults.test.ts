import { Cause, Duration, Effect, Exit, Option } from "effect"
import { describe, expect, test } from "vitest"
import { groups } from "../../scripts/matrix/faults-page.mjs"
import { limitOf, pace, Unavailable } from "./FaultCase.js"
import type { FaultMeta } from "./FaultsReporter.js"
import { cases } from "./Registry.js"

for (const group of groups) {
  const ofGroup = cases.filter((each) => each.group === group)
  if (ofGroup.length === 0) continue
  describe.concurrent(group, () => {
    for (const each of ofGroup) {
      test.concurrent(each.name, { timeout: 600_000 * pace }, async ({ skip, task }) => {
        const meta = task.meta as FaultMeta
        const { run: _, ...described } = each
        meta.fault = described
        const exit = await Effect.runPromiseExit(Effect.scoped(each.run))
        if (Exit.isFailure(exit)) {
          const failure = Option.getOrUndefined(Cause.failureOption(exit.cause))
          if (failure instanceof Unavailable) {
            meta.unavailable = failure.reason
            return skip(failure.reason)
          }
          throw failure instanceof Error ? failure : new Error(Cause.pretty(exit.cause))
        }
        const { measured, recovery, saw } = exit.value
        meta.observed = {
          recoveryMillis: Math.round(Duration.toMillis(recovery)),
          saw,
          ...(measured === undefined ? {} : { measured })
        }
        const limit = limitOf(each, exit.value)
        expect(Duration.toSeconds(recovery), "seconds until recovery").toBeLessThan(Duration.toSeconds(limit))
        return undefined
      })
    }
  })
}
