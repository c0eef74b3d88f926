import { Effect, Either } from "effect"
import { suggestion } from "../../core/Spelling.js"
import { UsageError } from "../Failure.js"
import { flag, type Input, type Inputs } from "./Input.js"

// A command is a value. Parsing, errors, help and completions all come from it.

/** Inputs whose types are no longer needed. */
type AnyInputs = Readonly<Record<string, Input<unknown>>>

/** Example command lines, each with what it does. */
export type Examples = Readonly<Record<string, string>>

export interface Command {
  /** One sentence in the imperative. */
  readonly about: string
  readonly args: AnyInputs
  readonly options: AnyInputs
  readonly examples: Examples
  /** Subcommands by name. */
  readonly commands: Readonly<Record<string, Command>>
  /** Runs with the words after the command's path, which is named in errors. */
  readonly run: (words: ReadonlyArray<string>, path: ReadonlyArray<string>) => Effect.Effect<unknown, unknown>
}

export interface Spec<A, O> {
  readonly about: string
  readonly args?: Inputs<A>
  readonly options?: Inputs<O>
  readonly examples: Examples
  readonly run: (given: A & O) => Effect.Effect<unknown, unknown>
}

export const make = <A = {}, O = {}>(spec: Spec<A, O>): Command => {
  const args: AnyInputs = spec.args ?? {}
  const options: AnyInputs = spec.options ?? {}
  return {
    about: spec.about,
    args,
    options,
    examples: spec.examples,
    commands: {},
    run: (words, path) =>
      Either.match(read(args, options, words), {
        onLeft: (problem) => misuse(problem, path),
        // The values were read by the inputs of these names, so they have their types.
        onRight: (given) => spec.run(given as A & O)
      })
  }
}

/** A command that only has subcommands. Without one of them, it prints its help. */
export const group = (about: string, commands: Readonly<Record<string, Command>>): Command => ({
  ...make({ about, examples: {}, run: () => Effect.void }),
  commands
})

/** Accepted by every command. */
export const help = flag("Describe a command and its options, with examples.")

/** An invalid command line, with the command whose help describes a valid one. */
const misuse = (problem: string, path: ReadonlyArray<string>): UsageError =>
  new UsageError({ message: `${problem} See \`${["nightshift", ...path, "--help"].join(" ")}\`.` })

/** Describes a subcommand that does not exist. */
export const unknownCommand = (word: string, names: ReadonlyArray<string>, path: ReadonlyArray<string>): UsageError => {
  const hint = suggestion(word, names) || ` Commands: ${names.join(", ")}.`
  return misuse(`There is no command ${JSON.stringify([...path, word].join(" "))}.${hint}`, path)
}

/** The name of an option on the command line, without its dashes. */
export const optionName = (key: string): string => key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)

/** Assigns words to the keys of arguments and options, or says which word is wrong. */
const assign = (args: AnyInputs, options: AnyInputs, words: ReadonlyArray<string>) => {
  const known = new Map(Object.entries(options).map(([key, input]) => [`--${optionName(key)}`, { key, input }]))
  const found = new Map<string, Array<string>>()
  const add = (key: string, text: string) => found.set(key, [...(found.get(key) ?? []), text])
  const places = Object.entries(args)
  const rest = [...words]
  let areArguments = false
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    if (word === "--" && !areArguments) {
      areArguments = true
    } else if (areArguments || !/^--?[a-z]/i.test(word)) {
      const [place] = places
      if (place === undefined) return Either.left(`Unexpected argument ${JSON.stringify(word)}.`)
      const [key, { isRepeated }] = place
      add(key, word)
      if (!isRepeated) places.shift()
    } else {
      const end = word.includes("=") ? word.indexOf("=") : word.length
      const name = word.slice(0, end)
      const option = known.get(name)
      if (option === undefined) {
        return Either.left(`There is no option ${name}.${suggestion(name, [...known.keys(), "--help"])}`)
      }
      const { input, key } = option
      const inline = end < word.length ? word.slice(end + 1) : undefined
      if (found.has(key) && !input.isRepeated) return Either.left(`The option ${name} can be given only once.`)
      if (input.value === undefined) {
        if (inline !== undefined) return Either.left(`The option ${name} takes no value.`)
        add(key, "")
      } else {
        const value = inline ?? (rest[0]?.startsWith("--") === true ? undefined : rest.shift())
        if (value === undefined) return Either.left(`The option ${name} needs a value.`)
        add(key, value)
      }
    }
  }
  return Either.right(found)
}

/** Reads the words after a command's path, or says what is wrong with them. */
const read = (
  args: AnyInputs,
  options: AnyInputs,
  words: ReadonlyArray<string>
): Either.Either<Readonly<Record<string, unknown>>, string> =>
  Either.gen(function* () {
    const found = yield* assign(args, options, words)
    const given: Record<string, unknown> = {}
    for (const [key, input] of [...Object.entries(args), ...Object.entries(options)]) {
      const isArgument = key in args
      const name = isArgument ? `<${key}>` : `--${optionName(key)}`
      const texts = found.get(key) ?? []
      if (input.isRequired && texts.length === 0) {
        return yield* Either.left(`The ${isArgument ? "argument" : "option"} ${name} is required.`)
      }
      const subject = (isArgument ? input.value?.subject : undefined) ?? name
      given[key] = yield* Either.mapLeft(input.read(texts), (problem) => `${subject} ${problem}.`)
    }
    return given
  })
