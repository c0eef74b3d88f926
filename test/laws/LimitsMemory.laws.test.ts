import { Effect, Layer, TestClock } from "effect"
import * as RateLimitsMemory from "../../src/rate-limits/RateLimitsMemory.js"
import { limitsLaws, Pods } from "./LimitsLaws.js"

const pods = Layer.sync(Pods, () => {
  const table: RateLimitsMemory.Table = new Map()
  let count = 0
  return {
    open: Effect.sync(() => {
      count += 1
      return RateLimitsMemory.make(table, `pod-${count}`)
    })
  }
})

limitsLaws("limits in memory", pods, { clock: "test", advance: TestClock.adjust })
