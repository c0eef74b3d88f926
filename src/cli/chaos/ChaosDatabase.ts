import { Duration, Effect, Redacted, Schema, type Scope } from "effect"
import pg from "pg"
import type { JobId } from "../../core/Ids.js"
import type { DatabaseConfig } from "../../database/DatabaseConfig.js"
import * as ServerUrl from "../../database/ServerUrl.js"

/** PostgreSQL rejected a fault, for example because the role may not terminate other sessions. */
export class ChaosDatabaseError extends Schema.TaggedError<ChaosDatabaseError>()("ChaosDatabaseError", {
  detail: Schema.String
}) {
  override get message(): string {
    return `PostgreSQL refused a fault: ${this.detail}. Grant the role pg_signal_backend, or leave out that fault.`
  }
}

/** The faults that a database session can inject. */
export interface ChaosDatabase {
  /** Terminates the pods' sessions. Returns how many. */
  readonly terminateConnections: Effect.Effect<number, ChaosDatabaseError>
  readonly lockJobs: (held: Duration.Duration) => Effect.Effect<void, ChaosDatabaseError>
  readonly lockRows: (ids: ReadonlyArray<JobId>, held: Duration.Duration) => Effect.Effect<void, ChaosDatabaseError>
}

const attempt = <A>(run: () => Promise<A>) =>
  Effect.tryPromise({
    try: run,
    catch: (error) => new ChaosDatabaseError({ detail: error instanceof Error ? error.message : String(error) })
  })

/** Opens a session apart from the pods' until the Scope closes. */
export const open = (
  url: Redacted.Redacted,
  { applicationName, connectTimeout, schema }: typeof DatabaseConfig.Service
): Effect.Effect<ChaosDatabase, ChaosDatabaseError, Scope.Scope> =>
  Effect.gen(function* () {
    const client = yield* Effect.acquireRelease(
      attempt(async () => {
        const opened = new pg.Client({
          ...ServerUrl.attempts(Redacted.value(url))[0],
          connectionTimeoutMillis: Duration.toMillis(connectTimeout),
          application_name: "chaos"
        })
        opened.on("error", () => {})
        await opened.connect()
        return opened
      }),
      (opened) => Effect.promise(() => opened.end().catch(() => {}))
    )
    /** Holds locks in a transaction, which is rolled back even if this command is interrupted. */
    const holding = (held: Duration.Duration, text: string, values: ReadonlyArray<unknown> = []) =>
      Effect.acquireUseRelease(
        attempt(() => client.query("begin; set local lock_timeout = '2s'")),
        () =>
          Effect.zipRight(
            attempt(() => client.query(text, [...values])),
            Effect.sleep(held)
          ),
        () => Effect.ignore(attempt(() => client.query("rollback")))
      )
    return {
      terminateConnections: attempt(async () => {
        const { rowCount } = await client.query(
          `select pg_terminate_backend(pid) from pg_stat_activity
           where datname = current_database() and starts_with(application_name, $1) and pid <> pg_backend_pid()`,
          [applicationName]
        )
        return rowCount ?? 0
      }),
      lockJobs: (held) => holding(held, `lock table ${schema}.job in share row exclusive mode`),
      lockRows: (ids, held) =>
        holding(held, `select id from ${schema}.job where id = any($1::uuid[]) for update`, [ids])
    }
  })
