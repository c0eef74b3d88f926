import * as Http from "node:http"
import { Context, Effect, Layer, Option, Redacted } from "effect"
import { Lifecycle } from "../../src/core/Lifecycle.js"
import * as Listener from "../../src/database/Listener.js"
import { ApiApp } from "../../src/http/ApiApp.js"
import { Readiness } from "../../src/http/Readiness.js"
import * as Server from "../../src/http/Server.js"
import { ServerConfig } from "../../src/http/ServerConfig.js"
import { UiApp } from "../../src/http/UiApp.js"
import type { JobDesk } from "../../src/queue/JobDesk.js"
import type { JobSearch } from "../../src/queue/JobSearch.js"
import { Kinds } from "../../src/queue/Kinds.js"
import type { Queue } from "../../src/queue/Queue.js"
import * as QueueMemory from "../../src/queue/QueueMemory.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import type { Queues } from "../../src/queue/QueueSettings.js"
import * as Wakeups from "../../src/queue/Wakeups.js"
import { EventLoop } from "../../src/telemetry/EventLoop.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import * as TestDatabase from "../support/TestDatabase.js"

export interface Asked {
  readonly token?: string | undefined
  /** Sent as JSON. */
  readonly json?: unknown
  /** Sent as it is, in pieces of unknown length when there are several. */
  readonly body?: string | Buffer | ReadonlyArray<Buffer>
  readonly headers?: Readonly<Record<string, string>>
}

export interface Answer {
  readonly status: number
  readonly headers: Http.IncomingHttpHeaders
  readonly text: string
  readonly json: unknown
}

/** Asks by hand what `fetch` does not allow: any Host header, bodies without a length. */
const ask = (url: string, method: string, { body, headers, json, token }: Asked): Promise<Answer> =>
  new Promise((resolve, reject) => {
    const sent = json === undefined ? (body ?? "") : JSON.stringify(json)
    const pieces = typeof sent === "string" || Buffer.isBuffer(sent) ? [Buffer.from(sent)] : sent
    const length = pieces.length === 1 ? { "content-length": String(pieces[0]?.length ?? 0) } : {}
    const request = Http.request(url, {
      method,
      headers: {
        ...(json === undefined ? {} : { "content-type": "application/json" }),
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...length,
        ...headers
      }
    })
    request.on("error", reject)
    request.on("response", (response) => {
      const chunks: Array<Buffer> = []
      response.on("data", (chunk) => chunks.push(chunk))
      response.on("end", () => {
        const text = Buffer.concat(chunks).toString()
        const isJson = response.headers["content-type"]?.startsWith("application/json") === true
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text,
          json: isJson ? JSON.parse(text) : undefined
        })
      })
    })
    for (const piece of pieces) request.write(piece)
    request.end()
  })

/** The open doors of a service, over real HTTP. */
export class Doors extends Context.Tag("test/http/Doors")<
  Doors,
  {
    readonly ask: (method: string, path: string, asked?: Asked) => Effect.Effect<Answer>
    /** The same with the admin's token. */
    readonly admin: (method: string, path: string, asked?: Asked) => Effect.Effect<Answer>
    readonly port: number
  }
>() {}

export const adminToken = "admin-sesame"
export const viewerToken = "viewer-sesame"

type Config = typeof ServerConfig.Service

const bothTokens: Config = {
  host: "127.0.0.1",
  port: 0,
  adminToken: Option.some(Redacted.make(adminToken)),
  viewerToken: Option.some(Redacted.make(viewerToken)),
  metricsToken: Option.none()
}

/** The kinds that a pod of these tests would serve. */
const kinds = Layer.effectDiscard(
  Effect.flatMap(Kinds, ({ register }) =>
    register([
      { name: "greet", queue: "mail", version: 3, maxAttempts: 7, onDead: undefined },
      { name: "plain", queue: "default", version: 1, maxAttempts: 5, onDead: undefined }
    ])
  )
)

const doorsOver = <E, R>(app: Layer.Layer<ApiApp, E, R | ServerConfig>, config: Partial<Config>) => {
  const configured = Layer.succeed(ServerConfig, { ...bothTokens, ...config })
  return Layer.effect(
    Doors,
    Effect.map(Server.Server, ({ url }) => {
      const door = (method: string, path: string, asked: Asked = {}) =>
        Effect.promise(() => ask(`${url}${path}`, method, asked))
      return {
        ask: door,
        admin: (method, path, asked) => door(method, path, { token: adminToken, ...asked }),
        port: Number(new URL(url).port)
      }
    })
  ).pipe(
    Layer.provide(Server.layer),
    Layer.provide(app),
    Layer.provide(configured),
    Layer.provide([Readiness.layerWithoutDatabase, Metrics.layer, EventLoop.layer, UiApp.layerNone]),
    Layer.provide(Lifecycle.layer)
  )
}

/** On a queue of the test's choice. */
export const layerOver = <R, E, I>(
  queue: Layer.Layer<Queue | Queues | JobDesk | JobSearch | Kinds | R, E, I>,
  config: Partial<Config> = {}
) => doorsOver(ApiApp.layer, config).pipe(Layer.provideMerge(Layer.provideMerge(kinds, queue)))

const memory = QueueMemory.layer.pipe(Layer.provide(Wakeups.layer))

/** On a queue in memory. */
export const layer = (config: Partial<Config> = {}) => layerOver(memory, config)

/** On PostgreSQL. */
const layerPostgres = () =>
  layerOver(QueuePg.layer.pipe(Layer.provide(Listener.layerDeaf), Layer.provide(TestDatabase.layer)))

/** What every route must do, whatever the queue stands on. */
export const backends: ReadonlyArray<
  readonly [where: string, layer: () => Layer.Layer<Doors | Queue | Queues | JobDesk | JobSearch | Kinds>]
> = [
  ["memory", () => Layer.orDie(layer())],
  ["PostgreSQL", () => Layer.orDie(layerPostgres())]
]

export const layerWithoutDatabase = (config: Partial<Config> = {}) => doorsOver(ApiApp.layerWithoutDatabase, config)
