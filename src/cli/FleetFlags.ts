import { Effect, Option, Redacted } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as CellTag from "../core/CellTag.js"
import type { Cell } from "../fleet/Fleet.js"
import * as FleetConfig from "../fleet/FleetConfig.js"
import * as Environment from "./Environment.js"
import { UsageError } from "./Failure.js"

/** Why the cell of a command cannot be used. */
export type FleetError = ConfigError | FleetConfig.FleetInvalid | FleetConfig.UnknownCell | UsageError

/** The settings that a cell replaces. */
const settingsOf = (cell: Cell): Environment.Texts => ({
  NIGHTSHIFT_CELL: cell.name,
  NIGHTSHIFT_EMBEDDED: "false",
  DATABASE_URL: Redacted.value(cell.database),
  DATABASE_SCHEMA: cell.schema,
  DATABASE_LISTEN_URL: cell.listen === undefined ? "" : Redacted.value(cell.listen),
  DATABASE_READ_URL: cell.read === undefined ? "" : Redacted.value(cell.read)
})

/** Runs a command with the settings of its cell, if one was chosen. Nothing else of a command knows about cells. */
export const inCell = <A, E, R>(
  flags: Environment.Texts,
  run: (flags: Environment.Texts) => Effect.Effect<A, E, R>
): Effect.Effect<A, E | FleetError, R> =>
  Effect.gen(function* () {
    const { lookUp, provider } = Environment.make(flags)
    const name = yield* Effect.withConfigProvider(FleetConfig.settings.cell.config, provider)
    if (Option.isNone(name)) return yield* run(flags)
    if (lookUp("NIGHTSHIFT_EMBEDDED")?.source === "flag")
      return yield* new UsageError({ message: "Use --cell or --embedded, not both: a cell has its own database." })
    const fleet = yield* Effect.withConfigProvider(FleetConfig.required, provider)
    const cell = yield* FleetConfig.cellOf(fleet, name.value)
    return yield* Effect.locally(run({ ...flags, ...settingsOf(cell) }), CellTag.current, cell)
  })
