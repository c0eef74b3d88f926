import { Effect } from "effect"
import { Database } from "../../database/Database.js"
import { mapErrors } from "../../database/DatabaseError.js"
import { type Finding, fail, ok } from "./Check.js"

const name = "writes"

const toPrimary = "Point DATABASE_URL to the primary, or list all servers and add target_session_attrs=read-write."

/** Checks that the server accepts writes: it is not a standby, not read-only, and its disk is not full. */
export const look: Effect.Effect<ReadonlyArray<Finding>, never, Database> = Effect.gen(function* () {
  const { mode, schema, sql } = yield* Database
  const found = yield* mode
  if (found === "standby") return fail("This server is a read-only standby.", toPrimary)
  if (found === "read-only") {
    return fail(
      "The server is in read-only mode.",
      "Unset default_transaction_read_only for the role and the database."
    )
  }
  // Changes no value, but writes a new row version.
  yield* mapErrors(sql`update ${sql(`${schema}.leader`)} set term = term`)
  return ok("The server accepts writes.")
}).pipe(
  Effect.catchAll((error) =>
    Effect.succeed(fail(`A write failed: ${error.detail}.`, "Fix this first: every job needs writes."))
  ),
  Effect.map((finding) => [{ check: name, ...finding }])
)
