import type { Check } from "./Check.js"
import * as DeadJobsCheck from "./DeadJobsCheck.js"
import * as QueuesCheck from "./QueuesCheck.js"
import * as ServersCheck from "./ServersCheck.js"
import * as UploadsCheck from "./UploadsCheck.js"
import * as VacuumCheck from "./VacuumCheck.js"

/** What the doctor looks at once it has a database with a current schema, in this order. A new check is a file and a line. */
export const checks: ReadonlyArray<Check> = [
  ServersCheck.check,
  VacuumCheck.check,
  QueuesCheck.check,
  DeadJobsCheck.check,
  UploadsCheck.check
]
