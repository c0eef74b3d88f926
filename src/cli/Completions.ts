import * as Command from "@effect/cli/Command"
import { Effect } from "effect"
import { withPrinted } from "./Terminal.js"

// Fixes bugs in the completion scripts that @effect/cli generates.

/** Options that complete to a file or a folder. No other option or argument does. */
const files = ["app", "payload-file"]
const folders = ["directory", "into"]

const step = /^( +[\w-]+)((?:,[\w-]+)+),([\w-]+)\)$/gm
const named = /^( +[\w-]+),([\w-]+)\)$/gm
const choices = /(compgen -W ")([^" $]+)(")/g

/**
 * The bash script sets its state to `nightshift__jobs` but matches `nightshift,jobs,list`, so it completes nothing
 * below the first subcommand. It also encodes a dash in a command name like the separator between commands, and offers a list of
 * choices as one word.
 */
const fixBash = (script: string): string =>
  script
    .replace(step, (_, root: string, path: string, last: string) => `${root}${path.replaceAll(",", "__")},${last})`)
    .replace(named, (_, path: string, last: string) => `${path},${last.replaceAll("__", "-")})`)
    .replace(choices, (_, before: string, words: string, after: string) => before + words.replaceAll(",", " ") + after)

const zshOption = /^( +)'--([\w-]+)(\[.*\])(:CHOICE:\(.*\))?' \\$/gm
const zshEnd = /(' \\\n)( +)(&& ret=0)/g

const zshValue = (name: string): string => {
  if (files.includes(name)) return ":file:_files"
  return folders.includes(name) ? ":folder:_files -/" : ":value: "
}

/**
 * The zsh script counts option values and ids as unexpected words and stops completing after them. It also never offers
 * a repeatable option twice.
 */
const fixZsh =
  (withValue: ReadonlySet<string>) =>
  (script: string): string =>
    script
      .replace(zshOption, (_, indent: string, name: string, about: string, choice?: string) => {
        const value = choice ?? (withValue.has(name) ? zshValue(name) : "")
        return `${indent}'${about.includes("Can be repeated") ? "*" : ""}--${name}${about}${value}' \\`
      })
      .replace(zshEnd, "$1$2'*:value: ' \\\n$2$3")

const fishFile = new RegExp(` -l (${[...files, ...folders].join("|")}) -r -f `, "g")

/** The fish script offers files for every argument except the options that take a file. */
const fixFish = (script: string): string =>
  `complete -c nightshift -f\n${script.replace(fishFile, (_, name: string) => ` -l ${name} -r -F `)}`

/** Only the fish script marks which options take a value (`-r`). */
const optionsWithValue = (lines: ReadonlyArray<string>): ReadonlySet<string> =>
  new Set(lines.flatMap((line) => / -l ([\w-]+) -r /.exec(line)?.[1] ?? []))

/** Fixes the script printed by `--completions`; other output is unchanged. */
export const withFixedScripts =
  <Name extends string, R, E, A>(root: Command.Command<Name, R, E, A>, argv: ReadonlyArray<string>) =>
  <B, F, S>(effect: Effect.Effect<B, F, S>): Effect.Effect<B, F, S> => {
    if (!argv.some((word) => word === "--completions" || word.startsWith("--completions="))) return effect
    return Effect.flatMap(Command.getFishCompletions(root, "nightshift"), (lines) => {
      const fixZshScript = fixZsh(optionsWithValue(lines))
      const fix = (text: string) => {
        if (text.startsWith("#compdef ")) return fixZshScript(text)
        return text.startsWith("complete -c ") ? fixFish(text) : fixBash(text)
      }
      return withPrinted(fix)(effect)
    })
  }
