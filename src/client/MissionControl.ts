import type { IncomingMessage, ServerResponse } from "node:http"
import { Exit, Predicate, Scope } from "effect"
import { shown } from "../core/Storable.js"
import type { MountedControl } from "../dashboard/MountedControl.js"
import type { Visitor } from "../http/access/AppLogin.js"
import { usedBy } from "./Connection.js"
import { checkKnown, namesOf } from "./Options.js"
import type { Shift } from "./Shift.js"
import { InvalidOptionError } from "./ShiftErrors.js"

/**
 * What a visitor may do: an admin may do everything, a viewer may only read, and `"none"` is refused. The audit log
 * stores `user` as the name.
 */
export type MissionControlAccess =
  | "admin"
  | "viewer"
  | "none"
  | {
      /** What the visitor may do. */
      readonly role: "admin" | "viewer"
      /** Who it is, for the audit log: an account name or a mail address. */
      readonly user: string
    }

/** Where an app has Mission Control, and who may use it. */
export interface MissionControlOptions<R> {
  /** The path of Mission Control in the app: `/ops`. Its first page is at `/ops/ui/`. */
  readonly path: string
  /**
   * Says what the sender of a request may do, by the login of the app. Called for every request, with the object that
   * `handler` or `fetch` received.
   */
  readonly authorize: (request: R) => MissionControlAccess | Promise<MissionControlAccess>
  /** The app's login page, to which visitors without access are sent. [they get a page that says so] */
  readonly loginUrl?: string | undefined
  /** Sites that may show Mission Control in a frame, as in Content-Security-Policy: `["'self'"]`. [none] */
  readonly frameAncestors?: ReadonlyArray<string> | undefined
}

/** Mission Control as a part of an app. It ends with its shift. */
export interface MissionControl {
  /**
   * Middleware of Express, Connect, NestJS and `node:http`. Passes requests for other paths to `next`. Must come before
   * body parsers.
   */
  readonly handler: (request: IncomingMessage, response: ServerResponse, next?: (error?: unknown) => void) => void
  /** Answers a request of the web standard: for Hono, Next.js, Bun and Deno. */
  readonly fetch: (request: Request) => Promise<Response>
  /** Ends the open event streams, which would keep a server from closing. Later requests are refused. */
  close(): Promise<void>
  /** Calls `close()`, for `await using`. */
  [Symbol.asyncDispose](): Promise<void>
}

const optionNames = namesOf<MissionControlOptions<never>>({ path: 0, authorize: 0, loginUrl: 0, frameAncestors: 0 })

/** A path without a slash at its end; empty for the root. */
const pathOf = (path: unknown): string => {
  if (typeof path === "string" && /^(?:\/[\w.~%-]+)*\/?$/.test(path)) return path.replace(/\/$/, "")
  throw new InvalidOptionError("path", `path must be a path like "/ops", got ${shown(path)}.`)
}

const checked = <R>(options: MissionControlOptions<R>) => {
  checkKnown(options ?? {}, optionNames, "an option of missionControl")
  const path = pathOf(options?.path)
  const { authorize, frameAncestors, loginUrl } = options
  if (typeof authorize !== "function")
    throw new InvalidOptionError("authorize", `authorize must be a function, got ${shown(authorize)}.`)
  if (loginUrl !== undefined && typeof loginUrl !== "string")
    throw new InvalidOptionError("loginUrl", `loginUrl must be a URL like "/login", got ${shown(loginUrl)}.`)
  const isSource = (source: unknown) => typeof source === "string" && /^[^\s;,]+$/.test(source)
  if (frameAncestors !== undefined && !(Array.isArray(frameAncestors) && frameAncestors.every(isSource)))
    throw new InvalidOptionError(
      "frameAncestors",
      `frameAncestors must be a list like ["'self'", "https://admin.example.org"], got ${shown(frameAncestors)}.`
    )
  const ancestors = frameAncestors?.join(" ")
  return { path, loginUrl, frameAncestors: ancestors === "" ? undefined : ancestors }
}

/** Rejects invalid results, so that a mistake in `authorize` never grants access. */
const visitorOf = (access: unknown): Visitor | undefined => {
  if (access === "none") return undefined
  const { role, user } = Predicate.isObject(access)
    ? (access as { readonly role?: unknown; readonly user?: unknown })
    : { role: access, user: undefined }
  if ((role === "admin" || role === "viewer") && (user === undefined || typeof user === "string")) return { role, user }
  throw new InvalidOptionError(
    "authorize",
    `authorize must return "admin", "viewer", "none" or { role, user }, got ${shown(access)}.`
  )
}

/** The URL below the path of Mission Control, or undefined for a URL elsewhere. */
const below = (path: string, url: string): string | undefined => {
  if (!url.startsWith(path)) return undefined
  const rest = url.slice(path.length)
  return rest === "" ? "/" : rest.startsWith("?") ? `/${rest}` : rest.startsWith("/") ? rest : undefined
}

/** The answer to requests after `close`. */
const closed = "Mission Control is closed because the app is stopping.\n"
const plain = { "content-type": "text/plain; charset=utf-8", "retry-after": "1" }

/** The URL as the client sent it. Express and Connect cut the path of a router off. */
const urlOf = (request: IncomingMessage): string =>
  Predicate.hasProperty(request, "originalUrl") && typeof request.originalUrl === "string"
    ? request.originalUrl
    : (request.url ?? "/")

/**
 * A router may have cut the path off. Only the URL and what an answer needs are copied: frameworks have Requests of their own.
 * Next.js removes Content-Encoding from responses and compresses them itself, so they are not compressed here.
 */
const requestBelow = (path: string, request: Request): Request => {
  const url = new URL(request.url)
  const inner = new URL(below(path, url.pathname) ?? url.pathname, url)
  inner.search = url.search
  const { body, method, signal } = request
  const headers = new Headers(request.headers)
  headers.delete("accept-encoding")
  const content = body === null || method === "GET" || method === "HEAD" ? {} : { body, duplex: "half" as const }
  return new Request(inner, { method, headers, signal, ...content })
}

/**
 * Mission Control under a path of your own app, with the login of your app. Returns a middleware for Node.js servers and a
 * handler for web standard requests.
 *
 * @example
 * ```ts
 * import { createServer } from "node:http"
 * import { connect, missionControl } from "nightshift/client"
 *
 * const shift = await connect()
 * const control = missionControl(shift, {
 *   path: "/ops",
 *   authorize: (request: Request) => (request.headers.get("cookie") === "user=ada" ? "admin" : "none")
 * })
 * export const GET = control.fetch
 * createServer(control.handler)
 * ```
 */
export const missionControl = <R = IncomingMessage | Request>(
  shift: Shift,
  options: MissionControlOptions<R>
): MissionControl => {
  const { engine, stops } = usedBy(shift, "missionControl")
  const mount = checked(options)
  let closing: Promise<void> | undefined

  const start = async (): Promise<{ readonly control: MountedControl; readonly end: () => Promise<void> }> => {
    const { run } = engine
    // Loaded here, because most programs that use a shift show no pages.
    const { make } = await import("../dashboard/MountedControl.js")
    const scope = await run(Scope.make())
    const control = await run(Scope.extend(make(mount), scope))
    return { control, end: () => run(Scope.close(scope, Exit.void)) }
  }
  let started: ReturnType<typeof start> | undefined
  /** Built for the first visitor: most processes of an app show no pages. */
  const built = () => (started ??= start())

  const end = async () => {
    stops.delete(close)
    const running = await started?.catch(() => undefined)
    await running?.end()
  }
  const close = () => (closing ??= end())
  stops.add(close)

  const visitor = async (request: unknown) => visitorOf(await options.authorize(request as R))

  const answer = async (request: IncomingMessage, response: ServerResponse, url: string) => {
    if (closing !== undefined) return void response.writeHead(503, plain).end(closed)
    const who = await visitor(request)
    const { control } = await built()
    const { url: outer } = request
    // The app may log the URL later, so it changes only while the request is taken.
    Object.assign(request, { url })
    control.handle(request, response, who)
    Object.assign(request, { url: outer })
  }

  return {
    handler: (request, response, next) => {
      const url = below(mount.path, urlOf(request)) ?? (next === undefined ? request.url : undefined)
      if (url === undefined) return next?.()
      answer(request, response, url).catch((error: unknown) => {
        if (next !== undefined) return next(error)
        response.writeHead(500).end("Internal error. See the server log for details.\n")
        process.emitWarning(error instanceof Error ? error : String(error))
      })
    },
    fetch: async (request) => {
      if (closing !== undefined) return new Response(closed, { status: 503, headers: plain })
      const who = await visitor(request)
      const { control } = await built()
      return control.fetch(requestBelow(mount.path, request), who)
    },
    close,
    [Symbol.asyncDispose]: close
  }
}
