import type { SqlClient } from "@effect/sql/SqlClient"
import { Clock, Duration, Effect, FiberRef, Schedule, Schema } from "effect"
import * as DurationText from "../core/DurationText.js"
import { Expected } from "../core/ExpectedError.js"
import { type DatabaseError, DatabaseUnavailable, mapErrors } from "./DatabaseError.js"
import { refusesEncryption } from "./ServerUrl.js"
import { rejections } from "./Startup.js"

/** Where a database URL comes from. */
const urlSources = "DATABASE_URL, or the argument of connect()"

/** No server answered at the database's address within the configured time. */
export class DatabaseUnreachable extends Expected<DatabaseUnreachable>(503, { code: "DATABASE_UNAVAILABLE" })(
  "DatabaseUnreachable",
  {
    address: Schema.String,
    timeout: Schema.String,
    detail: Schema.String
  }
) {
  override get message(): string {
    return `Could not reach PostgreSQL at ${this.address} within ${this.timeout} (${this.detail}). Start it, correct the URL (${urlSources}), or run nightshift serve --embedded, which needs no server.`
  }
}

/** The server rejected the connection: wrong password, missing database, or unsupported version. */
export class DatabaseRejected extends Expected<DatabaseRejected>(500, { code: "DATABASE_REFUSED" })(
  "DatabaseRejected",
  {
    address: Schema.String,
    detail: Schema.String
  }
) {
  override get message(): string {
    return `PostgreSQL at ${this.address} refused the connection: ${this.detail}. Correct the URL (${urlSources}).`
  }
}

const oldestSupported = 140_000

const serverVersion = (sql: SqlClient) =>
  Effect.map(
    sql<{ version: number }>`select current_setting('server_version_num')::int as version`,
    (rows) => rows[0]?.version ?? 0
  )

/** Waits until the server answers and checks that its version is supported. Returns the version number. */
export const reach = (
  sql: SqlClient,
  options: { readonly address: string; readonly timeout: Duration.Duration }
): Effect.Effect<number, DatabaseUnreachable | DatabaseRejected> =>
  Effect.gen(function* () {
    const { address, timeout } = options
    const begun = yield* Clock.currentTimeMillis
    // The next attempt omits startup parameters that a pooler rejected, and encryption that a server rejected.
    const version = Effect.retry(mapErrors(serverVersion(sql)), {
      times: 2,
      while: ({ detail, sqlState }) => rejections.has(sqlState) || refusesEncryption(new Error(detail))
    })
    let announced = Number.NEGATIVE_INFINITY
    const announce = (error: DatabaseError) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => {
        if (now - announced < announceEvery) return Effect.void
        announced = now
        return announceRetry(address, error, Duration.toMillis(timeout) - (now - begun))
      })
    const attempt = version.pipe(
      Effect.tapError((error) => (error._tag === "DatabaseUnavailable" ? announce(error) : Effect.void))
    )
    const found = yield* attempt.pipe(
      Effect.retry({
        while: (error) => error._tag === "DatabaseUnavailable",
        schedule: retries(timeout)
      }),
      Effect.mapError((error) =>
        error._tag === "DatabaseUnavailable"
          ? new DatabaseUnreachable({ address, detail: error.detail, timeout: DurationText.format(timeout) })
          : new DatabaseRejected({ address, detail: error.detail })
      )
    )
    if (found >= oldestSupported) return found
    const detail = `the server is version ${Math.floor(found / 10_000)}, but the oldest supported version is ${oldestSupported / 10_000}`
    return yield* new DatabaseRejected({ address, detail })
  })

const retries = (timeout: Duration.Duration) =>
  Schedule.exponential("200 millis").pipe(Schedule.union(Schedule.spaced("2 seconds")), Schedule.upTo(timeout))

/** Repeats a step of the startup while the database does not answer its statements. The step must be idempotent. */
export const repeatUnanswered =
  (timeout: Duration.Duration) =>
  <A, E, R>(step: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    step.pipe(
      Effect.tapError((error) =>
        isUnavailable(error)
          ? Effect.whenFiberRef(
              Effect.logWarning(`the database did not answer a statement of the startup (${error.detail}), retrying`),
              announcesRetries,
              (announces) => announces
            )
          : Effect.void
      ),
      Effect.retry({ while: isUnavailable, schedule: retries(timeout) })
    )

const isUnavailable = (error: unknown): error is DatabaseUnavailable => error instanceof DatabaseUnavailable

/** Shortest time between two log lines about failed attempts, in milliseconds. */
const announceEvery = 10_000

/** Whether failed attempts to connect at startup are logged. A short-lived command reports only the last failure. */
export const announcesRetries: FiberRef.FiberRef<boolean> = FiberRef.unsafeMake(true)

const announceRetry = (address: string, error: DatabaseError, left: number) =>
  Effect.gen(function* () {
    if (left <= 0 || !(yield* FiberRef.get(announcesRetries))) return
    yield* Effect.logWarning(
      `database at ${address} not reachable yet (${error.detail}), retrying for another ${Math.ceil(left / 1000)}s`
    )
  })
