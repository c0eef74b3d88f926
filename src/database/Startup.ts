import { Duration, Predicate, Redacted } from "effect"
import type pg from "pg"
import type { DatabaseConfig } from "./DatabaseConfig.js"
import { address, serversOf } from "./DatabaseUrl.js"
import * as ServerUrl from "./ServerUrl.js"

// How a connection is opened: which server of the URL, with which settings, and whether it may be used. Settings that
// Nightshift's statements rely on are sent as startup options, because a role or a database may override the defaults.
// A pooler may reject startup options (PgBouncer before 1.20 does); connections are then opened without them and use
// the server's defaults.

/**
 * For all connections: NULL elements in array parameters are parsed as NULL, and numbers are read with all digits. The
 * server notices within 30 seconds that this machine or the network is gone, and drops the transaction and its locks.
 * Keepalive covers a session that waits for its client, and the user timeout one whose reply is not acknowledged; by
 * default, operating systems notice after two hours and a quarter of an hour.
 */
const keepalives = { tcp_keepalives_idle: "15", tcp_keepalives_interval: "5", tcp_keepalives_count: "3" }
const forAll = { array_nulls: "on", extra_float_digits: "1", ...keepalives, tcp_user_timeout: "30000" }
/** For Nightshift's connections only; the program chooses the settings of its own sessions. */
const forOurs = { ...forAll, default_transaction_isolation: "read committed", standard_conforming_strings: "on" }

const optionsText = (settings: Readonly<Record<string, string>>) =>
  Object.entries(settings)
    .map(([key, value]) => `-c ${key}=${value.replaceAll(" ", "\\ ")}`)
    .join(" ")

/**
 * Applies the keepalives to a listening session. Not the user timeout: it would also end the session of a blocked process whose
 * receive buffer is full of notifications.
 */
export const keepAlive = `select ${Object.entries(keepalives)
  .map(([key, value]) => `pg_catalog.set_config('${key}', '${value}', false)`)
  .join(", ")}`

/** SQLSTATEs with which poolers reject startup options: protocol_violation and feature_not_supported. */
export const rejections: ReadonlySet<string | undefined> = new Set(["08P01", "0A000"])

/** PgBouncer rejects a startup parameter, RDS Proxy command-line options. */
const refusesParameters = (error: unknown) =>
  Predicate.hasProperty(error, "code") &&
  rejections.has(String(error.code)) &&
  Predicate.hasProperty(error, "message") &&
  /startup (parameter|option)|command-line option/.test(String(error.message))

/** Identifies the server behind a connection. */
interface Introduction {
  readonly server: string
  /** When the server was started, which identifies it: it may have several addresses. */
  readonly started: string
  /** The server's own address and port; the empty string for a local socket. */
  readonly address: string
  readonly read_only: boolean
  readonly pid: number
}

const introduction = `
  select pg_catalog.concat_ws(' ', pg_catalog.inet_server_addr(), pg_catalog.inet_server_port(),
      pg_catalog.pg_postmaster_start_time()) as server,
    pg_catalog.pg_postmaster_start_time()::text as started,
    pg_catalog.concat_ws(' ', pg_catalog.inet_server_addr(), pg_catalog.inet_server_port()) as address,
    pg_catalog.current_setting('transaction_read_only') = 'on' as read_only,
    pg_catalog.pg_backend_pid() as pid`

/** Whether there is a pooler in between: a pooler reports its own process id at login. */
export const isPooled = (client: pg.ClientBase, backend: number): boolean =>
  backend !== (client as pg.ClientBase & { readonly processID: number }).processID

export interface Startup {
  /** Options for the next connection. */
  readonly config: (purpose: "ours" | "program") => pg.ClientConfig
  /**
   * Reports a failed connection with its options. The next one tries the next server, or omits the settings that this one
   * rejected. Several that fail at the same time count once.
   */
  readonly failed: (error: unknown, options: pg.ClientConfig) => "unavailable" | "settings rejected"
  /** Checks a new connection with its options. Returns why it must not be used, or undefined. */
  readonly check: (client: pg.ClientBase, options: pg.ClientConfig) => Promise<Error | undefined>
  /** The server of the last connection. */
  readonly server: () => string | undefined
  /** Whether connections send the settings as startup options. */
  readonly sendsSettings: () => boolean
}

/**
 * `onOther` is called with the new server when a connection reaches a different server than the one before. A server with
 * the same address and another start time was restarted.
 */
export const make = (
  url: Redacted.Redacted,
  config: typeof DatabaseConfig.Service,
  onOther: (server: string, restarted: boolean) => void
): Startup => {
  const { needsWrites, urls } = serversOf(Redacted.value(url))
  let index = 0
  /** Index in `ServerUrl.attempts` of the current server: with or without encryption. */
  let attempt = 0
  let tells = true
  const tried = new WeakMap<pg.ClientConfig, { index: number; attempt: number; tells: boolean }>()
  let server: Pick<Introduction, "server" | "started" | "address"> | undefined

  // Handlers may be idle in a transaction between their statements. Nightshift's own transactions never are.
  const ownIdle = Duration.toMillis(Duration.sum(config.statementTimeout, config.connectTimeout))
  const own = { ...forOurs, idle_in_transaction_session_timeout: `${ownIdle}` }

  const urlAt = (place: number) => urls[place] ?? Redacted.value(url)
  const current = () => urlAt(index)
  const toNextServer = (used: number) => {
    // Another connection that failed at the same time has moved on.
    if (used !== index) return
    index = (index + 1) % urls.length
    // An outage of the only server does not change its encryption.
    if (urls.length > 1) attempt = 0
  }
  const optionsOf = (purpose: "ours" | "program"): pg.ClientConfig => {
    const [first, ...more] = ServerUrl.attempts(current())
    const given = more[attempt - 1] ?? first
    if (!tells) return given
    const settings = optionsText(purpose === "ours" ? own : forAll)
    return {
      statement_timeout: Duration.toMillis(config.statementTimeout),
      ...given,
      options: given.options === undefined ? settings : `${given.options} ${settings}`
    }
  }

  return {
    config: (purpose) => {
      const options = optionsOf(purpose)
      tried.set(options, { index, attempt, tells })
      return options
    },
    failed: (error, options) => {
      const used = tried.get(options) ?? { index, attempt, tells }
      if (used.tells && refusesParameters(error)) {
        tells = false
        return "settings rejected"
      }
      if (used.index !== index) return "unavailable"
      if (ServerUrl.refusesEncryption(error)) {
        const next = used.attempt + 1
        if (next < ServerUrl.attempts(current()).length) {
          attempt = Math.max(attempt, next)
          return "settings rejected"
        }
        attempt = 0
      }
      toNextServer(used.index)
      return "unavailable"
    },
    check: async (client, options) => {
      const { rows } = await client.query<Introduction>(introduction)
      const [found] = rows
      if (found === undefined) return undefined
      Object.assign(client, { pooled: isPooled(client, found.pid) })
      if (needsWrites && found.read_only) {
        const used = tried.get(options)?.index ?? index
        toNextServer(used)
        return new Error(`the server at ${address(Redacted.make(urlAt(used)))} is read-only`)
      }
      if (server !== undefined && server.started !== found.started) {
        onOther(found.server, server.address === found.address)
        Object.assign(client, { outdated: false })
      }
      server = found
      return undefined
    },
    server: () => server?.server,
    sendsSettings: () => tells
  }
}
