import { Duration, Effect, Redacted, type Scope } from "effect"
import pg from "pg"
import type { DatabaseConfig } from "./DatabaseConfig.js"
import { serversOf } from "./DatabaseUrl.js"
import * as ServerConnection from "./ServerConnection.js"
import * as ServerUrl from "./ServerUrl.js"

/**
 * Opens a connection outside the pools to the first server that accepts it, and writes if the URL requires it: a standby
 * rejects LISTEN and locks. Closing the Scope closes the connection.
 */
export const open = (
  url: Redacted.Redacted,
  config: Pick<typeof DatabaseConfig.Service, "connectTimeout">,
  applicationName: string
): Effect.Effect<pg.Client, Error, Scope.Scope> => {
  const { needsWrites, urls } = serversOf(Redacted.value(url))
  const openTo = (server: pg.ClientConfig) =>
    Effect.acquireRelease(connect(server, config, applicationName, needsWrites), close)
  return Effect.firstSuccessOf(urls.flatMap(ServerUrl.attempts).map(openTo))
}

const isReadOnly = async (client: pg.Client, timeout: number) => {
  const text = "select pg_catalog.current_setting('transaction_read_only') as value"
  const { rows } = await client.query({ text, query_timeout: timeout } as pg.QueryConfig)
  return rows[0]?.value === "on"
}

const connect = (
  server: pg.ClientConfig,
  { connectTimeout }: Pick<typeof DatabaseConfig.Service, "connectTimeout">,
  applicationName: string,
  needsWrites: boolean
) =>
  Effect.tryPromise({
    try: async () => {
      const timeout = Duration.toMillis(connectTimeout)
      const client = new pg.Client({
        application_name: applicationName,
        connectionTimeoutMillis: timeout,
        keepAlive: true,
        keepAliveInitialDelayMillis: 10_000,
        ...server
      })
      // The connection may break before a listener is attached, and an unhandled `error` event ends the process.
      client.on("error", () => {})
      await client.connect()
      if (needsWrites && (await isReadOnly(client, timeout).catch(() => true))) {
        ServerConnection.destroySocket(client)
        throw new Error("the server is read-only or does not answer")
      }
      return client
    },
    catch: (error) => (error instanceof Error ? error : new Error(String(error)))
  })

const close = (client: pg.Client) =>
  Effect.ignore(Effect.timeout(Effect.interruptible(Effect.tryPromise(() => client.end())), "1 second")).pipe(
    // A socket that waits for an answer would keep the process alive.
    Effect.zipRight(Effect.sync(() => ServerConnection.destroySocket(client)))
  )
