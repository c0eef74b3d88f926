// Runs client.mjs on Effect 4 and a PostgreSQL server: `proof.mjs <url>`. Prints a line per check and exits 1 if one fails.
import { Effect, Exit, Fiber, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { layer } from "./client.mjs"

let failed = false
const check = (name, fits) => {
  failed ||= !fits
  console.log(`${fits ? "ok" : "FAILED"}: ${name}`)
}

const program = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const insert = (n) => sql`insert into proof values (${n})`
  const found = Effect.map(sql`select n from proof order by n`, (rows) => rows.map(({ n }) => n).join(" "))
  const doomed = (n, end) => Effect.exit(sql.withTransaction(Effect.andThen(insert(n), end)))
  yield* sql`create table proof (n int primary key)`

  yield* sql.withTransaction(sql`insert into proof ${sql.insert([{ n: 1 }, { n: 2 }])}`)
  check("commit", (yield* found) === "1 2")

  const outcomes = [yield* doomed(3, Effect.fail("no")), yield* doomed(3, Effect.die("no"))]
  check("rollback after a failure and a defect", outcomes.every(Exit.isFailure) && (yield* found) === "1 2")

  const nested = Effect.gen(function* () {
    yield* insert(4)
    yield* doomed(5, Effect.fail("inner"))
    yield* doomed(1, Effect.void)
    yield* sql.withTransaction(insert(6))
  })
  yield* sql.withTransaction(nested)
  check("savepoints: a failed one does not abort the transaction", (yield* found) === "1 2 4 6")

  const { reason } = yield* Effect.flip(insert(1))
  check("the error says that a key is taken", reason._tag === "UniqueViolation")

  const aborted = yield* doomed(7, Effect.exit(sql`select 1 / 0`))
  check("a COMMIT that the server answers with ROLLBACK fails", Exit.isFailure(aborted) && (yield* found) === "1 2 4 6")

  const numbers = sql`select n from generate_series(1, 10000) as n`.stream
  const sum = yield* Stream.runFold(
    numbers,
    () => 0,
    (total, { n }) => total + n
  )
  check("a stream of 10,000 rows", sum === 50_005_000)

  for (let round = 0; round < 10; round += 1) yield* Stream.runDrain(Stream.take(numbers, 3))
  check("streams that are cut off return their connections", (yield* found) === "1 2 4 6")

  const own = yield* sql.withTransaction(Effect.andThen(insert(8), Stream.runCollect(sql`select n from proof`.stream)))
  check("a stream in a transaction reads its rows", own.length === 5)

  const asleep = sql`select count(*)::int as n from pg_stat_activity where wait_event = 'PgSleep'`
  const slow = yield* Effect.forkChild(sql.withTransaction(Effect.andThen(insert(9), sql`select pg_sleep(60)`)))
  while ((yield* asleep)[0].n === 0) yield* Effect.sleep(10)
  yield* Fiber.interrupt(slow)
  check("interruption cancels the query and rolls back", (yield* asleep)[0].n === 0 && (yield* found) === "1 2 4 6 8")

  const killed = yield* doomed(10, sql`select pg_terminate_backend(pg_backend_pid())`)
  check(
    "a lost connection fails the transaction, not the pool",
    Exit.isFailure(killed) && (yield* found) === "1 2 4 6 8"
  )
})

await Effect.runPromise(Effect.provide(program, layer(process.argv[2])))
process.exit(failed ? 1 : 0)
