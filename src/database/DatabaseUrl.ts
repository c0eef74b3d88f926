import { Context, Effect, Layer, Redacted } from "effect"
import * as HttpUrl from "../core/HttpUrl.js"
import { EmbeddedPostgres } from "./embedded/EmbeddedPostgres.js"
import * as ServerUrl from "./ServerUrl.js"
import * as Tls from "./Tls.js"

/** URL of the server, including the password. */
export class DatabaseUrl extends Context.Tag("nightshift/database/DatabaseUrl")<DatabaseUrl, Redacted.Redacted>() {
  static readonly layerOf = (url: Redacted.Redacted): Layer.Layer<DatabaseUrl> => Layer.succeed(DatabaseUrl, url)

  static readonly layerEmbedded: Layer.Layer<DatabaseUrl, never, EmbeddedPostgres> = Layer.effect(
    DatabaseUrl,
    Effect.map(EmbeddedPostgres, (server) => server.url)
  )
}

/** Everything before the hosts, the hosts, and everything after them. */
const pattern = /^(postgres(?:ql)?:\/\/(?:[^/?#]*@)?)([^@/?#]*)(.*)$/

/**
 * Splits a URL with several hosts (`host1:5432,host2:5432`) into one URL per host. `needsWrites` is true if the URL
 * requires a server that accepts writes.
 */
export const serversOf = (url: string): { readonly urls: ReadonlyArray<string>; readonly needsWrites: boolean } => {
  const [, before = "", hosts = "", after = ""] = pattern.exec(url) ?? []
  const urls = hosts.split(",").map((host) => `${before}${host}${after}`)
  const wanted = ServerUrl.parse(urls[0] ?? "")?.parameters.get("target_session_attrs")
  return { urls, needsWrites: wanted === undefined ? urls.length > 1 : wanted !== "any" }
}

/** The same URL for servers that need not accept writes, unless it says itself what it needs. */
export const anySession = (url: Redacted.Redacted): Redacted.Redacted => {
  const text = Redacted.value(url)
  if (text.includes("target_session_attrs")) return url
  return Redacted.make(`${text}${text.includes("?") ? "&" : "?"}target_session_attrs=any`)
}

const sessions = new Set(["any", "read-write", "primary"])

const isPort = (text: string) => /^\d{1,5}$/.test(text) && Number(text) >= 1 && Number(text) <= 65_535

/** Returns why the URL is invalid, or undefined. */
export const fault = (url: string): string | undefined => {
  const servers = serversOf(url).urls.map(ServerUrl.parse)
  const [first] = servers
  if (first === undefined || servers.includes(undefined))
    return "a URL like postgres://user:password@host:5432/database"
  if (servers.some((server) => server?.port !== undefined && !isPort(server.port)))
    return "a URL like postgres://user:password@host:5432/database with a port from 1 to 65535"
  const wanted = first.parameters.get("target_session_attrs")
  if (wanted !== undefined && !sessions.has(wanted))
    return `a URL with target_session_attrs as one of ${[...sessions].join(", ")}`
  const tls = Tls.faultOf(first.parameters)
  return tls === undefined ? undefined : `a URL with ${tls}`
}

/** Returns the hosts and ports of a URL, without credentials. */
export const address = (url: Redacted.Redacted): string => {
  const servers = serversOf(Redacted.value(url)).urls.map(ServerUrl.parse)
  const hosts = servers.map((server) => {
    const { host = "localhost", port } = server ?? {}
    const shown = HttpUrl.hostText(host)
    return port === undefined ? shown : `${shown}:${port}`
  })
  const database = servers[0]?.database
  return `${hosts.join(",")}${database === undefined ? "" : `/${database}`}`
}
