import { Config, Effect, Either, Option, Redacted, Schema } from "effect"
import type { ConfigError } from "effect/ConfigError"
import { Expected } from "../core/ExpectedError.js"
import * as Setting from "../core/Setting.js"
import { suggestion } from "../core/Spelling.js"
import * as FileText from "../gateway/config/FileText.js"
import type { Cell, Fleet } from "./Fleet.js"
import * as FleetFile from "./FleetFile.js"

const tokenPattern = /^([\w.~+/=-]{24,})(:admin)?$/

export const settings = {
  fleet: Setting.secret({
    key: "NIGHTSHIFT_FLEET",
    about:
      "File with the [cells of a fleet](scale.md#a-fleet-of-cells) and their queues, or its text. Default: `fleet.yaml`, if it exists."
  }),
  cell: Setting.optionalText({
    key: "NIGHTSHIFT_CELL",
    about: "Cell of the fleet that this process serves or a command uses. Same as `--cell`."
  }),
  token: Setting.secret(
    {
      key: "NIGHTSHIFT_FLEET_TOKEN",
      about:
        "Secret of at least 24 characters that the services of all cells share: Mission Control of each [shows the others](scale.md#mission-control-over-cells). `<token>:admin` also lets admins act on other cells."
    },
    (text) =>
      tokenPattern.test(text)
        ? Either.right(text)
        : Either.left("a token of at least 24 characters, such as `<token>` or `<token>:admin`")
  )
}

/** What the service of a cell sends to those of other cells, and expects from them. */
export interface FleetToken {
  readonly secret: Redacted.Redacted
  /** Whether admins of one cell may act on another. */
  readonly mayAct: boolean
}

const tokenOf = (text: Redacted.Redacted): FleetToken => {
  const [, secret = "", role] = tokenPattern.exec(Redacted.value(text)) ?? []
  return { secret: Redacted.make(secret), mayAct: role !== undefined }
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

/** What looks like YAML is the text itself. An error that named it as a file would print its passwords. */
const isText = (value: string) => value.includes("\n") || /^\s*(\{|\w+\s*:\s)/.test(value)

/** Validates a declaration, with the environment variables that it names. */
export const parse = (
  source: string,
  declaration: unknown,
  options?: FleetFile.ReadOptions
): Effect.Effect<Fleet, FleetInvalid | ConfigError> =>
  Effect.gen(function* () {
    const variables = new Map<string, string>()
    for (const name of FleetFile.variablesIn(JSON.stringify(declaration) ?? "")) {
      const value = yield* Config.option(Config.string(name))
      if (Option.isSome(value)) variables.set(name, value.value)
    }
    return yield* Either.mapLeft(
      FleetFile.read(declaration, variables, options),
      (problems) => new FleetInvalid({ source, problems })
    )
  })

const parseText = (source: string, text: string, options?: FleetFile.ReadOptions) =>
  Effect.gen(function* () {
    const yaml = yield* Effect.promise(() => import("../gateway/config/YamlText.js"))
    const parsed = yaml.parse(text)
    if (Either.isLeft(parsed)) return yield* new FleetInvalid({ source, problems: parsed.left })
    return yield* parse(source, parsed.right, options)
  })

/** Loads a fleet from a file. Undefined if the file does not exist. */
const fromFile = (
  path: string,
  options?: FleetFile.ReadOptions
): Effect.Effect<Fleet | undefined, FleetInvalid | ConfigError> =>
  FileText.read(path).pipe(
    Effect.mapError((problem) => new FleetInvalid({ source: path, problems: [problem] })),
    Effect.flatMap((text) => (Option.isNone(text) ? Effect.succeed(undefined) : parseText(path, text.value, options)))
  )

/** Loads a fleet from a file that must exist. */
export const existing = (
  path: string,
  missing = "the file does not exist",
  options?: FleetFile.ReadOptions
): Effect.Effect<Fleet, FleetInvalid | ConfigError> =>
  Effect.flatMap(fromFile(path, options), (fleet) =>
    fleet === undefined ? new FleetInvalid({ source: path, problems: [missing] }) : Effect.succeed(fleet)
  )

/** Loads the fleet of NIGHTSHIFT_FLEET, or of `fleet.yaml` if that exists. */
const load = (options?: FleetFile.ReadOptions): Effect.Effect<Fleet | undefined, FleetInvalid | ConfigError> =>
  Effect.gen(function* () {
    const given = Option.map(yield* settings.fleet.config, Redacted.value)
    if (Option.isNone(given)) return yield* fromFile(usualFile, options)
    return yield* isText(given.value)
      ? parseText("NIGHTSHIFT_FLEET", given.value, options)
      : existing(given.value, "the file named by NIGHTSHIFT_FLEET does not exist", options)
  })

const loadRequired = (options?: FleetFile.ReadOptions): Effect.Effect<Fleet, FleetInvalid | ConfigError> =>
  Effect.flatMap(load(options), (fleet) =>
    fleet === undefined
      ? new FleetInvalid({
          source: usualFile,
          problems: ["the file does not exist: create it, or set NIGHTSHIFT_FLEET to another file or to its text"]
        })
      : Effect.succeed(fleet)
  )

/** The file of the list. Undefined if NIGHTSHIFT_FLEET has its text. */
export const file: Effect.Effect<string | undefined, ConfigError> = Effect.map(settings.fleet.config, (given) => {
  const value = Option.getOrElse(Option.map(given, Redacted.value), () => usualFile)
  return isText(value) ? undefined : value
})

/** Loads a fleet that must exist. */
export const required = loadRequired()

/** The same for development: cells without a `database` have an empty URL. */
export const forDevelopment = loadRequired({ databases: false })

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

/** The cell that a service serves, among the others of its fleet. */
export interface Membership {
  readonly fleet: Fleet
  readonly cell: Cell
  readonly token: FleetToken | undefined
}

/** Reads the membership of this process. Undefined if it serves no cell. */
export const membership: Effect.Effect<Membership | undefined, FleetInvalid | UnknownCell | ConfigError> = Effect.gen(
  function* () {
    const name = yield* settings.cell.config
    if (Option.isNone(name)) return undefined
    const fleet = yield* required
    const token = Option.getOrUndefined(Option.map(yield* settings.token.config, tokenOf))
    return { fleet, cell: yield* cellOf(fleet, name.value), token }
  }
)
