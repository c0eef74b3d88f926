import * as Options from "@effect/cli/Options"
import { Option } from "effect"

/** Options of every command that connects to the database. */
export const database = {
  embedded: Options.boolean("embedded").pipe(
    Options.withDescription(
      "Use the embedded PostgreSQL in --directory, starting it if needed. Takes precedence over DATABASE_URL."
    )
  ),
  directory: Options.text("directory").pipe(
    Options.withDescription("Data directory of the embedded PostgreSQL (default .nightshift)."),
    Options.optional
  )
}

export const json = Options.boolean("json").pipe(Options.withDescription("Print JSON."))

/** Maps the database options to their configuration keys. */
export const databaseFlags = (options: {
  readonly embedded: boolean
  readonly directory: Option.Option<string>
}): { readonly NIGHTSHIFT_EMBEDDED: string | undefined; readonly NIGHTSHIFT_DIRECTORY: string | undefined } => ({
  NIGHTSHIFT_EMBEDDED: options.embedded ? "true" : undefined,
  NIGHTSHIFT_DIRECTORY: Option.getOrUndefined(options.directory)
})
