import { TestClock } from "effect"
import * as AccessMemory from "../support/AccessMemory.js"
import { accessLaws } from "./AccessLaws.js"

accessLaws("audit, sessions and idempotency in memory", AccessMemory.layer, {
  clock: "test",
  advance: TestClock.adjust
})
