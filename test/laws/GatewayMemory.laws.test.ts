import { Layer, TestClock } from "effect"
import * as AuthSessionsMemory from "../../src/gateway/auth/AuthSessionsMemory.js"
import { layerMemory } from "../../src/gateway/dead/DeadLetters.js"
import { gatewayLaws } from "./GatewayLaws.js"

gatewayLaws("the gateway in memory", Layer.merge(AuthSessionsMemory.layer, layerMemory), {
  clock: "test",
  advance: TestClock.adjust
})
