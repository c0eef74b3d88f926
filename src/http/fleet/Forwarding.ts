import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { Effect, FiberId, Layer } from "effect"
import * as FleetConfig from "../../fleet/FleetConfig.js"
import { reading } from "../access/Auth.js"
import { Caller } from "../access/Caller.js"
import { ServedCell } from "../access/ServedCell.js"
import * as Body from "../Body.js"
import { apiPrefix } from "../Contract.js"
import { EventStreams, headers as eventHeaders } from "../live/EventStreams.js"
import * as Problem from "../Problem.js"
import { Forbidden, Misdirected, NotFound } from "../RequestErrors.js"
import { CellClients } from "./CellClients.js"

// `/api/v1/cells/mail/jobs` is `/api/v1/jobs` of cell mail. The guard has authenticated the caller before; the other cell authorizes and
// audits it.

/** The largest body of any route that pages and programs use. */
const maxBodyBytes = 8 * 1024 * 1024

const sentHeaders = ["accept", "content-type", "idempotency-key", "last-event-id", "x-deadline", "x-reason"]
const returnedHeaders = ["content-disposition", "content-type", "retry-after"]

/** Logins, and what this service itself does for all cells. */
const notForwarded = /^(session|cells|fleet)(?=\/|$)/

/** The path as the other cell reads it: without dots, empty parts at the start and encoding. */
const plainPath = (rest: string): string => {
  const { pathname } = new URL(`http://cell/${rest}`)
  try {
    return decodeURIComponent(pathname).replace(/^\/+/, "")
  } catch {
    return pathname.slice(1)
  }
}

const prefix = `${apiPrefix}/cells/`

/** The cell, and the path and query in it. */
const partsOf = (url: string) => {
  const [, name = "", rest = ""] = /^([^/?]*)\/?(.*)$/s.exec(url.slice(url.indexOf(prefix) + prefix.length)) ?? []
  return { name, rest }
}

const forward = Effect.gen(function* () {
  const membership = yield* ServedCell
  const clients = yield* CellClients
  const streams = yield* EventStreams
  const scope = yield* Effect.scope

  /** Passes events on until the listener leaves, its login ends or this process drains. */
  const relay = (source: ReadableStreamDefaultReader<Uint8Array>) =>
    Effect.gen(function* () {
      const { session } = yield* Caller
      const leave = Effect.sync(() => void source.cancel().catch(() => {}))
      const body = yield* Effect.tapError(streams.open(session), () => leave)
      const text = new TextDecoder()
      const next = Effect.tryPromise(() => source.read())
      const feed = Effect.gen(function* () {
        for (let piece = yield* next; !piece.done; piece = yield* next) {
          body.send(text.decode(piece.value, { stream: true }))
          yield* body.room
        }
      }).pipe(Effect.ignore, Effect.ensuring(Effect.sync(() => body.finish())), Effect.ensuring(leave))
      const feeding = yield* Effect.forkIn(feed, scope)
      body.once("close", () => feeding.unsafeInterruptAsFork(FiberId.none))
      return HttpServerResponse.raw(body, { headers: eventHeaders })
    })

  return Effect.gen(function* () {
    const request = yield* HttpServerRequest.HttpServerRequest
    const { headers, method, url } = request
    const caller = yield* Caller
    const { name, rest } = partsOf(url)
    if (membership === undefined || notForwarded.test(plainPath(rest)))
      return yield* new NotFound({ method, path: url.split("?")[0] ?? "" })
    if (caller.forwarded === true)
      return yield* new Misdirected({ message: "A request that another cell forwarded is not forwarded again." })
    const cell = yield* FleetConfig.cellOf(membership.fleet, name)
    const client = clients.get(cell.name)
    // This cell. Relative, so that it works behind a proxy with any path prefix.
    if (client === undefined)
      return HttpServerResponse.empty({
        status: 308,
        headers: { location: `${"../".repeat((rest.split("?")[0] ?? "").split("/").length + 1)}${rest}` }
      })
    const isChange = !reading.has(method)
    if (isChange && membership.token?.mayAct === false)
      return yield* new Forbidden({
        message:
          "Other cells can only be viewed from here. Act in the cell's own Mission Control, or set NIGHTSHIFT_FLEET_TOKEN to `<token>:admin` in the services of both cells."
      })
    const answer = yield* client({
      method,
      path: rest,
      caller,
      headers: Object.fromEntries(
        sentHeaders.flatMap((key) => (headers[key] === undefined ? [] : [[key, headers[key]]]))
      ),
      ...(isChange ? { body: new Uint8Array(yield* Body.bytes(request, maxBodyBytes)) } : {})
    })
    if (!(answer.body instanceof Uint8Array)) return yield* relay(answer.body)
    const kept = returnedHeaders.flatMap((key) => {
      const value = answer.headers.get(key)
      return value === null ? [] : [[key, value] as const]
    })
    const { "content-type": contentType, ...others } = Object.fromEntries(kept)
    return answer.body.length === 0
      ? HttpServerResponse.empty({ status: answer.status, headers: others })
      : HttpServerResponse.uint8Array(answer.body, {
          status: answer.status,
          headers: others,
          ...(contentType === undefined ? {} : { contentType })
        })
  }).pipe(Problem.catchErrors)
})

/** Adds the route to the API. */
export const layer = HttpApiBuilder.Router.use((router) =>
  Effect.flatMap(forward, (handler) => router.all(`${apiPrefix}/cells/*`, handler))
).pipe(Layer.provide(CellClients.layer))
