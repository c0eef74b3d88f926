import * as Command from "@effect/cli/Command"
import { Effect } from "effect"
import { withPrinted } from "./Terminal.js"

// The command line writes these scripts itself, and nobody seems to have run them: what is wrong with each is mended here.

/** Options whose value is a file or a folder. Everything else that is typed is no name of one. */
const files = ["app", "payload-file"]
const folders = ["directory", "into"]

const step = /^( +[\w-]+)((?:,[\w-]+)+),([\w-]+)\)$/gm
const named = /^( +[\w-]+),([\w-]+)\)$/gm
const choices = /(compgen -W ")([^" $]+)(")/g

/**
 * Bash's loses its way below the first subcommand: it has come to `nightshift__jobs` and looks for `nightshift,jobs,list`, and it
 * writes a name's dash as it writes a step down. Several choices it offers as one.
 */
const mendBash = (script: string): string =>
  script
    .replace(step, (_, root: string, way: string, last: string) => `${root}${way.replaceAll(",", "__")},${last})`)
    .replace(named, (_, way: string, last: string) => `${way},${last.replaceAll("__", "-")})`)
    .replace(choices, (_, before: string, words: string, after: string) => before + words.replaceAll(",", " ") + after)

const zshOption = /^( +)'--([\w-]+)(\[.*\])(:CHOICE:\(.*\))?' \\$/gm
const zshEnd = /(' \\\n)( +)(&& ret=0)/g

const zshValue = (name: string): string => {
  if (files.includes(name)) return ":file:_files"
  return folders.includes(name) ? ":folder:_files -/" : ":value: "
}

/**
 * Zsh's takes the value of an option for a word too many, and an id as well, and offers nothing after either; nor does it offer
 * an option twice that may be repeated.
 */
const mendZsh =
  (withValue: ReadonlySet<string>) =>
  (script: string): string =>
    script
      .replace(zshOption, (_, indent: string, name: string, about: string, choice?: string) => {
        const value = choice ?? (withValue.has(name) ? zshValue(name) : "")
        return `${indent}'${about.includes("Repeat it") ? "*" : ""}--${name}${about}${value}' \\`
      })
      .replace(zshEnd, "$1$2'*:value: ' \\\n$2$3")

const fishFile = new RegExp(` -l (${[...files, ...folders].join("|")}) -r -f `, "g")

/** Fish's offers files where none are meant, and none where they are. */
const mendFish = (script: string): string =>
  `complete -c nightshift -f\n${script.replace(fishFile, (_, name: string) => ` -l ${name} -r -F `)}`

/** Only what fish is told says which options take a value. */
const takers = (lines: ReadonlyArray<string>): ReadonlySet<string> =>
  new Set(lines.flatMap((line) => / -l ([\w-]+) -r /.exec(line)?.[1] ?? []))

/** Mends what is printed where somebody asks for a script. */
export const mending =
  <Name extends string, R, E, A>(root: Command.Command<Name, R, E, A>, argv: ReadonlyArray<string>) =>
  <B, F, S>(effect: Effect.Effect<B, F, S>): Effect.Effect<B, F, S> => {
    if (!argv.some((word) => word === "--completions" || word.startsWith("--completions="))) return effect
    return Effect.flatMap(Command.getFishCompletions(root, "nightshift"), (lines) => {
      const mendZshScript = mendZsh(takers(lines))
      const mend = (text: string) => {
        if (text.startsWith("#compdef ")) return mendZshScript(text)
        return text.startsWith("complete -c ") ? mendFish(text) : mendBash(text)
      }
      return withPrinted(mend)(effect)
    })
  }
