import { type Duration, Effect, Redacted, Schema, type Scope } from "effect"
import pg from "pg"
import type { JobId } from "../../core/Ids.js"
import type { DatabaseConfig } from "../../database/DatabaseConfig.js"
import { address, serversOf } from "../../database/DatabaseUrl.js"
import * as ServerUrl from "../../database/ServerUrl.js"
import * as SingleConnection from "../../database/SingleConnection.js"
import { SomeFailed } from "../Failure.js"

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

/** The hosts of a URL; from PGHOST if it names none. */
export const hostsOf = (url: Redacted.Redacted): ReadonlyArray<string> =>
  serversOf(Redacted.value(url)).urls.map((server) => new pg.Client(ServerUrl.attempts(server)[0]).host)

const attempt = <A>(run: () => Promise<A>) =>
  Effect.tryPromise({
    try: run,
    catch: (error) => new ChaosDatabaseError({ detail: error instanceof Error ? error.message : String(error) })
  })

/** Opens a session apart from the pods' until the Scope closes. */
export const open = (
  url: Redacted.Redacted,
  config: typeof DatabaseConfig.Service
): Effect.Effect<ChaosDatabase, SomeFailed, Scope.Scope> =>
  Effect.gen(function* () {
    const { applicationName, schema } = config
    const client = yield* Effect.mapError(
      SingleConnection.open(url, config, "chaos"),
      (error) =>
        new SomeFailed({ reasons: [`Cannot connect to ${address(url)}: ${error.message}. Check DATABASE_URL.`] })
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
