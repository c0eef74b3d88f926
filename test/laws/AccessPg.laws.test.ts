import { Layer } from "effect"
import * as AccessPg from "../../src/access/AccessPg.js"
import * as SteppableClock from "../support/SteppableClock.js"
import * as TestDatabase from "../support/TestDatabase.js"
import { accessLaws } from "./AccessLaws.js"

const layer = AccessPg.layer.pipe(Layer.provide(TestDatabase.layer), Layer.provideMerge(SteppableClock.layer))

accessLaws("audit, sessions and idempotency on PostgreSQL", layer, { clock: "live", advance: SteppableClock.advance })
