import type { Check } from "./Check.js"
import * as Deaths from "./Deaths.js"
import * as Unserved from "./Unserved.js"
import * as Uploads from "./Uploads.js"
import * as Vacuum from "./Vacuum.js"

/** What the doctor looks at once it has a database with a current schema, in this order. A new check is a file and a line. */
export const checks: ReadonlyArray<Check> = [Vacuum.check, Unserved.check, Deaths.check, Uploads.check]
