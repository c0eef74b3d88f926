import { Layer } from "effect"
import * as AuthSessionsPg from "../../src/gateway/auth/AuthSessionsPg.js"
import * as DeadLettersPg from "../../src/gateway/dead/DeadLettersPg.js"
import * as SteppableClock from "../support/SteppableClock.js"
import * as TestDatabase from "../support/TestDatabase.js"
import { gatewayLaws } from "./GatewayLaws.js"

const layer = Layer.merge(AuthSessionsPg.layer, DeadLettersPg.layer).pipe(
  Layer.provide(TestDatabase.layer),
  Layer.provideMerge(SteppableClock.layer)
)

gatewayLaws("the gateway on PostgreSQL", layer, { clock: "live", advance: SteppableClock.advance })
