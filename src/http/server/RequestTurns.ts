import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http"
import type { Socket } from "node:net"
import { prefix as hooksPrefix } from "../hooks/WebhookEndpoint.js"
import { prefix as uploadsPrefix } from "../uploads/UploadsApp.js"

// Every request starts here. Node hands over all requests of a packet in one turn of the event loop: hundreds, if a client pipelines them. Starting
// them all at once would block every other connection meanwhile, including health checks. So a turn starts a limited
// number of requests. The rest wait, and connections take turns, so a client with one request does not wait behind a
// client with hundreds. Node sends the responses of a connection in the order of its requests.

/** Starts handling a request. */
export type Start = (request: IncomingMessage, response: ServerResponse) => void

interface Waiting {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly start: Start
}

/** Maximum number of requests started per turn of the event loop. */
const maxRequestsPerTurn = 32

const isPath = (url: string, path: string) =>
  url.startsWith(path) && (url.length === path.length || url[path.length] === "?")

const isProbe = ({ url = "" }: IncomingMessage) => isPath(url, "/healthz") || isPath(url, "/readyz")

/** Limits the requests started in one turn of the event loop. */
export class RequestTurns {
  /** In the order of their turns. */
  private readonly waiting = new Map<Socket, Array<Waiting>>()
  private readonly probed = new Set<Socket>()
  private left = maxRequestsPerTurn
  private scheduled = false

  /** Starts a request now or in a later turn. Health checks start now, at most one per connection and turn. */
  readonly take = (request: IncomingMessage, response: ServerResponse, start: Start): void => {
    const { socket } = request
    this.schedule()
    const others = this.waiting.get(socket)
    if (others !== undefined) {
      others.push({ request, response, start })
      // The client pipelines: stop reading, so that what waits stays bounded by one packet.
      socket.pause()
    } else if (isProbe(request) && !this.probed.has(socket)) {
      this.probed.add(socket)
      start(request, response)
    } else if (this.left > 0) {
      this.left -= 1
      start(request, response)
    } else this.waiting.set(socket, [{ request, response, start }])
  }

  private schedule(): void {
    if (this.scheduled) return
    this.scheduled = true
    setImmediate(this.nextTurn)
  }

  private readonly nextTurn = (): void => {
    this.scheduled = false
    this.probed.clear()
    this.left = maxRequestsPerTurn
    for (const [socket, requests] of this.waiting) {
      if (this.left === 0) break
      const next = requests.shift()
      // Added again behind the others; this loop visits it again if there is budget left.
      this.waiting.delete(socket)
      if (requests.length > 0) this.waiting.set(socket, requests)
      else if (socket.isPaused()) socket.resume()
      // A client that has left gets no response, so its requests are not handled.
      if (next === undefined || socket.destroyed) continue
      this.left -= 1
      next.start(next.request, next.response)
    }
    if (this.waiting.size > 0) this.schedule()
  }
}

const isHook = ({ url }: IncomingMessage) => url?.startsWith(hooksPrefix) === true

const serverInTarget = /^https?:\/\/[^/?]*/i

/** Proxies may name the server in the target of a request, as in `GET http://jobs.example.com/healthz`. */
const removeServer = (request: IncomingMessage): void => {
  const { url = "/" } = request
  if (url.startsWith("/") || !serverInTarget.test(url)) return
  const path = url.replace(serverInTarget, "")
  request.url = path.startsWith("/") ? path : `/${path}`
}

/** Passes the requests of a server on. Webhooks bypass the platform's router, which would take most of their time. */
export const dispatch = (server: Server, takeHook: Start, others: RequestListener): void => {
  const turns = new RequestTurns()
  const start: Start = (request, response) => {
    if (isHook(request)) takeHook(request, response)
    else others(request, response)
  }
  // `Expect: 100-continue`: webhooks and uploads send 100 themselves, once they know that they will read the body.
  const startExpecting: Start = (request, response) => {
    if (!isHook(request) && request.url?.startsWith(uploadsPrefix) !== true) response.writeContinue()
    start(request, response)
  }
  const receive =
    (begin: Start): Start =>
    (request, response) => {
      removeServer(request)
      turns.take(request, response, begin)
    }
  server.on("request", receive(start))
  server.on("checkContinue", receive(startExpecting))
}
