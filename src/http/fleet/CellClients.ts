import { Clock, Context, Duration, Effect, Layer, Predicate, Schema } from "effect"
import { Expected } from "../../core/ExpectedError.js"
import type { Cell } from "../../fleet/Fleet.js"
import type { CallerFacts } from "../access/Caller.js"
import { headersFor, ServedCell } from "../access/ServedCell.js"
import { apiPrefix } from "../Contract.js"

// Requests to the HTTP services of other cells. A cell that does not respond costs one request at a time: while it is down, all others
// fail at once, so that the pages of other cells do not wait for their connections. Nothing is repeated. Some requests wait by design,
// such as a claim of jobs: while the cell responds to others, they may.

/** Longest wait for a cell that may be down. Mission Control waits as long for an action. */
export const longest = Duration.seconds(10)

/** The wait after which a cell is asked whether it responds. It gets as long again to do so. */
export class Patience extends Context.Reference<Patience>()("nightshift/http/CellPatience", {
  defaultValue: () => Duration.times(longest, 0.5)
}) {}

/** Requests to one cell that wait for a response, without those that wait by design. */
const maxOpen = 64

/** The largest response, which is kept in memory. */
const maxResponse = { bytes: 64 * 1024 * 1024, text: "64 MiB" }

/** Milliseconds between two attempts to reach a cell that is down. */
const retryAfter = 1_000

/** Another cell's service did not respond, or refused this service. */
export class CellUnreachable extends Expected<CellUnreachable>(502)("CellUnreachable", {
  cell: Schema.String,
  reason: Schema.String,
  /** Whether the request was a change that may have been made. */
  maybeDone: Schema.Boolean
}) {
  override get message(): string {
    const done = this.maybeDone ? " The change may have been made: check before you repeat it." : ""
    return `Cell ${this.cell} cannot be reached from here: ${this.reason}.${done}`
  }
}

export interface CellRequest {
  readonly method: string
  /** Path and query, from the prefix of the API. */
  readonly path: string
  readonly caller: Pick<CallerFacts, "isAgent" | "role" | "who">
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: Uint8Array<ArrayBuffer>
}

export interface CellResponse {
  readonly status: number
  readonly headers: Headers
  /** A stream only if it is one of events. */
  readonly body: Uint8Array | ReadableStreamDefaultReader<Uint8Array>
}

/** Sends requests to the service of one cell. */
export type CellClient = (request: CellRequest) => Effect.Effect<CellResponse, CellUnreachable>

const causeOf = (error: unknown): string => {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  // A name with several addresses fails without a message.
  const code = Predicate.hasProperty(cause, "code") ? String(cause.code) : "no connection"
  return (cause instanceof Error ? cause.message || code : String(cause)).replace(/\.$/, "")
}

/** Whether the request was not sent. */
const isUnsent = (reason: string) => /ECONNREFUSED|ENOTFOUND|EAI_AGAIN/.test(reason)

/** Why a response is not an answer to the caller: this service was refused, or the address is wrong. */
const refusalOf = ({ headers, status }: Response): string | undefined => {
  if (status === 401) return "it rejects the token; set NIGHTSHIFT_FLEET_TOKEN to the same value in all services"
  if (status === 421) return "its address belongs to another cell; correct `api` in the fleet file"
  if (status >= 300 && status < 400)
    return `its address redirects to ${headers.get("location")}; correct \`api\` in the fleet file`
  return undefined
}

/** Reads a response. What answers at the address may not be a cell, and never end. */
const readAll = async ({ body }: Response): Promise<Uint8Array> => {
  const pieces: Array<Uint8Array> = []
  let size = 0
  for await (const piece of body ?? []) {
    size += piece.byteLength
    if (size > maxResponse.bytes) throw new Error(`its response is larger than ${maxResponse.text}`)
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}

const isEvents = (response: Response) => response.headers.get("content-type")?.startsWith("text/event-stream") === true

/** The address of a path. Undefined if the path leads out of the API. */
const addressOf = (api: string, path: string): URL | undefined => {
  const base = new URL(`${api}${apiPrefix}/`)
  const url = new URL(`${base.href}${path}`)
  return url.origin === base.origin && url.pathname.startsWith(base.pathname) ? url : undefined
}

/** Ends once a service has responded. */
const responded = (api: string) =>
  Effect.tryPromise(async (signal) => {
    const response = await fetch(`${api}/healthz`, { redirect: "manual", signal })
    await response.body?.cancel()
    return response.ok
  }).pipe(
    Effect.orElseSucceed(() => false),
    Effect.flatMap((isOk) => (isOk ? Effect.void : Effect.never))
  )

const makeClient = (
  own: Cell,
  token: Parameters<typeof headersFor>[1],
  to: Cell,
  api: string,
  patience: Duration.Duration
): CellClient => {
  let down: string | undefined
  let triedAt = 0
  let open = 0

  return ({ body, caller, headers = {}, method, path }) =>
    Effect.gen(function* () {
      const isChange = method !== "GET" && method !== "HEAD"
      const failed = (reason: string, maybeDone = false) =>
        new CellUnreachable({ cell: to.name, reason, maybeDone: maybeDone && isChange && !isUnsent(reason) })
      const url = addressOf(api, path)
      if (url === undefined) return yield* failed("the path leads out of its API")
      const now = yield* Clock.currentTimeMillis
      if (down !== undefined && (open > 0 || now - triedAt < retryAfter)) return yield* failed(down)
      if (open >= maxOpen) return yield* failed(`${maxOpen} requests are waiting for it already`)
      let hasResponded = false
      const send = async (signal: AbortSignal): Promise<Response | CellResponse> => {
        const response = await fetch(url, {
          method,
          headers: { ...headers, ...headersFor(own, token, to, caller) },
          redirect: "manual",
          signal,
          ...(body === undefined ? {} : { body })
        })
        hasResponded = true
        down = undefined
        if (refusalOf(response) !== undefined) {
          await response.body?.cancel()
          return response
        }
        const stream = isEvents(response) ? response.body?.getReader() : undefined
        return {
          status: response.status,
          headers: response.headers,
          body: stream ?? (await readAll(response))
        }
      }
      let isCounted = true
      const leave = Effect.sync(() => {
        if (isCounted) open -= 1
        isCounted = false
      })
      const seconds = Duration.toSeconds(Duration.times(patience, 2))
      // Of a cell that responds, this service's own limit ends the wait.
      const watch = responded(api).pipe(
        Effect.timeoutFail({ duration: patience, onTimeout: () => failed(`no response within ${seconds} s`, true) }),
        Effect.zipRight(leave),
        Effect.zipRight(Effect.never),
        Effect.delay(patience)
      )
      const request = Effect.tryPromise({ try: send, catch: (error) => failed(causeOf(error), true) }).pipe(
        Effect.raceFirst(watch),
        Effect.tapError(({ reason }) =>
          Effect.sync(() => {
            // A response that broke off says nothing about the cell: others may be smaller.
            if (!hasResponded) down = reason
          })
        )
      )
      const answer = yield* Effect.acquireUseRelease(
        Effect.sync(() => {
          open += 1
          triedAt = now
        }),
        () => request,
        () => leave
      )
      return answer instanceof Response ? yield* failed(refusalOf(answer) ?? "") : answer
    })
}

/** Clients of the other cells' services, by name. */
export class CellClients extends Context.Tag("nightshift/http/CellClients")<
  CellClients,
  ReadonlyMap<string, CellClient>
>() {
  static readonly layer: Layer.Layer<CellClients> = Layer.effect(
    CellClients,
    Effect.gen(function* () {
      const membership = yield* ServedCell
      if (membership === undefined) return new Map()
      const { cell: own, fleet, token } = membership
      const patience = yield* Patience
      const others = [...fleet.cells.values()].filter((cell) => cell !== own)
      return new Map(
        others.map((cell): readonly [string, CellClient] => {
          const refuse = (reason: string) => () =>
            Effect.fail(new CellUnreachable({ cell: cell.name, reason, maybeDone: false }))
          if (cell.api === undefined) return [cell.name, refuse("it has no `api` in the fleet file")]
          if (token === undefined) return [cell.name, refuse("NIGHTSHIFT_FLEET_TOKEN is not set in this service")]
          return [cell.name, makeClient(own, token, cell, cell.api, patience)]
        })
      )
    })
  )
}
