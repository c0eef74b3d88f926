import { Duration, Effect, Redacted } from "effect"
import pg from "pg"
import type { DatabaseConfig } from "./DatabaseConfig.js"
import { address } from "./DatabaseUrl.js"
import { destroySocket } from "./ServerConnection.js"
import { attempts } from "./ServerUrl.js"

// Identifies the PostgreSQL server that runs a statement, as text: its address and its start time. The start time
// distinguishes servers: one server may have several addresses, and two servers may have the same one in turn.

const since = `' since ' ||
  pg_catalog.to_char(pg_catalog.pg_postmaster_start_time() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`

/** SQL for the server that runs the statement. */
export const expression = `pg_catalog.concat(
  coalesce(pg_catalog.host(pg_catalog.inet_server_addr()) || ':' || pg_catalog.inet_server_port(), 'a local socket'), ${since})`

/** SQL for the database that all servers of a replication cluster have. */
export const cluster = `(select system_identifier::text from pg_catalog.pg_control_system()) || '/' ||
  pg_catalog.current_database()`

/** SQL for whether a stored server is the one that runs the statement, as `isSame`. */
export const isHere = (server: string): string => `${server} like '%' || ${since}`

const startTime = (server: string): string => server.slice(server.lastIndexOf(" since "))

export const isSame = (one: string, other: string): boolean => startTime(one) === startTime(other)

/** For display: without fractions of a second. */
export const show = (server: string): string => server.replace(/\.\d+Z$/, "Z")

/** A server in a URL. */
export interface NamedServer {
  /** Host, port and database, as in the URL. */
  readonly address: string
  /** Absent if the server does not answer. */
  readonly server: string | undefined
  readonly takesWrites: boolean
}

/** Identifies the server of a URL on a separate connection. */
export const ask = (
  url: string,
  { connectTimeout }: Pick<typeof DatabaseConfig.Service, "connectTimeout">
): Effect.Effect<NamedServer> => {
  const named = { address: address(Redacted.make(url)), server: undefined, takesWrites: false }
  const askOn = (server: pg.ClientConfig) =>
    Effect.acquireUseRelease(
      Effect.sync(() => {
        const timeout = Duration.toMillis(connectTimeout)
        const client = new pg.Client({ ...server, connectionTimeoutMillis: timeout, query_timeout: timeout })
        client.on("error", () => {})
        return client
      }),
      (client) =>
        Effect.tryPromise(async () => {
          await client.connect()
          const { rows } = await client.query<{ server: string; writes: boolean }>(
            `select ${expression} as server, pg_catalog.current_setting('transaction_read_only') = 'off' as writes`
          )
          return { ...named, server: rows[0]?.server, takesWrites: rows[0]?.writes === true }
        }),
      (client) => Effect.sync(() => destroySocket(client))
    )
  return Effect.orElseSucceed(Effect.firstSuccessOf(attempts(url).map(askOn)), () => named)
}
