import { Config, ConfigError, type Duration, Either, Option, Record, Redacted } from "effect"
import * as BytesText from "./BytesText.js"
import * as DurationText from "./DurationText.js"

/** One configuration key: its name, what it is for, what holds when it is absent, and how its text is read. */
export interface Setting<out A> {
  readonly key: string
  readonly about: string
  /** The default as a person would write it; empty when the key may simply be absent. */
  readonly fallback: string
  readonly secret: boolean
  readonly config: Config.Config<A>
}

interface Described {
  readonly key: string
  readonly about: string
  readonly secret?: boolean
}

/** Text into a value, or what was expected instead. */
type Read<A> = (text: string) => Either.Either<A, string>

/** A blank value counts as absent: `KEY=` in an env file is how people switch a key off. */
const present = (key: string): Config.Config<Option.Option<string>> =>
  Config.option(Config.string(key)).pipe(
    Config.map((text) =>
      Option.filter(
        Option.map(text, (value) => value.trim()),
        (value) => value !== ""
      )
    )
  )

/** The offending text is shown, so that a typo is found at a glance, unless it is a secret. */
const refuse = (described: Described, expected: string, text: string) =>
  ConfigError.InvalidData(
    [described.key],
    described.secret === true ? `expected ${expected}` : `expected ${expected}, got ${JSON.stringify(text)}`
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
    Config.mapOrFail(
      Option.match({
        onNone: () => Either.right(Option.none()),
        onSome: (text) =>
          Either.mapBoth(read(text), { onLeft: (expected) => refuse(described, expected, text), onRight: Option.some })
      })
    )
  )
})

/** Free text, read by `read` where it must have a form. */
export const text = (described: Described, fallback: string, read: Read<string> = Either.right): Setting<string> =>
  withDefault(described, fallback, read)

export const optionalText = (described: Described, read: Read<string> = Either.right): Setting<Option.Option<string>> =>
  optional(described, read)

/** Text that must never be printed. */
export const secret = (
  described: Described,
  read: Read<string> = Either.right
): Setting<Option.Option<Redacted.Redacted>> =>
  optional({ ...described, secret: true }, (value) => Either.map(read(value), Redacted.make))

export const integer = (
  described: Described,
  fallback: number,
  range: { readonly min: number; readonly max: number }
): Setting<number> =>
  withDefault(described, String(fallback), (value) => {
    const parsed = Number(value)
    return /^-?\d+$/.test(value) && parsed >= range.min && parsed <= range.max
      ? Either.right(parsed)
      : Either.left(`a whole number from ${range.min} to ${range.max}`)
  })

/** A duration where anything but a positive one means the default. */
export const positiveDuration = (described: Described, fallback: string): Setting<Duration.Duration> =>
  withDefault(described, fallback, (value) =>
    Option.match(DurationText.parseMillis(value), {
      onNone: () => Either.left(DurationText.expected),
      onSome: (millis) =>
        Either.fromOption(DurationText.parse(millis > 0 ? value : fallback), () => DurationText.expected)
    })
  )

export const duration = (described: Described, fallback: string): Setting<Duration.Duration> =>
  withDefault(described, fallback, (value) => Either.fromOption(DurationText.parse(value), () => DurationText.expected))

/** How long something is kept: zero means the default, and less than zero not at all. */
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

/** A number of bytes, at least one. */
export const bytes = (described: Described, fallback: string): Setting<number> =>
  withDefault(described, fallback, (value) => Either.fromOption(BytesText.parse(value), () => BytesText.expected))

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

/** Words separated by commas; none when absent. */
export const list = (described: Described): Setting<ReadonlyArray<string>> =>
  withDefault(described, "", (value) =>
    Either.right(
      value
        .split(",")
        .map((word) => word.trim())
        .filter((word) => word !== "")
    )
  )

/** The values of a group of settings. */
export type Values<Group extends Record<string, Setting<unknown>>> = {
  readonly [K in keyof Group]: Group[K] extends Setting<infer A> ? A : never
}

/** Reads a whole group; a failure names every bad key of it, not only the first. */
export const group = <const Group extends Record<string, Setting<unknown>>>(
  settings: Group
): Config.Config<Values<Group>> =>
  Config.all(Record.map(settings, (setting) => setting.config)) as Config.Config<Values<Group>>

/** Every bad key with what was expected of it, one line each. */
export const problems = (error: ConfigError.ConfigError): ReadonlyArray<string> => {
  if (ConfigError.isConfigError(error) && (error._op === "And" || error._op === "Or")) {
    return [...problems(error.left), ...problems(error.right)]
  }
  return [`${error.path.join(".")}: ${error.message}`]
}
