import { Context, Effect, Layer, Redacted } from "effect"
import { EmbeddedPostgres } from "./embedded/EmbeddedPostgres.js"

/** The server to connect to, password included. */
export class DatabaseUrl extends Context.Tag("nightshift/database/DatabaseUrl")<DatabaseUrl, Redacted.Redacted>() {
  static readonly layerOf = (url: Redacted.Redacted): Layer.Layer<DatabaseUrl> => Layer.succeed(DatabaseUrl, url)

  static readonly layerEmbedded: Layer.Layer<DatabaseUrl, never, EmbeddedPostgres> = Layer.effect(
    DatabaseUrl,
    Effect.map(EmbeddedPostgres, (server) => server.url)
  )
}

const pattern = /^(postgres(?:ql)?:\/\/(?:[^@/?#]*@)?)([^/?#]*)(.*)$/

/** The servers of a url, which may name several as `host1:5432,host2:5432`, and whether only one that takes writes will do. */
export const serversOf = (url: string): { readonly urls: ReadonlyArray<string>; readonly needsWrites: boolean } => {
  const [, before = "", hosts = "", after = ""] = pattern.exec(url) ?? []
  const urls = hosts.split(",").map((host) => `${before}${host}${after}`)
  const wanted = URL.canParse(urls[0] ?? "") ? new URL(urls[0] ?? "").searchParams.get("target_session_attrs") : null
  return { urls, needsWrites: wanted === null ? urls.length > 1 : wanted !== "any" }
}

const sessions = new Set(["any", "read-write", "primary"])

/** What is wrong with a url, if something is. */
export const fault = (url: string): string | undefined => {
  const { urls } = serversOf(url)
  if (!pattern.test(url) || !urls.every((each) => URL.canParse(each))) {
    return "a url like postgres://user:password@host:5432/database"
  }
  const wanted = new URL(urls[0] ?? "").searchParams.get("target_session_attrs")
  return wanted === null || sessions.has(wanted)
    ? undefined
    : `target_session_attrs to be one of ${[...sessions].join(", ")}`
}

/** Hosts and ports of a url, fit to be shown. */
export const address = (url: Redacted.Redacted): string => {
  const parsed = serversOf(Redacted.value(url)).urls.map((each) => new URL(each))
  const hosts = parsed.map(
    ({ host, hostname, searchParams }) => searchParams.get("host") ?? (hostname === "" ? "localhost" : host)
  )
  return `${hosts.join(",")}${decodeURIComponent(parsed[0]?.pathname ?? "")}`
}
