import * as Package from "../../database/Package.js"
import { type Command, optionName } from "./Command.js"
import type { Input } from "./Input.js"
import * as Screen from "./Screen.js"

/** A command below another one, with the words that lead to it. */
export interface Placed {
  readonly path: ReadonlyArray<string>
  readonly command: Command
}

/** The command and everything below it, in the order of the table. */
export const placed = (command: Command, path: ReadonlyArray<string> = []): ReadonlyArray<Placed> => [
  { path, command },
  ...Object.entries(command.commands).flatMap(([name, below]) => placed(below, [...path, name]))
]

const isLeaf = ({ command }: Placed) => Object.keys(command.commands).length === 0

/** An option with the type of its value. */
const withType = (name: string, { isRepeated, value }: Input<unknown>) =>
  value === undefined ? name : `${name} ${value.shown}${isRepeated ? "..." : ""}`

const argument = (name: string, { isRepeated, isRequired }: Input<unknown>) => {
  const shown = `<${name}>${isRepeated ? "..." : ""}`
  return isRequired ? shown : `[${shown}]`
}

/** The arguments and required options; the others are listed below. */
const usage = ({ args, commands, options }: Command, path: ReadonlyArray<string>) => {
  const required = Object.entries(options).filter(([, { isRequired }]) => isRequired)
  return [
    "$ nightshift",
    ...path,
    ...(Object.keys(commands).length === 0 ? [] : ["<command>"]),
    ...Object.entries(args).map(([name, input]) => argument(name, input)),
    ...required.map(([key, input]) => withType(`--${optionName(key)}`, input)),
    "[options]"
  ].join(" ")
}

/** Two columns, indented. */
const columns = (rows: ReadonlyArray<readonly [string, string]>) => {
  const width = Math.max(...rows.map(([left]) => left.length))
  return rows.map(([left, right]) => `  ${left.padEnd(width)}   ${right}`)
}

const allExamples = (command: Command) => placed(command).flatMap(({ command }) => Object.entries(command.examples))

/** The examples of a command and of all below it. The help of the whole CLI has the first one of each command. */
const examplesOf = (command: Command, path: ReadonlyArray<string>) =>
  path.length > 0
    ? allExamples(command)
    : Object.values(command.commands).flatMap((each) => allExamples(each).slice(0, 1))

const optionLines = ([key, input]: readonly [string, Input<unknown>]) => [
  withType(`--${optionName(key)}`, input),
  `  ${input.about}${input.isRepeated ? " Can be repeated." : ""}`,
  ""
]

/** The help text of a command. Headings are bold on a screen with colours. */
export const help = (command: Command, path: ReadonlyArray<string>, screen: Screen.Screen): string => {
  const section = (title: string, lines: ReadonlyArray<string>) =>
    lines.length === 0 ? [] : [Screen.styled(screen, "bold", title), "", ...lines, ""]
  const leaves = placed(command).filter((each) => each.command !== command && isLeaf(each))
  return [
    `nightshift ${Package.version.text}: durable jobs on PostgreSQL`,
    "",
    ...section("USAGE", [usage(command, path)]),
    ...section("DESCRIPTION", [command.about]),
    ...section(
      "ARGUMENTS",
      Object.entries(command.args)
        .flatMap(([name, { about }]) => [`<${name}>`, `  ${about}`, ""])
        .slice(0, -1)
    ),
    ...section("OPTIONS", Object.entries(command.options).flatMap(optionLines).slice(0, -1)),
    ...section("COMMANDS", columns(leaves.map(({ command, path }) => [path.join(" "), command.about]))),
    ...section("EXAMPLES", columns(examplesOf(command, path)))
  ].join("\n")
}
