import * as Erasure from "./cases/Erasure.js"
import * as Frozen from "./cases/Frozen.js"
import * as Network from "./cases/Network.js"
import * as Processes from "./cases/Processes.js"
import * as Remote from "./cases/Remote.js"
import * as Server from "./cases/Server.js"
import * as Sessions from "./cases/Sessions.js"
import * as Settings from "./cases/Settings.js"
import * as Versions from "./cases/Versions.js"
import type { FaultCase } from "./FaultCase.js"

/** Every case. One or two files per group. */
export const cases: ReadonlyArray<FaultCase> = [
  ...Processes.cases,
  ...Erasure.cases,
  ...Frozen.cases,
  ...Remote.cases,
  ...Server.cases,
  ...Sessions.cases,
  ...Network.cases,
  ...Versions.cases,
  ...Settings.cases
]
