import { Data, Effect, Layer, Option, type Redacted, Schema } from "effect"
import { DatabaseConfig } from "../database/DatabaseConfig.js"
import { DatabaseUrl } from "../database/DatabaseUrl.js"
import * as EmbeddedPostgres from "../database/embedded/EmbeddedPostgres.js"

/** Which PostgreSQL a command works on. */
export type DatabaseChoice = Data.TaggedEnum<{
  Served: { readonly url: Redacted.Redacted }
  Embedded: { readonly directory: string }
  None: {}
}>
export const DatabaseChoice = Data.taggedEnum<DatabaseChoice>()

export type ChosenDatabase = Exclude<DatabaseChoice, { readonly _tag: "None" }>

/** The command needs a database and nothing says which. */
export class NoDatabase extends Schema.TaggedError<NoDatabase>()("NoDatabase", { directory: Schema.String }) {
  override get message(): string {
    return `There is no database to work on: DATABASE_URL is not set and no embedded PostgreSQL runs in ${this.directory}. Set DATABASE_URL, or add --embedded.`
  }
}

/** What the configuration asks for. */
export const fromConfig: Effect.Effect<DatabaseChoice, never, DatabaseConfig> = Effect.gen(function* () {
  const { directory, embedded, url } = yield* DatabaseConfig
  if (!embedded)
    return Option.match(url, { onNone: DatabaseChoice.None, onSome: (url) => DatabaseChoice.Served({ url }) })
  if (Option.isSome(url)) yield* Effect.logWarning("--embedded is given, so DATABASE_URL is not used")
  return DatabaseChoice.Embedded({ directory })
})

/** For commands beside a running process: its embedded server if there is one, else what the configuration asks for. */
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
    if (choice._tag === "None") return yield* new NoDatabase({ directory })
    return Layer.provide(DatabaseUrl.layerEmbedded, EmbeddedPostgres.layerDurable(directory))
  })
)
