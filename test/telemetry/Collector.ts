import { createServer, type IncomingHttpHeaders } from "node:http"
import type { AddressInfo } from "node:net"
import { Effect, type Scope } from "effect"

export interface CollectedSpan {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly kind: number
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly links: ReadonlyArray<{ readonly traceId: string; readonly spanId: string }>
  readonly status: { readonly code?: number; readonly message?: string }
  /** Flattened attributes. */
  readonly about: Readonly<Record<string, unknown>>
}

/** A trace collector: a real server that accepts OTLP as JSON and records it. */
export interface Collector {
  readonly url: string
  readonly spans: () => ReadonlyArray<CollectedSpan>
  /** Everything received, as sent. */
  readonly text: () => string
  readonly headers: () => ReadonlyArray<IncomingHttpHeaders>
  readonly resource: () => Readonly<Record<string, unknown>>
  /** Waits until enough spans have arrived. */
  readonly until: (enough: (spans: ReadonlyArray<CollectedSpan>) => boolean) => Effect.Effect<void>
  /** Sets the status of later answers. */
  readonly answer: (status: number) => void
}

type Wire = ReadonlyArray<{ readonly key: string; readonly value: Readonly<Record<string, unknown>> }>

const flat = (attributes: Wire) =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]] as const))

export const make: Effect.Effect<Collector, never, Scope.Scope> = Effect.gen(function* () {
  const requests: Array<{ readonly headers: IncomingHttpHeaders; readonly text: string }> = []
  const listeners = new Set<() => void>()
  let status = 200
  let spans: ReadonlyArray<CollectedSpan> = []
  let resource: Readonly<Record<string, unknown>> = {}

  const take = (text: string) => {
    const [of] = JSON.parse(text).resourceSpans
    resource = flat(of.resource.attributes)
    const fresh = of.scopeSpans[0].spans.map((span: { attributes: Wire }) => ({
      ...span,
      about: flat(span.attributes)
    }))
    spans = [...spans, ...fresh]
  }

  const server = yield* Effect.acquireRelease(
    Effect.sync(() =>
      createServer((request, response) => {
        let text = ""
        request.on("data", (chunk) => {
          text += chunk
        })
        request.on("end", () => {
          requests.push({ headers: request.headers, text })
          if (status === 200 && request.url === "/v1/traces" && request.method === "POST") take(text)
          response.writeHead(status, { "content-type": "application/json" }).end("{}")
          for (const listener of [...listeners]) listener()
        })
      }).listen(0, "127.0.0.1")
    ),
    (server) =>
      Effect.async<void>((resume) => {
        server.closeAllConnections()
        server.close(() => resume(Effect.void))
      })
  )
  yield* Effect.async<void>((resume) => {
    if (server.listening) resume(Effect.void)
    else server.once("listening", () => resume(Effect.void))
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans: () => spans,
    text: () => requests.map(({ text }) => text).join("\n"),
    headers: () => requests.map(({ headers }) => headers),
    resource: () => resource,
    until: (enough) =>
      Effect.async<void>((resume) => {
        const look = () => {
          if (!enough(spans)) return
          listeners.delete(look)
          resume(Effect.void)
        }
        listeners.add(look)
        look()
      }),
    answer: (next) => {
      status = next
    }
  }
})
