import * as Input from "./kit/Input.js"

/** Options of every command that connects to the database. */
export const database = {
  embedded: Input.flag(
    "Use the embedded PostgreSQL in --directory, starting it if needed. Takes precedence over DATABASE_URL."
  ),
  directory: Input.optional(Input.folder, "Data directory of the embedded PostgreSQL (default .nightshift)."),
  cell: Input.optional(Input.text, "Cell of the fleet to use, from fleet.yaml or NIGHTSHIFT_FLEET.")
}

export const json = Input.flag("Print JSON.")

export const port = Input.optional(Input.integer(), "Port to listen on (default 8787); 0 picks a free one.")

export interface DatabaseGiven {
  readonly embedded: boolean
  readonly directory: string | undefined
  readonly cell: string | undefined
}

/** Maps the database options to their configuration keys. */
export const databaseFlags = ({ cell, directory, embedded }: DatabaseGiven) => ({
  NIGHTSHIFT_EMBEDDED: embedded ? "true" : undefined,
  NIGHTSHIFT_DIRECTORY: directory,
  NIGHTSHIFT_CELL: cell
})
