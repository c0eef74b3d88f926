import { Context, Effect, Layer, Redacted } from "effect"
import { EmbeddedPostgres } from "./embedded/EmbeddedPostgres.js"

/** URL of the server, including the password. */
export class DatabaseUrl extends Context.Tag("nightshift/database/DatabaseUrl")<DatabaseUrl, Redacted.Redacted>() {
  static readonly layerOf = (url: Redacted.Redacted): Layer.Layer<DatabaseUrl> => Layer.succeed(DatabaseUrl, url)

  static readonly layerEmbedded: Layer.Layer<DatabaseUrl, never, EmbeddedPostgres> = Layer.effect(
    DatabaseUrl,
    Effect.map(EmbeddedPostgres, (server) => server.url)
  )
}

const pattern = /^(postgres(?:ql)?:\/\/(?:[^@/?#]*@)?)([^/?#]*)(.*)$/

/**
 * Splits a URL with several hosts (`host1:5432,host2:5432`) into one URL per host. `needsWrites` is true if the URL
 * requires a server that accepts writes.
 */
export const serversOf = (url: string): { readonly urls: ReadonlyArray<string>; readonly needsWrites: boolean } => {
  const [, before = "", hosts = "", after = ""] = pattern.exec(url) ?? []
  const urls = hosts.split(",").map((host) => `${before}${host}${after}`)
  const wanted = URL.canParse(urls[0] ?? "") ? new URL(urls[0] ?? "").searchParams.get("target_session_attrs") : null
  return { urls, needsWrites: wanted === null ? urls.length > 1 : wanted !== "any" }
}

const sessions = new Set(["any", "read-write", "primary"])

/** Returns why the URL is invalid, or undefined. */
export const fault = (url: string): string | undefined => {
  const { urls } = serversOf(url)
  if (!pattern.test(url) || !urls.every((each) => URL.canParse(each))) {
    return "a URL like postgres://user:password@host:5432/database"
  }
  const wanted = new URL(urls[0] ?? "").searchParams.get("target_session_attrs")
  return wanted === null || sessions.has(wanted)
    ? undefined
    : `target_session_attrs to be one of ${[...sessions].join(", ")}`
}

/** Returns the hosts and ports of a URL, without credentials. */
export const address = (url: Redacted.Redacted): string => {
  const parsed = serversOf(Redacted.value(url)).urls.map((each) => new URL(each))
  const hosts = parsed.map(
    ({ host, hostname, searchParams }) => searchParams.get("host") ?? (hostname === "" ? "localhost" : host)
  )
  return `${hosts.join(",")}${decodeURIComponent(parsed[0]?.pathname ?? "")}`
}
