import { Duration, Predicate, Redacted } from "effect"
import type pg from "pg"
import type { DatabaseConfig } from "./DatabaseConfig.js"
import { serversOf } from "./DatabaseUrl.js"

// How a connection begins: at which server of the url, with which settings, and whether it may be used at all. Settings that our
// statements rely on are sent as start-up options, because a role or a database may have others for a default. A pooler may
// refuse them (PgBouncer before 1.20 does); then connections begin without, and the server's defaults have to do.

/** Of every connection: absent elements of arrays are absent. */
const forAll = { array_nulls: "on" }
/** Of our own: a handler's session is its program's business. */
const forOurs = { ...forAll, default_transaction_isolation: "read committed", standard_conforming_strings: "on" }

const optionsText = (settings: Readonly<Record<string, string>>) =>
  Object.entries(settings)
    .map(([key, value]) => `-c ${key}=${value.replaceAll(" ", "\\ ")}`)
    .join(" ")

const refusesParameters = (error: unknown) =>
  Predicate.hasProperty(error, "code") &&
  error.code === "08P01" &&
  Predicate.hasProperty(error, "message") &&
  String(error.message).includes("startup parameter")

/** What a connection says about the server it leads to. */
interface Introduction {
  readonly server: string
  readonly read_only: boolean
}

const introduction = `
  select pg_catalog.concat_ws(' ', pg_catalog.inet_server_addr(), pg_catalog.inet_server_port(),
      pg_catalog.pg_postmaster_start_time()) as server,
    pg_catalog.current_setting('transaction_read_only') = 'on' as read_only`

/** The beginnings of a process's connections. */
export interface Startup {
  /** What the next connection is opened with. */
  readonly config: (purpose: "ours" | "program") => pg.ClientConfig
  /** A connection could not be opened: the next one is tried at the next server, or without settings. */
  readonly failed: (error: unknown) => void
  /** A connection is open. Gives the reason why it must not be used, if there is one. */
  readonly check: (client: pg.ClientBase) => Promise<Error | undefined>
  /** The server that the last connection led to. */
  readonly server: () => string | undefined
  /** Whether connections set what statements rely on. */
  readonly tellsSettings: () => boolean
}

/** `onOther` is called when a connection leads to another server than the one before it, with that of the new one. */
export const make = (
  url: Redacted.Redacted,
  config: typeof DatabaseConfig.Service,
  onOther: (server: string) => void
): Startup => {
  const { needsWrites, urls } = serversOf(Redacted.value(url))
  let index = 0
  let tells = true
  let server: string | undefined

  const options = (connectionString: string, purpose: "ours" | "program") => {
    const given = new URL(connectionString)
    const own = given.searchParams.get("options")
    given.searchParams.delete("options")
    const ours = optionsText(purpose === "ours" ? forOurs : forAll)
    if (!tells) return { connectionString }
    return {
      connectionString: given.href,
      options: own === null ? ours : `${own} ${ours}`,
      statement_timeout: Duration.toMillis(config.statementTimeout)
    }
  }

  return {
    config: (purpose) => options(urls[index % urls.length] ?? Redacted.value(url), purpose),
    failed: (error) => {
      if (tells && refusesParameters(error)) tells = false
      else index += 1
    },
    check: async (client) => {
      const { rows } = await client.query<Introduction>(introduction)
      const [found] = rows
      if (found === undefined) return undefined
      if (needsWrites && found.read_only) {
        index += 1
        return new Error(`the server at ${new URL(urls[(index - 1) % urls.length] ?? "").host} is read-only`)
      }
      if (server !== undefined && server !== found.server) {
        onOther(found.server)
        Object.assign(client, { outdated: false })
      }
      server = found.server
      return undefined
    },
    server: () => server,
    tellsSettings: () => tells
  }
}
