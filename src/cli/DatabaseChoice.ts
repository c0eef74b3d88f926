import { access, constants } from "node:fs/promises"
import { resolve } from "node:path"
import { Data, Effect, Layer, Option, type Redacted, Schema, type Scope } from "effect"
import { DatabaseConfig } from "../database/DatabaseConfig.js"
import { DatabaseUrl } from "../database/DatabaseUrl.js"
import * as EmbeddedPostgres from "../database/embedded/EmbeddedPostgres.js"
import { errorCode } from "../database/embedded/EmbeddedPostgresError.js"

/** The PostgreSQL server a command connects to. */
export type DatabaseChoice = Data.TaggedEnum<{
  Served: { readonly url: Redacted.Redacted }
  Embedded: { readonly directory: string }
  None: {}
}>
export const DatabaseChoice = Data.taggedEnum<DatabaseChoice>()

type Embedded = Extract<DatabaseChoice, { readonly _tag: "Embedded" }>

/** The choice, with an embedded server that is starting. */
export type StartedDatabase =
  | Exclude<DatabaseChoice, Embedded>
  | (Embedded & {
      readonly server: Layer.Layer<EmbeddedPostgres.EmbeddedPostgres, EmbeddedPostgres.EmbeddedPostgresError>
    })

/** The command needs a database, but none is configured. */
export class NoDatabase extends Schema.TaggedError<NoDatabase>()("NoDatabase", {
  directory: Schema.String,
  /** This user may not see whether a server runs in the directory. */
  isClosed: Schema.Boolean
}) {
  override get message(): string {
    if (this.isClosed)
      return `No database is configured: DATABASE_URL is not set, and this user may not read ${this.directory}, where an embedded PostgreSQL may run. Run the command as the user of the service, or set DATABASE_URL.`
    return `No database is configured: DATABASE_URL is not set and no embedded PostgreSQL runs in ${this.directory}. Set DATABASE_URL, or add --embedded.`
  }
}

/** Reads the choice from the configuration. `embedded` takes precedence over DATABASE_URL. */
const fromConfig: Effect.Effect<DatabaseChoice, never, DatabaseConfig> = Effect.gen(function* () {
  const { directory, embedded, url } = yield* DatabaseConfig
  if (!embedded)
    return Option.match(url, { onNone: DatabaseChoice.None, onSome: (url) => DatabaseChoice.Served({ url }) })
  if (Option.isSome(url)) yield* Effect.logWarning("ignoring DATABASE_URL because --embedded is set")
  return DatabaseChoice.Embedded({ directory })
})

/** Reads the choice and starts an embedded server in the background. The server stops when the Scope closes. */
export const started: Effect.Effect<StartedDatabase, never, DatabaseConfig | Scope.Scope> = Effect.gen(function* () {
  const choice = yield* fromConfig
  if (choice._tag !== "Embedded") return choice
  return { ...choice, server: yield* EmbeddedPostgres.launchDurable(choice.directory) }
})

const isClosed = (directory: string): Effect.Effect<boolean> =>
  Effect.tryPromise({ try: () => access(resolve(directory), constants.R_OK | constants.X_OK), catch: errorCode }).pipe(
    Effect.as(false),
    Effect.catchAll((code) => Effect.succeed(code === "EACCES"))
  )

/**
 * Prefers the embedded server of a process that is already running in the directory, so that commands can run next to
 * `serve`.
 */
export const layerForCommand: Layer.Layer<
  DatabaseUrl,
  NoDatabase | EmbeddedPostgres.EmbeddedPostgresError,
  DatabaseConfig
> = Layer.unwrapEffect(
  Effect.gen(function* () {
    const { directory } = yield* DatabaseConfig
    const choice = yield* fromConfig
    if (choice._tag === "Served") return DatabaseUrl.layerOf(choice.url)
    const running = yield* EmbeddedPostgres.running(directory)
    if (Option.isSome(running)) return DatabaseUrl.layerOf(running.value)
    if (choice._tag === "None") return yield* new NoDatabase({ directory, isClosed: yield* isClosed(directory) })
    return Layer.provide(DatabaseUrl.layerEmbedded, EmbeddedPostgres.layerDurable(directory))
  })
)
