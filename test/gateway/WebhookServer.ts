import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { ConfigProvider, Context, Effect, Layer, Option } from "effect"
import { Lifecycle } from "../../src/core/Lifecycle.js"
import * as AuthSessionsMemory from "../../src/gateway/auth/AuthSessionsMemory.js"
import * as Bots from "../../src/gateway/Bots.js"
import * as BotsFile from "../../src/gateway/config/BotsFile.js"
import { GatewayConfig } from "../../src/gateway/config/GatewayConfig.js"
import { Deliveries } from "../../src/gateway/Deliveries.js"
import { SafeFetch } from "../../src/gateway/fetch/SafeFetch.js"
import { Telegram } from "../../src/gateway/telegram/Telegram.js"
import { WebhookIntake } from "../../src/gateway/WebhookIntake.js"
import type { Handler } from "../../src/handlers/Handler.js"
import { WebhookEndpoint } from "../../src/http/hooks/WebhookEndpoint.js"
import { ServerConfig } from "../../src/http/ServerConfig.js"
import { ApiApp } from "../../src/http/server/ApiApp.js"
import { UiApp } from "../../src/http/server/Pages.js"
import { Readiness } from "../../src/http/server/Readiness.js"
import * as Server from "../../src/http/server/Server.js"
import { UploadsApp } from "../../src/http/uploads/UploadsApp.js"
import type { Kinds } from "../../src/queue/Kinds.js"
import type { Queue } from "../../src/queue/Queue.js"
import { Transactions } from "../../src/queue/Transactions.js"
import { EventLoop } from "../../src/telemetry/EventLoop.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import { type Answer, type Asked, ask } from "../http/TestServer.js"
import * as Nightshift from "../support/Nightshift.js"

/** The webhook endpoint over real HTTP. */
export class WebhookServer extends Context.Tag("test/gateway/WebhookServer")<
  WebhookServer,
  {
    readonly port: number
    /** Posts to a path below `/hooks/`. */
    readonly post: (path: string, asked: Asked) => Effect.Effect<Answer>
    /** Delivers an update to a bot, with its secret. */
    readonly update: (
      slug: string,
      update: unknown,
      headers?: Readonly<Record<string, string>>
    ) => Effect.Effect<Answer>
    /** Webhook counters as the metrics show them. */
    readonly counts: Effect.Effect<Readonly<Record<string, number>>>
    readonly bots: typeof Bots.Bots.Service
    /** Path of the bots file. */
    readonly file: string
  }
>() {}

export interface GateOptions {
  readonly yaml: string
  readonly env?: Readonly<Record<string, string>>
  readonly handlers?: ReadonlyArray<Handler<never>>
  readonly database?: boolean
}

export const secretOf = (slug: string) => `${slug}-secret`
export const tokenOf = (slug: string) => `42:${slug}-token`

/** Credentials for every bot that a test declares. */
const credentials = (yaml: string) =>
  Object.fromEntries(
    [...yaml.matchAll(/([a-z0-9-]+):/g)].flatMap(([, slug = ""]) => {
      const name = slug.toUpperCase().replaceAll("-", "_")
      return [
        [`BOT_${name}_TOKEN`, tokenOf(slug)],
        [`BOT_${name}_SECRET`, secretOf(slug)]
      ]
    })
  )

const serverConfig = Layer.succeed(ServerConfig, {
  host: "127.0.0.1",
  port: 0,
  adminToken: Option.none(),
  viewerToken: Option.none(),
  workerTokens: Option.none(),
  metricsToken: Option.none(),
  trustProxy: ""
})

/** The webhook endpoint over the given stores. */
export const layer = <A, E, R>(options: GateOptions, stores: Layer.Layer<Queue | Kinds | A, E, R>) =>
  Layer.unwrapScoped(
    Effect.gen(function* () {
      const { database = true, env = {}, handlers = [], yaml } = options
      const file = join(yield* Nightshift.folder, "bots.yaml")
      writeFileSync(file, yaml)
      const provider = ConfigProvider.fromMap(
        new Map(Object.entries({ ...credentials(yaml), AUTH_SECRET: "open-sesame", NIGHTSHIFT_BOTS: file, ...env }))
      )
      const configured = Layer.setConfigProvider(provider)
      const config = Layer.provide(GatewayConfig.layer, configured)
      const kinds = new Set(handlers.map(({ kind }) => kind.name))
      const declared = yield* BotsFile.load({ database, kinds }).pipe(
        Effect.provide(config),
        Effect.withConfigProvider(provider)
      )
      const gate = Effect.gen(function* () {
        const { url } = yield* Server.Server
        const metrics = yield* Metrics
        const post = (path: string, asked: Asked) => Effect.promise(() => ask(`${url}/hooks/${path}`, "POST", asked))
        return {
          port: Number(new URL(url).port),
          post,
          update: (slug: string, update: unknown, headers: Readonly<Record<string, string>> = {}) =>
            post(`telegram/${slug}`, {
              json: update,
              headers: { "x-telegram-bot-api-secret-token": secretOf(slug), ...headers }
            }),
          counts: Effect.map(metrics.render, (text) =>
            Object.fromEntries(
              [...text.matchAll(/webhook_requests_total\{bot="([^"]*)",outcome="(\w+)"\} (\d+)/g)].map(
                ([, bot, outcome, count]) => [`${bot} ${outcome}`, Number(count)]
              )
            )
          ),
          bots: yield* Bots.Bots,
          file
        }
      })
      return Layer.effect(WebhookServer, gate).pipe(
        Layer.provide(Server.layer),
        Layer.provide([
          WebhookEndpoint.layer,
          ApiApp.layerWithoutDatabase,
          UploadsApp.layerWithoutDatabase,
          UiApp.layerNone
        ]),
        Layer.provide(database ? WebhookIntake.layer : WebhookIntake.layerWithoutDatabase),
        Layer.provideMerge(Bots.layer({ declared, database, handlers })),
        Layer.provideMerge(Deliveries.layer),
        Layer.provideMerge(Layer.mergeAll(Telegram.layer, SafeFetch.layer)),
        Layer.provideMerge(Layer.mergeAll(AuthSessionsMemory.layer, stores, Transactions.layerMemory, config)),
        Layer.provide([Readiness.layerWithoutDatabase, EventLoop.layer, serverConfig]),
        Layer.provideMerge(Metrics.layer),
        Layer.provide(Lifecycle.layer),
        Layer.provide(configured)
      )
    })
  )
