import { Config, type ConfigError, Effect, Either, Option, Predicate, Schema } from "effect"
import { Expected } from "../../core/ExpectedError.js"
import * as BotFields from "./BotFields.js"
import { type Declarations, none } from "./Declarations.js"
import {
  type FileContext,
  type FileFields,
  FileProblems,
  shown,
  variableOfPush,
  variableOfSource,
  variablesOfBot
} from "./FileFields.js"
import * as FileText from "./FileText.js"
import { GatewayConfig } from "./GatewayConfig.js"
import * as PushFields from "./PushFields.js"
import * as SourceFields from "./SourceFields.js"

/** The file is invalid. Lists all its problems. */
export class BotsFileInvalid extends Expected<BotsFileInvalid>(400, { exit: 2 })("BotsFileInvalid", {
  file: Schema.String,
  problems: Schema.Array(Schema.String)
}) {
  override get message(): string {
    const count = this.problems.length === 1 ? "one problem" : `${this.problems.length} problems`
    return `${this.file} has ${count}:${this.problems.map((problem) => `\n  ${problem}`).join("")}`
  }
}

/** The caller's part of the context in which the file is validated. */
export type ValidationContext = Pick<FileContext, "database" | "kinds">

const usualFile = "bots.yaml"

const readText = (path: string): Effect.Effect<Option.Option<string>, BotsFileInvalid> =>
  Effect.mapError(FileText.read(path), (problem) => new BotsFileInvalid({ file: path, problems: [problem] }))

type Named = ReadonlyArray<readonly [name: string, value: unknown]>

const namedIn = (whole: FileFields, section: string): Named => {
  const value = whole.raw(section)
  if (value === undefined) return []
  if (Predicate.isRecord(value) && !Array.isArray(value)) return Object.entries(value)
  whole.problems.add(section, `expected an object with one entry per name, got ${shown(value)}`)
  return []
}

const variableNames = (bots: Named, sources: Named, push: Named): ReadonlyArray<string> => [
  ...bots.flatMap(([slug]) => Object.values(variablesOfBot(slug))),
  ...sources.map(([name]) => variableOfSource(name)),
  ...push.map(([kind]) => variableOfPush(kind))
]

const lookUp = (names: ReadonlyArray<string>): Effect.Effect<ReadonlyMap<string, string>, ConfigError.ConfigError> =>
  Effect.map(
    Effect.forEach(names, (name) =>
      Effect.map(
        Config.option(Config.string(name)),
        (value) => [name, Option.getOrElse(value, () => "").trim()] as const
      )
    ),
    (pairs) => new Map(pairs.filter(([, value]) => value !== ""))
  )

/** Rejects two names that map to the same variable, because they would share a secret. */
const noteSharedVariables = (names: ReadonlyArray<string>, problems: FileProblems) => {
  const shared = new Set(names.filter((name, index) => names.indexOf(name) !== index))
  for (const name of shared)
    problems.add("bots", `two names map to the environment variable ${name}: rename one of them`)
}

/** Parses and validates a file's text. Fails with all problems at once. */
export const declarationsIn = (
  file: string,
  text: string,
  context: ValidationContext & Pick<FileContext, "authSecret">
): Effect.Effect<Declarations, BotsFileInvalid | ConfigError.ConfigError> =>
  Effect.gen(function* () {
    // The parser is large, and most processes have no file to parse.
    const { parse } = yield* Effect.promise(() => import("./YamlText.js"))
    const parsed = parse(text)
    if (Either.isLeft(parsed)) return yield* new BotsFileInvalid({ file, problems: parsed.left })
    const problems = new FileProblems()
    const whole = problems.fields(parsed.right ?? {}, "", ["bots", "sources", "push"])
    const bots = namedIn(whole, "bots")
    const sources = namedIn(whole, "sources")
    const push = namedIn(whole, "push")
    const names = variableNames(bots, sources, push)
    noteSharedVariables(names, problems)
    const facts = { ...context, variables: yield* lookUp(names) }
    const declared = {
      bots: bots.map(([slug, value]) => BotFields.read(slug, value, problems, facts)),
      sources: sources.map(([name, value]) => SourceFields.read(name, value, problems, facts)),
      push: push.map(([kind, value]) => PushFields.read(kind, value, problems, facts))
    }
    return problems.list.length === 0 ? declared : yield* new BotsFileInvalid({ file, problems: problems.list })
  })

/** Path of the file that this process reads. */
export const fileOf = ({ file }: typeof GatewayConfig.Service): string => Option.getOrElse(file, () => usualFile)

/** Loads the file named by NIGHTSHIFT_BOTS, or `bots.yaml` if it exists, with the secrets from the environment. */
export const load = Effect.fn("BotsFile.load")(function* (
  context: ValidationContext
): Effect.fn.Return<Declarations, BotsFileInvalid | ConfigError.ConfigError, GatewayConfig> {
  const config = yield* GatewayConfig
  const file = fileOf(config)
  const text = yield* readText(file)
  if (Option.isSome(text)) {
    return yield* declarationsIn(file, text.value, { ...context, authSecret: Option.isSome(config.authSecret) })
  }
  if (Option.isNone(config.file)) return none
  return yield* new BotsFileInvalid({ file, problems: ["the file named by NIGHTSHIFT_BOTS does not exist"] })
})
