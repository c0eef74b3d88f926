import type pg from "pg"
import * as Tls from "./Tls.js"

// Reads a connection URL the way libpq does. The driver's own parser does not decode `%23` and `%3F` in names, and rejects
// URLs without a host.

/** One server of a connection URL, with all parts decoded. */
export interface ServerUrl {
  /** A name, an address, or the directory of a socket. Absent if the URL has none. */
  readonly host: string | undefined
  readonly port: string | undefined
  readonly user: string | undefined
  readonly password: string | undefined
  readonly database: string | undefined
  /** The parameters after the question mark, except those for the parts above. */
  readonly parameters: ReadonlyMap<string, string>
}

/** User and password, host and port, database, parameters. The last @ ends the password. */
const pattern = /^postgres(?:ql)?:\/\/(?:([^/?#]*)@)?([^@/?#]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/
const hostPattern = /^(\[[^\]]*\]|[^:[\]]*)(?::(\d*))?$/

const decoded = (text: string | undefined): string | undefined =>
  text === undefined || text === "" ? undefined : decodeURIComponent(text)

const pairOf = (text: string): readonly [string, string] => {
  const at = text.indexOf("=")
  return at === -1
    ? [decodeURIComponent(text), ""]
    : [decodeURIComponent(text.slice(0, at)), decodeURIComponent(text.slice(at + 1))]
}

/** Reads a URL with one host. Returns undefined if it is invalid. */
export const parse = (url: string): ServerUrl | undefined => {
  const [matched, account = "", hosts = "", database, query = ""] = pattern.exec(url) ?? []
  const [isHost, host = "", port] = hostPattern.exec(hosts) ?? []
  if (matched === undefined || isHost === undefined) return undefined
  const colon = account.indexOf(":")
  try {
    const parameters = new Map(
      query
        .split("&")
        .filter((pair) => pair !== "")
        .map(pairOf)
    )
    const taken = (name: string, given: string | undefined) => {
      const value = parameters.get(name) ?? decoded(given)
      parameters.delete(name)
      return value
    }
    return {
      host: taken("host", host.replace(/^\[|\]$/g, "")),
      port: taken("port", port),
      user: taken("user", colon === -1 ? account : account.slice(0, colon)),
      password: taken("password", colon === -1 ? undefined : account.slice(colon + 1)),
      database: taken("dbname", database),
      parameters
    }
  } catch {
    // A % that is not followed by two hexadecimal digits.
    return undefined
  }
}

/** Parameters that this module reads, or that the driver must not see. */
const ours = new Set([...Tls.parameters, "target_session_attrs", "uselibpqcompat"])

/**
 * The driver's options for a server. Several if the connection is tried with and without encryption (`sslmode=prefer` and
 * `allow`): the second attempt follows if the server rejects the encryption, or the missing encryption, of the first.
 */
export const attempts = (url: string): readonly [pg.ClientConfig, ...Array<pg.ClientConfig>] => {
  const parsed = parse(url)
  if (parsed === undefined) return [{ connectionString: url }]
  const { database, host, parameters, password, port, user } = parsed
  const others = [...parameters].filter(([name]) => !ours.has(name))
  const config: pg.ClientConfig = {
    ...Object.fromEntries(others),
    ...(host === undefined ? {} : { host }),
    ...(port === undefined ? {} : { port: Number(port) }),
    ...(user === undefined ? {} : { user }),
    ...(password === undefined ? {} : { password }),
    ...(database === undefined ? {} : { database })
  }
  const [first, ...more] = Tls.attempts(parameters)
  // Without `ssl`, the driver encrypts only if PGSSLMODE is set.
  if (first === undefined) return [config]
  return [{ ...config, ssl: first }, ...more.map((ssl) => ({ ...config, ssl }))]
}

/** Whether the next of the `attempts` may succeed after this error. */
export const refusesEncryption = (error: unknown): boolean =>
  error instanceof Error && /does not support SSL connections|no pg_hba\.conf entry .*no encryption/.test(error.message)
