import { Config, ConfigError, Duration, Either, Option, Record, Redacted } from "effect"
import * as BytesText from "./BytesText.js"
import * as DurationText from "./DurationText.js"
import * as HttpUrl from "./HttpUrl.js"

/** A configuration key: its name, description, default and parser. */
export interface Setting<out A> {
  readonly key: string
  readonly about: string
  /** The default as text; empty when the key is optional. */
  readonly fallback: string
  readonly secret: boolean
  readonly config: Config.Config<A>
}

interface Described {
  readonly key: string
  readonly about: string
  readonly secret?: boolean
  /** Text that counts as absent, as a blank value does. Only for optional keys. */
  readonly absent?: RegExp
}

/** Parses text into a value, or returns a description of the expected format. */
type Read<A> = (text: string) => Either.Either<A, string>

/** Treats a blank value as absent, because env files use `KEY=` to unset a key. */
const present = (key: string): Config.Config<Option.Option<string>> =>
  Config.option(Config.string(key)).pipe(
    Config.map((text) =>
      Option.filter(
        Option.map(text, (value) => value.trim()),
        (value) => value !== ""
      )
    )
  )

/** The error includes the rejected text, unless the key is a secret, without the credentials of URLs. */
const refuse = (described: Described, expected: string, text: string) =>
  ConfigError.InvalidData(
    [described.key],
    described.secret === true
      ? `expected ${expected}`
      : `expected ${expected}, got ${HttpUrl.withoutCredentials(JSON.stringify(text))}`
  )

const withDefault = <A>(described: Described, fallback: string, read: Read<A>): Setting<A> => ({
  key: described.key,
  about: described.about,
  fallback,
  secret: described.secret ?? false,
  config: present(described.key).pipe(
    Config.mapOrFail((given) => {
      const text = Option.getOrElse(given, () => fallback)
      return Either.mapLeft(read(text), (expected) => refuse(described, expected, text))
    })
  )
})

const optional = <A>(described: Described, read: Read<A>): Setting<Option.Option<A>> => ({
  key: described.key,
  about: described.about,
  fallback: "",
  secret: described.secret ?? false,
  config: present(described.key).pipe(
    Config.map(Option.filter((text) => described.absent?.test(text) !== true)),
    Config.mapOrFail(
      Option.match({
        onNone: () => Either.right(Option.none()),
        onSome: (text) =>
          Either.mapBoth(read(text), { onLeft: (expected) => refuse(described, expected, text), onRight: Option.some })
      })
    )
  )
})

/** Text, validated by `read`. */
export const text = (described: Described, fallback: string, read: Read<string> = Either.right): Setting<string> =>
  withDefault(described, fallback, read)

export const optionalText = (described: Described, read: Read<string> = Either.right): Setting<Option.Option<string>> =>
  optional(described, read)

/** Text that is never printed or logged. */
export const secret = (
  described: Described,
  read: Read<string> = Either.right
): Setting<Option.Option<Redacted.Redacted>> =>
  optional({ ...described, secret: true }, (value) => Either.map(read(value), Redacted.make))

interface Range {
  readonly min: number
  readonly max: number
}

const readInteger =
  ({ max, min }: Range): Read<number> =>
  (value) => {
    const parsed = Number(value)
    return /^-?\d+$/.test(value) && parsed >= min && parsed <= max
      ? Either.right(parsed)
      : Either.left(`a whole number from ${min} to ${max}`)
  }

export const integer = (described: Described, fallback: number, range: Range): Setting<number> =>
  withDefault(described, String(fallback), readInteger(range))

export const optionalInteger = (described: Described, range: Range): Setting<Option.Option<number>> =>
  optional(described, readInteger(range))

/** A duration. Values of 0 or less use the default. */
export const positiveDuration = (described: Described, fallback: string): Setting<Duration.Duration> =>
  withDefault(described, fallback, (value) =>
    Option.match(DurationText.parseMillis(value), {
      onNone: () => Either.left(DurationText.expected),
      onSome: (millis) =>
        Either.fromOption(DurationText.parse(millis > 0 ? value : fallback), () => DurationText.expected)
    })
  )

export const duration = (
  described: Described,
  fallback: string,
  range?: { readonly min: string; readonly max: string }
): Setting<Duration.Duration> => {
  const limit = (text: string) => Option.getOrThrow(DurationText.parse(text))
  return withDefault(described, fallback, (value) =>
    Option.match(DurationText.parse(value), {
      onNone: () => Either.left(DurationText.expected),
      onSome: (given) =>
        range === undefined || Duration.between(given, { minimum: limit(range.min), maximum: limit(range.max) })
          ? Either.right(given)
          : Either.left(`a duration from ${range.min} to ${range.max}`)
    })
  )
}

/** A retention period. 0 uses the default; a negative value means zero retention. */
export const retention = (described: Described, fallback: string): Setting<Duration.Duration> =>
  withDefault(described, fallback, (value) =>
    Option.match(DurationText.parseMillis(value), {
      onNone: () => Either.left(DurationText.expected),
      onSome: (millis) =>
        Either.fromOption(
          DurationText.parse(millis === 0 ? fallback : millis < 0 ? "0" : value),
          () => DurationText.expected
        )
    })
  )

export const bytes = (
  described: Described,
  fallback: string,
  range?: { readonly min: string; readonly max: string }
): Setting<number> => {
  const limit = (text: string) => Option.getOrThrow(BytesText.parse(text))
  return withDefault(described, fallback, (value) =>
    Option.match(BytesText.parse(value), {
      onNone: () => Either.left(BytesText.expected),
      onSome: (size) =>
        range === undefined || (size >= limit(range.min) && size <= limit(range.max))
          ? Either.right(size)
          : Either.left(`a size from ${range.min} to ${range.max}`)
    })
  )
}

export const boolean = (described: Described, fallback: boolean): Setting<boolean> =>
  withDefault(described, String(fallback), (value) => {
    if (["true", "yes", "on", "1"].includes(value.toLowerCase())) return Either.right(true)
    if (["false", "no", "off", "0"].includes(value.toLowerCase())) return Either.right(false)
    return Either.left("true or false")
  })

export const choice = <const A extends string>(
  described: Described,
  fallback: A,
  choices: ReadonlyArray<A>
): Setting<A> =>
  withDefault(described, fallback, (value) =>
    Either.fromNullable(
      choices.find((known) => known === value.toLowerCase()),
      () => `one of ${choices.join(", ")}`
    )
  )

/** A comma-separated list; empty when the key is absent. */
export const list = (
  described: Described,
  read: (words: ReadonlyArray<string>) => Either.Either<ReadonlyArray<string>, string> = Either.right
): Setting<ReadonlyArray<string>> =>
  withDefault(described, "", (value) => {
    const words = value
      .split(",")
      .map((word) => word.trim())
      .filter((word) => word !== "")
    // Commas alone are a template that was not filled in, not an empty list.
    return words.length === 0 && value.includes(",") ? Either.left("at least one name") : read(words)
  })

export type Values<Group extends Record<string, Setting<unknown>>> = {
  readonly [K in keyof Group]: Group[K] extends Setting<infer A> ? A : never
}

/** Reads a group of settings. The error lists every invalid key, not only the first. */
export const group = <const Group extends Record<string, Setting<unknown>>>(
  settings: Group
): Config.Config<Values<Group>> =>
  Config.all(Record.map(settings, (setting) => setting.config)) as Config.Config<Values<Group>>

/** Returns one line per invalid key with the expected format. */
export const problems = (error: ConfigError.ConfigError): ReadonlyArray<string> => {
  if (ConfigError.isConfigError(error) && (error._op === "And" || error._op === "Or")) {
    return [...problems(error.left), ...problems(error.right)]
  }
  return [`${error.path.join(".")}: ${error.message}`]
}
