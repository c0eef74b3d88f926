import type * as HttpApp from "@effect/platform/HttpApp"
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { Context, Effect, Layer } from "effect"
import * as DocsPage from "./DocsPage.js"

/** Everything under `/ui`. A tag, because the dashboard may not be imported from here; the program provides it. */
export class UiApp extends Context.Tag("nightshift/http/UiApp")<UiApp, HttpApp.Default>() {
  /** For a process without Mission Control. */
  static readonly layerNone: Layer.Layer<UiApp> = Layer.succeed(UiApp, HttpServerResponse.empty({ status: 404 }))
}

/** A path without empty segments, which could name another host. */
const plainPath = /^(?:\/[\w.~%!$&'()*+,;=:@-]+)+$/

/** The path that a proxy in front of this process has removed, if the proxy says so. */
const removedPrefix = ({ headers }: HttpServerRequest.HttpServerRequest): string | undefined => {
  const given = headers["x-forwarded-prefix"]?.split(",")[0]?.trim().replace(/\/+$/, "")
  return given !== undefined && plainPath.test(given) ? given : undefined
}

/** Relative if the path is not known, so that it works behind a proxy with any path prefix. */
const toPages = (path: string) =>
  Effect.map(HttpServerRequest.HttpServerRequest, (request) => {
    const prefix = `${removedPrefix(request) ?? ""}${path}`
    return HttpServerResponse.empty({
      status: 307,
      headers: { location: prefix === "" ? "ui/" : `${prefix}/ui/`, vary: "x-forwarded-prefix" }
    })
  })

/** The pages and the API of Mission Control. `page` guards what is not the API, and `path` is where the program has them. */
export const router = (
  apps: { readonly api: HttpApp.Default; readonly ui: HttpApp.Default },
  page: <E, R>(app: HttpApp.Default<E, R>) => HttpApp.Default<E, R>,
  path = ""
) =>
  HttpRouter.empty.pipe(
    HttpRouter.concat(HttpRouter.use(DocsPage.router, page)),
    HttpRouter.get("/", page(toPages(path))),
    HttpRouter.mountApp("/api", apps.api, { includePrefix: true }),
    HttpRouter.mountApp("/ui", page(apps.ui), { includePrefix: true })
  )
