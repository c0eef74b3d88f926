import { Config, Effect, Either, Option, Redacted, Schema } from "effect"
import type { ConfigError } from "effect/ConfigError"
import { Expected } from "../core/ExpectedError.js"
import * as Setting from "../core/Setting.js"
import { suggestion } from "../core/Spelling.js"
import * as FileText from "../gateway/config/FileText.js"
import type { Cell, Fleet } from "./Fleet.js"
import * as FleetFile from "./FleetFile.js"

export const settings = {
  fleet: Setting.secret({
    key: "NIGHTSHIFT_FLEET",
    about:
      "File with the [cells of a fleet](scale.md#a-fleet-of-cells) and their queues, or its text. Default: `fleet.yaml`, if it exists."
  }),
  cell: Setting.optionalText({
    key: "NIGHTSHIFT_CELL",
    about: "Cell of the fleet that this process serves or a command uses. Same as `--cell`."
  })
}

/** The declaration of a fleet is invalid. Lists all its problems. */
export class FleetInvalid extends Expected<FleetInvalid>(400, { exit: 2 })("FleetInvalid", {
  /** The file, or what else declares the fleet. */
  source: Schema.String,
  /** What is wrong, each with the path of the field. */
  problems: Schema.Array(Schema.String)
}) {
  override get message(): string {
    const count = this.problems.length === 1 ? "one problem" : `${this.problems.length} problems`
    return `${this.source} has ${count}:${this.problems.map((problem) => `\n  ${problem}`).join("")}`
  }
}

const usualFile = "fleet.yaml"

/** Several lines or an object are the text itself. */
const isText = (value: string) => value.includes("\n") || value.startsWith("{")

/** Validates a declaration, with the environment variables that it names. */
export const parse = (source: string, declaration: unknown): Effect.Effect<Fleet, FleetInvalid | ConfigError> =>
  Effect.gen(function* () {
    const variables = new Map<string, string>()
    for (const name of FleetFile.variablesIn(JSON.stringify(declaration) ?? "")) {
      const value = yield* Config.option(Config.string(name))
      if (Option.isSome(value)) variables.set(name, value.value)
    }
    return yield* Either.mapLeft(
      FleetFile.read(declaration, variables),
      (problems) => new FleetInvalid({ source, problems })
    )
  })

const parseText = (source: string, text: string) =>
  Effect.gen(function* () {
    const yaml = yield* Effect.promise(() => import("../gateway/config/YamlText.js"))
    const parsed = yaml.parse(text)
    if (Either.isLeft(parsed)) return yield* new FleetInvalid({ source, problems: parsed.left })
    return yield* parse(source, parsed.right)
  })

/** Loads a fleet from a file. Undefined if the file does not exist. */
const fromFile = (path: string): Effect.Effect<Fleet | undefined, FleetInvalid | ConfigError> =>
  FileText.read(path).pipe(
    Effect.mapError((problem) => new FleetInvalid({ source: path, problems: [problem] })),
    Effect.flatMap((text) => (Option.isNone(text) ? Effect.succeed(undefined) : parseText(path, text.value)))
  )

/** Loads a fleet from a file that must exist. */
export const existing = (
  path: string,
  missing = "the file does not exist"
): Effect.Effect<Fleet, FleetInvalid | ConfigError> =>
  Effect.flatMap(fromFile(path), (fleet) =>
    fleet === undefined ? new FleetInvalid({ source: path, problems: [missing] }) : Effect.succeed(fleet)
  )

/** Loads the fleet of NIGHTSHIFT_FLEET, or of `fleet.yaml` if that exists. */
export const load: Effect.Effect<Fleet | undefined, FleetInvalid | ConfigError> = Effect.gen(function* () {
  const given = Option.map(yield* settings.fleet.config, Redacted.value)
  if (Option.isNone(given)) return yield* fromFile(usualFile)
  return yield* isText(given.value)
    ? parseText("NIGHTSHIFT_FLEET", given.value)
    : existing(given.value, "the file named by NIGHTSHIFT_FLEET does not exist")
})

/** The file of the list. Undefined if NIGHTSHIFT_FLEET has its text. */
export const file: Effect.Effect<string | undefined, ConfigError> = Effect.map(settings.fleet.config, (given) => {
  const value = Option.getOrElse(Option.map(given, Redacted.value), () => usualFile)
  return isText(value) ? undefined : value
})

/** Loads a fleet that must exist. */
export const required: Effect.Effect<Fleet, FleetInvalid | ConfigError> = Effect.flatMap(load, (fleet) =>
  fleet === undefined
    ? new FleetInvalid({
        source: usualFile,
        problems: ["the file does not exist: create it, or set NIGHTSHIFT_FLEET to another file or to its text"]
      })
    : Effect.succeed(fleet)
)

/** The fleet has no cell of this name. */
export class UnknownCell extends Expected<UnknownCell>(400, { exit: 2 })("UnknownCell", {
  cell: Schema.String,
  known: Schema.Array(Schema.String)
}) {
  override get message(): string {
    const near = suggestion(this.cell, this.known) || ` Cells: ${this.known.join(", ")}.`
    return `The fleet has no cell ${JSON.stringify(this.cell)}.${near}`
  }
}

/** The cell with this name. */
export const cellOf = (fleet: Fleet, name: string): Either.Either<Cell, UnknownCell> =>
  Either.fromNullable(fleet.cells.get(name), () => new UnknownCell({ cell: name, known: [...fleet.cells.keys()] }))
