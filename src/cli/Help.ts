import { stripVTControlCharacters } from "node:util"

// @effect/cli prints each command with all its options on one line, hundreds of characters wide, and omits parent
// commands from the usage line. This module reformats that text for a terminal.

const isHelp = (lines: ReadonlyArray<string>) => lines[0] === "nightshift" && lines.includes("USAGE")

/** Adds the full command path to a usage line, which starts with the last word of the path. */
const usageOf = (line: string, words: ReadonlyArray<string>) => {
  const [, name = "", rest = ""] = /^\$ (\S+)(.*)$/.exec(line) ?? []
  const path = words.slice(0, words.indexOf(name) + 1)
  return ["$ nightshift", ...path].join(" ") + rest
}

interface Entry {
  readonly name: string
  readonly usage: string
  readonly about: string
}

const entryOf = (line: string): Entry => {
  const [usage = "", about = ""] = line.slice("  - ".length).split(/ {2,}/)
  const words = usage.split(" ")
  const end = words.findIndex((word) => !/^[a-z][a-z-]*$/.test(word))
  const name = (end === -1 ? words : words.slice(0, end)).filter((word, index, all) => word !== all[index - 1])
  return { name: name.join(" "), usage, about }
}

const isEntry = (line: string) => line.startsWith("  - ")

/** Returns the commands that a help text lists, with the full path of each. */
export const entriesIn = (help: string): ReadonlyArray<Entry> => help.split("\n").filter(isEntry).map(entryOf)

/** One line per command. Groups are left out because their subcommands are listed. */
const listed = (entries: ReadonlyArray<Entry>): ReadonlyArray<string> => {
  const shown = entries.filter(({ name }) => !entries.some((other) => other.name.startsWith(`${name} `)))
  const width = Math.max(...shown.map(({ name }) => name.length))
  return shown.map(({ about, name }) => `  ${name.padEnd(width)}   ${about}`)
}

const headings = ["USAGE", "DESCRIPTION", "ARGUMENTS", "OPTIONS", "COMMANDS", "EXAMPLES"]

/** Paragraphs of @effect/cli that repeat the usage line: the type of a value, its choices, and that it is optional. */
const boilerplate =
  /^ {2}(A user-defined piece of text\.|A true or false value\.|An integer\.|A floating point number\.|This (?:option|argument) may be repeated zero or more times\.|This argument must be repeated at least 1 times\.|One of the following: .*|This setting is optional\.)$/

/** Whether a line is boilerplate, or the blank line after it. */
const isNoise = (lines: ReadonlyArray<string>, index: number) =>
  boilerplate.test(lines[index] ?? "") || (lines[index] === "" && boilerplate.test(lines[index - 1] ?? ""))

/** Reformats help text. Text that is not help is returned unchanged. */
export const tidy = (text: string, words: ReadonlyArray<string>): string => {
  const plain = text.split("\n").map((line) => stripVTControlCharacters(line))
  if (!isHelp(plain)) return text
  const section = (name: string) => {
    const start = plain.indexOf(name)
    if (start === -1) return []
    const end = plain.findIndex((line, index) => index > start && headings.includes(line))
    return plain.slice(start + 1, end === -1 ? plain.length : end)
  }
  const commands = section("COMMANDS").filter(isEntry)
  const examples = section("EXAMPLES").filter((line) => line.trim() !== "")
  const kept = text.split("\n").slice(0, plain.indexOf(commands.length > 0 ? "COMMANDS" : "EXAMPLES"))
  return [
    ...kept.flatMap((line, index) => {
      if (isNoise(plain, index)) return []
      return plain[index]?.startsWith("$ ") === true ? usageOf(plain[index], words) : line
    }),
    ...(commands.length === 0 ? [] : ["COMMANDS", "", ...listed(commands.map(entryOf)), ""]),
    ...["EXAMPLES", "", ...examples.map((line) => `  ${line}`), ""]
  ].join("\n")
}
