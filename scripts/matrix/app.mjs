// The app of the matrix's journeys. Runs are recorded in a file, which survives every fault of the database.
import { appendFileSync } from "node:fs"
import { SqlClient } from "@effect/sql"
import { Effect, Schema } from "effect"
import { Handler, Job } from "../../dist/index.js"

const payload = Schema.Struct({ n: Schema.Int })
const queue = "ledger"
const ran = (n) => Effect.sync(() => appendFileSync(process.env.MATRIX_LEDGER, `${n}\n`))

const plain = Handler.make(Job.make("recorded", { payload, queue }), ({ n }) => ran(n))

/** Its row is part of the job's transaction: exactly one per finished job. */
const transactional = Handler.makeInTransaction(Job.make("recorded_once", { payload, queue }), ({ n }) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* sql`insert into ledger (n) values (${n})`
    yield* ran(n)
  })
)

export const handlers = [plain, transactional]
