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

/** Host and port of a url, fit to be shown. */
export const address = (url: Redacted.Redacted): string => {
  const { host, hostname, pathname, searchParams } = new URL(Redacted.value(url))
  const where = searchParams.get("host") ?? (hostname === "" ? "localhost" : host)
  return `${where}${decodeURIComponent(pathname)}`
}
