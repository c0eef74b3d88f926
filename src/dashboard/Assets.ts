import { readdirSync, readFileSync } from "node:fs"
import { extname, join } from "node:path"
import { gzipSync } from "node:zlib"
import type * as HttpApp from "@effect/platform/HttpApp"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { Effect } from "effect"
import * as Package from "../database/Package.js"

// Serves the built files of Mission Control from memory. They are read once and compressed on first use; a request path
// is only looked up in that set and never used as a file path.

const types: Readonly<Record<string, string>> = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".svg": "image/svg+xml"
}

/** Content Security Policy: same origin only, no inline code, no framing. */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'"
].join("; ")

const guards = {
  "content-security-policy": policy,
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "cross-origin-opener-policy": "same-origin"
}

interface Asset {
  readonly type: string
  readonly plain: Uint8Array
  readonly gzipped: () => Uint8Array
  /** The file name contains a content hash, so it can be cached forever. */
  readonly lasting: boolean
}

const gzippedOnce = (plain: Uint8Array) => {
  let gzipped: Uint8Array | undefined
  return () => {
    gzipped ??= gzipSync(plain)
    return gzipped
  }
}

const escaped = (text: string) => text.replace(/[&<>"']/g, (character) => `&#${character.codePointAt(0)};`)

/** Tells the page that another app has the login, and where. */
const withLogin = (page: Uint8Array, login: string): Uint8Array =>
  Buffer.from(
    Buffer.from(page)
      .toString()
      .replace('<div id="app"', `$& data-login="${escaped(login)}"`)
  )

const readAll = (folder: string, login: string | undefined): ReadonlyMap<string, Asset> =>
  new Map(
    readdirSync(folder, { recursive: true, encoding: "utf8" }).flatMap((file) => {
      const type = types[extname(file)]
      if (type === undefined) return []
      const name = file.replaceAll("\\", "/")
      const read = readFileSync(join(folder, file))
      const plain = login === undefined || name !== "index.html" ? read : withLogin(read, login)
      return [[name, { type, plain, gzipped: gzippedOnce(plain), lasting: name.startsWith("assets/") }] as const]
    })
  )

const pageMissing = HttpServerResponse.text("There is no such page. Mission Control is at /ui/.\n", { status: 404 })

/** Relative, so that it works behind a proxy with any path prefix. */
const toPage = HttpServerResponse.empty({ status: 308, headers: { location: "ui/" } })

const respond = (asset: Asset, acceptsGzip: boolean) =>
  HttpServerResponse.uint8Array(acceptsGzip ? asset.gzipped() : asset.plain, {
    contentType: asset.type,
    headers: {
      ...guards,
      vary: "accept-encoding",
      "cache-control": asset.lasting ? "public, max-age=31536000, immutable" : "no-cache",
      ...(acceptsGzip ? { "content-encoding": "gzip" } : {})
    }
  })

/** The pages. `login` is the login page of the app that they are part of, or empty if it has none; undefined in the service. */
export const make = (login?: string): Effect.Effect<HttpApp.Default> =>
  Effect.sync(() => {
    const assets = readAll(Package.dashboardDirectory, login)
    return Effect.map(HttpServerRequest.HttpServerRequest, ({ headers, url }) => {
      const path = url.split(/[?#]/)[0] ?? ""
      if (path === "/ui") return toPage
      const asset = assets.get(path.replace(/^\/ui\//, "") || "index.html")
      if (asset === undefined) return pageMissing
      return respond(asset, /\bgzip\b/.test(headers["accept-encoding"] ?? ""))
    })
  })
