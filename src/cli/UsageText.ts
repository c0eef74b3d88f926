import { stripVTControlCharacters } from "node:util"
import * as CliConfig from "@effect/cli/CliConfig"
import * as CommandDescriptor from "@effect/cli/CommandDescriptor"
import * as HelpDoc from "@effect/cli/HelpDoc"
import type { ValidationError } from "@effect/cli/ValidationError"
import { suggestion } from "../core/Spelling.js"
import * as Examples from "./Examples.js"
import * as Help from "./Help.js"

// Rewords the messages of @effect/cli, most of which name neither the option nor what to do.

/** What the named command accepts, read from the help text. */
interface Accepted {
  /** The command's path without its arguments, as in `jobs show`. */
  readonly path: ReadonlyArray<string>
  readonly subcommands: ReadonlyArray<string>
  /** Options, each with the type or choices of its value. */
  readonly options: ReadonlyMap<string, string>
}

const textOf = (doc: HelpDoc.HelpDoc) => stripVTControlCharacters(HelpDoc.toAnsiText(doc))

const acceptedBy = (root: CommandDescriptor.Command<unknown>, words: ReadonlyArray<string>): Accepted => {
  const entries = Help.entriesIn(textOf(CommandDescriptor.getHelp(root, CliConfig.defaultConfig)))
  const startsWith = (path: ReadonlyArray<string>) =>
    entries.filter(({ name }) => `${name} `.startsWith(`${path.join(" ")} `))
  let path: ReadonlyArray<string> = []
  for (const word of words) {
    if (startsWith([...path, word]).length === 0) break
    path = [...path, word]
  }
  const below = path.length === 0 ? entries : startsWith(path)
  const names = below.flatMap(({ name }) => name.split(" ").slice(path.length, path.length + 1))
  const { usage = "" } = below.find(({ name }) => name === path.join(" ")) ?? {}
  return {
    path,
    subcommands: [...new Set(names)],
    options: new Map(
      [...usage.matchAll(/(--[a-z][a-z-]*)((?:(?!--)[^[\]()<])*)/g)].map(([, name = "", type = ""]) => [name, type])
    )
  }
}

const seeHelp = ({ path }: Accepted) => `See \`${["nightshift", ...path, "--help"].join(" ")}\`.`

const builtIns = ["--help", "--version", "--completions", "--log-level", "--wizard"]
const quoted = JSON.stringify

const unknownCommand = ({ path, subcommands }: Accepted, words: ReadonlyArray<string>) => {
  const given = words[path.length]
  if (given === undefined) return `Choose a command: ${subcommands.join(", ")}.`
  const next = suggestion(given, subcommands) || ` Commands: ${subcommands.join(", ")}.`
  return `There is no command ${quoted([...path, given].join(" "))}.${next}`
}

/** Describes the command that does not exist, if one is given. The parser would print the help of its parent. */
export const unknownOf = (
  root: CommandDescriptor.Command<unknown>,
  argv: ReadonlyArray<string>
): string | undefined => {
  const words = Examples.wordsOf(argv)
  const accepted = acceptedBy(root, words)
  if (accepted.subcommands.length === 0 || words[accepted.path.length] === undefined) return undefined
  return `${unknownCommand(accepted, words)} ${seeHelp(accepted)}`
}

const unknownOption = ({ options }: Accepted, given: string) => {
  return `There is no option ${given}.${suggestion(given, options.keys())}`
}

interface Given {
  readonly name: string
  readonly value: string | undefined
}

const givenOptions = (argv: ReadonlyArray<string>): ReadonlyArray<Given> =>
  argv.flatMap((word, index) => {
    const [, name, value = argv[index + 1]] = /^(--[a-z][^=]*)(?:=(.*))?$/s.exec(word) ?? []
    return name === undefined ? [] : [{ name, value }]
  })

const unexpected = (word: string, given: ReadonlyArray<Given>) => {
  if (!word.startsWith("--")) return `Unexpected argument ${quoted(word)}.`
  return given.filter(({ name }) => name === word).length > 1
    ? `The option ${word} can be given only once.`
    : `The option ${word} needs a value.`
}

const wrongChoice = ({ options }: Accepted, given: ReadonlyArray<Given>, text: string) => {
  // If several options are wrong, the first is described.
  const [listed = ""] = text.split(/\s+Expected one of the following cases: /)
  const choices = listed.split(", ")
  const wrong = given.find(
    ({ name, value = "" }) => options.get(name)?.includes(choices.join(" | ")) === true && !choices.includes(value)
  )
  return wrong === undefined
    ? `The value must be one of ${listed}.`
    : `${wrong.name} must be one of ${listed}, got ${quoted(wrong.value)}.`
}

const wrongNumber = (given: ReadonlyArray<Given>, text: string, type: string) => {
  const name = given.find(({ value }) => value === text)?.name ?? "The argument"
  return `${name} must be ${type === "integer" ? "a whole number" : "a number"}, got ${quoted(text)}.`
}

type Rewording = (accepted: Accepted, argv: ReadonlyArray<string>, ...found: Array<string>) => string

const rewordings: ReadonlyArray<readonly [RegExp, Rewording]> = [
  [/^Invalid subcommand for /, (accepted, argv) => unknownCommand(accepted, Examples.wordsOf(argv))],
  [/^Received unknown argument: '(.*)'$/s, (_, argv, word = "") => unexpected(word, givenOptions(argv))],
  [/^The flag '(.*)' is not recognized\./s, (accepted, _, given = "") => unknownOption(accepted, given)],
  [
    /^'(.*)' is not a (integer|float)$/s,
    (_, argv, text = "", type = "") => wrongNumber(givenOptions(argv), text, type)
  ],
  [
    /^Expected one of the following cases: (.*)$/s,
    (accepted, argv, listed = "") => wrongChoice(accepted, givenOptions(argv), listed)
  ],
  [/^Expected to find option: '(.*)'$/, (_, _argv, name) => `The option ${name} is required.`],
  [/^Expected a value following option: '(.*)'$/, (_, _argv, name) => `The option ${name} needs a value.`],
  [/^Missing argument (<.*>)$/, (_, _argv, name) => `The argument ${name} is required.`]
]

/** Describes an invalid command line in one line. */
export const describe = (
  error: ValidationError,
  root: CommandDescriptor.Command<unknown>,
  argv: ReadonlyArray<string>
): string => {
  const accepted = acceptedBy(root, Examples.wordsOf(argv))
  const see = seeHelp(accepted)
  // The parser takes an unknown option for an argument.
  const unknown = givenOptions(argv).find(({ name }) => !accepted.options.has(name) && !builtIns.includes(name))
  if (unknown !== undefined && accepted.subcommands.length === 0) {
    return `${unknownOption(accepted, unknown.name)} ${see}`
  }
  const text = textOf(error.error).trim().replace(/\s+/g, " ")
  for (const [pattern, reword] of rewordings) {
    const found = pattern.exec(text)
    if (found !== null) return `${reword(accepted, argv, ...found.slice(1))} ${see}`
  }
  return text
}
