import type * as HttpApp from "@effect/platform/HttpApp"
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { toIncomingMessage, toServerResponse } from "@effect/platform-node/NodeHttpServerRequest"
import { Cause, Context, Duration, Effect, Layer, Schema } from "effect"
import { Tokens } from "../../access/Tokens.js"
import { UploadId } from "../../core/Ids.js"
import type { Kinds } from "../../queue/Kinds.js"
import type { Queue } from "../../queue/Queue.js"
import type { Transactions } from "../../queue/Transactions.js"
import { Storage } from "../../uploads/Storage.js"
import { UploadNotFound } from "../../uploads/UploadErrors.js"
import { UploadsConfig } from "../../uploads/UploadsConfig.js"
import { Attempts } from "../access/Attempts.js"
import * as Auth from "../access/Auth.js"
import * as WorkspaceAuth from "../access/WorkspaceAuth.js"
import * as Problem from "../Problem.js"
import { DatabaseOff } from "../RequestErrors.js"
import { ServerConfig } from "../ServerConfig.js"
import * as UploadContent from "./UploadContent.js"
import * as UploadIntake from "./UploadIntake.js"
import { of, ofNew } from "./UploadsRoutes.js"

export const prefix = "/uploads/"

/** Everything under `/uploads`. Workspaces authenticate with their own tokens. */
export class UploadsApp extends Context.Tag("nightshift/http/UploadsApp")<
  UploadsApp,
  {
    readonly app: HttpApp.Default
    /** Timeout of an upload request. */
    readonly timeout: Duration.Duration
  }
>() {
  static readonly layer: Layer.Layer<
    UploadsApp,
    never,
    ServerConfig | Storage | UploadsConfig | Tokens | Transactions | Queue | Kinds
  > = Layer.suspend(() => withDatabase)

  /** For a process started without a database: every request fails with `DatabaseOff`. */
  static readonly layerWithoutDatabase: Layer.Layer<UploadsApp, never, ServerConfig> = Layer.effect(
    UploadsApp,
    Effect.map(ServerConfig, (config) => ({
      app: Effect.catchAll(Effect.zipRight(Auth.checkHost(config), new DatabaseOff()), Problem.toResponse),
      timeout: Duration.zero
    }))
  )
}

const readId = Schema.decodeUnknownOption(UploadId)

/** A malformed id fails with `UploadNotFound`. */
const idOf = Effect.flatMap(HttpRouter.params, ({ id = "" }) =>
  Effect.mapError(readId(id.toLowerCase()), () => new UploadNotFound({ id: "" }))
)

const routes = Effect.gen(function* () {
  const storage = yield* Storage
  const receive = yield* UploadIntake.make

  const upload = Effect.gen(function* () {
    const bearer = yield* WorkspaceAuth.check
    const request = yield* HttpServerRequest.HttpServerRequest
    const files = (yield* receive(toIncomingMessage(request), toServerResponse(request), bearer)).map(ofNew)
    return HttpServerResponse.unsafeJson({ files }, { status: 201 })
  })

  const list = Effect.gen(function* () {
    const { workspace } = yield* WorkspaceAuth.check
    const files = (yield* storage.list(workspace)).map(of)
    return HttpServerResponse.unsafeJson({ files })
  })

  const content = Effect.gen(function* () {
    const { workspace } = yield* WorkspaceAuth.check
    const id = yield* idOf
    const stored = yield* storage.get(workspace, id)
    // Recording the fetch is best effort.
    return yield* UploadContent.respond(stored, Effect.ignore(storage.markFetched(workspace, id)))
  })

  const ack = Effect.gen(function* () {
    const { workspace } = yield* WorkspaceAuth.check
    const id = yield* idOf
    const raced = yield* storage.ack(workspace, id).pipe(
      Effect.as({}),
      // The sweeper has deleted the file, which is also the goal of the acknowledgement. An id that never existed gets the
      // same answer, because no record of deleted files is kept.
      Effect.catchTag("UploadNotFound", () => Effect.succeed({ raced: true }))
    )
    return HttpServerResponse.unsafeJson({ acked: true, ...raced })
  })

  return HttpRouter.empty.pipe(
    HttpRouter.post("/uploads/:workspace", upload),
    HttpRouter.get("/uploads/:workspace", list),
    HttpRouter.get("/uploads/:workspace/:id/content", content),
    HttpRouter.route("HEAD")("/uploads/:workspace/:id/content", content),
    HttpRouter.post("/uploads/:workspace/:id/ack", ack)
  )
})

const withDatabase = Layer.effect(
  UploadsApp,
  Effect.gen(function* () {
    const config = yield* ServerConfig
    const { timeout } = yield* UploadsConfig
    const tokens = yield* Tokens
    const attempts = yield* Attempts
    const router = yield* routes
    const served = Auth.checkHost(config).pipe(
      Effect.zipRight(Effect.catchTag(router, "RouteNotFound", (error) => Problem.causeToResponse(Cause.fail(error)))),
      Effect.provideService(Tokens, tokens),
      Effect.provideService(Attempts, attempts)
    )
    return { app: Effect.catchAll(served, Problem.toResponse), timeout: timeout }
  })
).pipe(Layer.provide(Attempts.layer))
