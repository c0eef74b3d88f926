import { expect, it } from "@effect/vitest"
import { Effect } from "effect"
import * as OrderRun from "../orders/OrderRun.js"
import { scale } from "../support/Scale.js"

// `npm run test:orders` runs this file with more orders and prints its lines.

const [orders, kills, seed] = [scale("ORDERS", 40), scale("ORDER_RUN_KILLS", 8), scale("ORDER_SEED", 1)]
const print = (line: string) => {
  if (process.env.ORDERS !== undefined) process.stdout.write(`${line}\n`)
}

it.scopedLive(
  "every charge of an order that is not done is refunded once, whatever happens to processes, code and orders",
  () =>
    Effect.gen(function* () {
      const { violations, ...report } = yield* OrderRun.run({ orders, kills, seed, print })
      print(JSON.stringify(report, null, 2))
      expect(violations).toEqual([])
      // Some kills hit a step between its effect and its record, or the check says little.
      expect(report.repeated + report.unrecorded.length).toBeGreaterThan(0)
      // The faults took place, and the orders ended in every way.
      expect(report.faults).toMatchObject({ "a pod is killed with -9": kills, "orders notice changed code": 1 })
      for (const end of [/: done$/, /: rejected$/, /: cancelled$/]) {
        expect(Object.keys(report.ends).some((name) => end.test(name))).toBe(true)
      }
    }),
  (kills * 30 + 1_800) * 1_000
)
