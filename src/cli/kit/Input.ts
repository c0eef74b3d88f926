import { type Duration, Either, Option, Schema } from "effect"
import * as DurationText from "../../core/DurationText.js"
import * as HttpUrl from "../../core/HttpUrl.js"
import * as JsonNumbers from "../../core/JsonNumbers.js"
import * as Instant from "../../http/Instant.js"
import { fieldAt } from "../../queue/enqueue/PayloadCheck.js"

// The arguments and options of a command: a type of value, how often it may be given, and one sentence about it.

/** A type of value on the command line. */
export interface Value<out A> {
  /** The type in a usage line, as in `--limit integer`. */
  readonly shown: string
  /** Reads a value, or says what is wrong with it, as in `must be a whole number, got "x"`. */
  readonly read: (text: string) => Either.Either<A, string>
  /** What a shell offers as completions. */
  readonly offers?: ReadonlyArray<string> | "files" | "folders"
  /** The subject of an error about an argument, as in "A job id". The default is its name. */
  readonly subject?: string
}

const wrong = (rule: string, text: string) => Either.left(`${rule}, got ${JSON.stringify(text)}`)

export const text: Value<string> = { shown: "text", read: Either.right }
export const file: Value<string> = { ...text, offers: "files" }
export const folder: Value<string> = { ...text, offers: "folders" }

/** Names separated by commas. */
export const names: Value<ReadonlyArray<string>> = {
  ...text,
  read: (given) => Either.right(given.split(",").flatMap((name) => (name.trim() === "" ? [] : [name.trim()])))
}

/** Text in a format. `rule` completes a sentence like "--delay must be a duration". */
export const parsed = <A>(parse: (text: string) => Option.Option<A>, rule: string): Value<A> => ({
  shown: "text",
  read: (text) => Option.match(parse(text), { onNone: () => wrong(rule, text), onSome: Either.right })
})

export const duration: Value<Duration.Duration> = parsed(DurationText.parse, `must be ${DurationText.expected}`)
export const instant: Value<number> = parsed(Instant.parse, `must be ${Instant.expected}`)
/** JSON without numbers that would be stored as other ones. `describe` says why a number at a field is rejected. */
const jsonWith = (describe: (lost: JsonNumbers.LostNumber, field: string) => string): Value<unknown> => ({
  shown: "text",
  read: (text) =>
    Either.flatMap(
      Either.try({
        try: (): unknown => JSON.parse(text),
        catch: (error) => `is not valid JSON: ${Object(error).message}`
      }),
      (value) => {
        const lost = JsonNumbers.lostIn(text)
        if (lost === undefined) return Either.right(value)
        return Either.left(describe(lost, fieldAt(lost.path).replace(/^payload\.?/, "")))
      }
    )
})

export const json = jsonWith(
  (lost, field) => `has a number${field && ` at ${field}`} that ${JsonNumbers.reasonInShell(lost)}`
)

/** JSON that is compared with stored JSON. */
export const jsonFilter = jsonWith(JsonNumbers.reasonInFilter)

export const url: Value<URL> = parsed(
  (text) => Option.fromNullable(HttpUrl.parse(text)),
  "must be a URL like http://127.0.0.1:8787"
)

/** A UUID in lower or upper case. */
export const uuid = <A>(schema: Schema.Schema<A, string>, subject: string): Value<A> => {
  const decode = Schema.decodeOption(schema)
  return { ...parsed((text) => decode(text.toLowerCase()), "must be a UUID"), subject }
}

interface Range {
  readonly min: number
  readonly max: number
}

const numeric = (shown: string, rule: string, isValid: (value: number) => boolean, range?: Range): Value<number> => ({
  shown,
  read: (text) => {
    const value = text.trim() === "" ? Number.NaN : Number(text)
    if (!isValid(value)) return wrong(rule, text)
    return range === undefined || (value >= range.min && value <= range.max)
      ? Either.right(value)
      : Either.left(`must be between ${range.min} and ${range.max}, got ${value}`)
  }
})

export const integer = (range?: Range): Value<number> =>
  numeric("integer", "must be a whole number", Number.isSafeInteger, range)

export const number = (range?: Range): Value<number> => numeric("number", "must be a number", Number.isFinite, range)

export const choice = <const A extends string>(words: ReadonlyArray<A>): Value<A> => ({
  shown: words.join(" | "),
  read: (text) => {
    const word = words.find((each) => each === text)
    return word === undefined ? wrong(`must be one of ${words.join(", ")}`, text) : Either.right(word)
  },
  offers: words
})

/** An argument or an option. */
export interface Input<out A> {
  readonly about: string
  /** Undefined for a flag. */
  readonly value: Value<unknown> | undefined
  readonly isRequired: boolean
  readonly isRepeated: boolean
  /** Reads all values that were given. */
  readonly read: (texts: ReadonlyArray<string>) => Either.Either<A, string>
}

/** Inputs by the name of the value in the code. An option `dryRun` is `--dry-run` on the command line. */
export type Inputs<A> = { readonly [K in keyof A]: Input<A[K]> }

/** The values that inputs read. */
export type Given<I> = I extends Inputs<infer A> ? A : never

export const flag = (about: string): Input<boolean> => ({
  about,
  value: undefined,
  isRequired: false,
  isRepeated: false,
  read: (texts) => Either.right(texts.length > 0)
})

export const withDefault = <A, const B>(value: Value<A>, fallback: B, about: string): Input<A | B> => ({
  about,
  value,
  isRequired: false,
  isRepeated: false,
  read: ([text]) => (text === undefined ? Either.right(fallback) : value.read(text))
})

export const optional = <A>(value: Value<A>, about: string): Input<A | undefined> =>
  withDefault(value, undefined, about)

export const required = <A>(value: Value<A>, about: string): Input<A> => ({
  about,
  value,
  isRequired: true,
  isRepeated: false,
  read: ([text = ""]) => value.read(text)
})

export const repeated = <A>(value: Value<A>, about: string): Input<ReadonlyArray<A>> => ({
  about,
  value,
  isRequired: false,
  isRepeated: true,
  read: (texts) => Either.all(texts.map(value.read))
})

/** One or more values. */
export const several = <A>(value: Value<A>, about: string): Input<ReadonlyArray<A>> => ({
  ...repeated(value, about),
  isRequired: true
})
