import { readFileSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { extname, join, normalize } from "node:path"
import { Effect, type Scope } from "effect"

const types: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".css": "text/css",
  ".js": "text/javascript",
  ".json": "application/json",
  ".svg": "image/svg+xml",
  ".png": "image/png",
  ".webp": "image/webp"
}

/** Serves a folder on a local port, under a prefix as on a host for project pages. Returns the address. */
export const serve = (folder: string): Effect.Effect<string, never, Scope.Scope> =>
  Effect.gen(function* () {
    const server = createServer((request, response) => {
      const path = normalize(new URL(request.url ?? "/", "http://site").pathname.replace(/^\/nightshift\//, ""))
      try {
        const body = readFileSync(join(folder, path === "." ? "index.html" : path))
        response.writeHead(200, { "content-type": types[extname(path)] ?? types[".html"] }).end(body)
      } catch {
        response.writeHead(404).end()
      }
    })
    yield* Effect.acquireRelease(
      Effect.async<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void))),
      () => Effect.async<void>((resume) => void server.close(() => resume(Effect.void)))
    )
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/nightshift`
  })
