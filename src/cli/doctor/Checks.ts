import type { Check } from "./Check.js"
import * as DeadJobsCheck from "./DeadJobsCheck.js"
import * as QueuesCheck from "./QueuesCheck.js"
import * as ServersCheck from "./ServersCheck.js"
import * as UploadsCheck from "./UploadsCheck.js"
import * as VacuumCheck from "./VacuumCheck.js"

/** Checks that need a database with a current schema, in the order they run. */
export const checks: ReadonlyArray<Check> = [
  ServersCheck.check,
  VacuumCheck.check,
  QueuesCheck.check,
  DeadJobsCheck.check,
  UploadsCheck.check
]
