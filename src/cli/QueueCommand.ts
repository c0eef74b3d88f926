import { Effect } from "effect"
import type { Database } from "../database/Database.js"
import * as CommonOptions from "./CommonOptions.js"
import * as Command from "./kit/Command.js"
import * as Input from "./kit/Input.js"
import * as QueueLayer from "./QueueLayer.js"
import * as Settings from "./Settings.js"

interface Common extends CommonOptions.DatabaseGiven {
  readonly json: boolean
}

/** Provides the services of the database that the options name. */
export const onDatabase =
  (given: CommonOptions.DatabaseGiven) =>
  <A, E>(work: Effect.Effect<A, E, QueueLayer.QueueServices | Database>) =>
    work.pipe(Effect.provide(QueueLayer.layerForCommand), Settings.configured(CommonOptions.databaseFlags(given)))

/** A command on the database, with the options for the database and for JSON. */
export const make = <A = {}, O = {}>(
  spec: Omit<Command.Spec<A, O>, "run"> & {
    readonly run: (given: A & O & Common) => Effect.Effect<unknown, unknown, QueueLayer.QueueServices | Database>
  }
): Command.Command =>
  Command.make<A, O & Common>({
    ...spec,
    options: { ...CommonOptions.database, ...spec.options, json: CommonOptions.json } as Input.Inputs<O & Common>,
    run: (given) => onDatabase(given)(spec.run(given))
  })

/** Options of a command that lists one page. */
export const page = (what: string, limits: { readonly max: number; readonly default: number }) => ({
  limit: Input.withDefault<number, number>(
    Input.integer({ min: 1, max: limits.max }),
    limits.default,
    `Maximum number of ${what}, up to ${limits.max} (default ${limits.default}).`
  ),
  cursor: Input.optional(Input.text, "Cursor returned by the previous page.")
})
