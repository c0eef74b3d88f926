import { Layer, TestClock } from "effect"
import * as AuthSessionsMemory from "../../src/gateway/auth/AuthSessionsMemory.js"
import * as DeadLettersMemory from "../support/DeadLettersMemory.js"
import { gatewayLaws } from "./GatewayLaws.js"

gatewayLaws("the gateway in memory", Layer.merge(AuthSessionsMemory.layer, DeadLettersMemory.layer), {
  clock: "test",
  advance: TestClock.adjust
})
