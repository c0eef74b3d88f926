import { Duration, Either, Option, Predicate, Redacted } from "effect"
import * as DurationText from "../../core/DurationText.js"
import * as HttpUrl from "../../core/HttpUrl.js"
import { closest } from "../../core/Spelling.js"

/** Parses a value of the file. Left describes the expected value. */
export type Read<A> = (value: unknown) => Either.Either<A, string>

/** Formats a value for a message, truncated to 60 characters and without the credentials of URLs. */
export const shown = (value: unknown): string => {
  const text = HttpUrl.withoutCredentials(JSON.stringify(value) ?? "nothing")
  return text.length > 60 ? `${text.slice(0, 57)}...` : text
}

const meant = (word: string, known: Iterable<string>) => {
  const near = closest(word, known)
  return near === undefined ? "" : `; did you mean ${near}?`
}

export const boolean: Read<boolean> = (value) =>
  typeof value === "boolean" ? Either.right(value) : Either.left("true or false")

export const choice =
  <const A extends string>(choices: ReadonlyArray<A>): Read<A> =>
  (value) => {
    const found = choices.find((known) => known === value)
    if (found !== undefined) return Either.right(found)
    const expected = choices.length === 1 ? String(choices[0]) : `one of ${choices.join(", ")}`
    return Either.left(expected)
  }

export const whole =
  (min: number, max: number): Read<number> =>
  (value) =>
    typeof value === "number" && Number.isInteger(value) && value >= min && value <= max
      ? Either.right(value)
      : Either.left(`a whole number from ${min} to ${max}`)

/** A duration above zero. */
export const duration =
  (most: Duration.Duration): Read<Duration.Duration> =>
  (value) => {
    const parsed = typeof value === "string" ? DurationText.parse(value) : Option.none()
    return Option.isSome(parsed) &&
      Duration.toMillis(parsed.value) > 0 &&
      Duration.lessThanOrEqualTo(parsed.value, most)
      ? Either.right(parsed.value)
      : Either.left(`a duration like 5s, at most ${DurationText.format(most)}`)
  }

const below = (path: string, key: string) => (path === "" ? key : `${path}.${key}`)

/** Collects all problems of a file, so that one start reports every mistake. */
export class FileProblems {
  readonly list: Array<string> = []

  add(path: string, reason: string): void {
    this.list.push(`${path}: ${reason}`)
  }

  /** Returns the fields of an object. For any other value, adds a problem and returns an empty object. */
  fields(value: unknown, path: string, known: ReadonlyArray<string>): FileFields {
    const isObject = Predicate.isRecord(value)
    if (!isObject)
      this.add(path === "" ? "the file" : path, `expected an object with ${known.join(", ")}, got ${shown(value)}`)
    const entries = isObject ? value : {}
    for (const key of Object.keys(entries)) {
      if (!known.includes(key)) {
        this.add(below(path, key), `is not a known key${meant(key, known) || `; known keys: ${known.join(", ")}`}`)
      }
    }
    return new FileFields(entries, path, this)
  }

  /** Adds a problem for an unknown word, with the closest known word as a suggestion. */
  unknownWord(path: string, expected: string, value: unknown, known: Iterable<string>): void {
    const suggestion = typeof value === "string" ? meant(value, known) : ""
    this.add(path, `expected ${expected}, got ${shown(value)}${suggestion}`)
  }
}

/** The fields of one object. An invalid field adds a problem and yields its fallback. */
export class FileFields {
  constructor(
    private readonly entries: Readonly<Record<string, unknown>>,
    readonly path: string,
    readonly problems: FileProblems
  ) {}

  has(key: string): boolean {
    return Object.hasOwn(this.entries, key) && this.entries[key] !== null
  }

  raw(key: string): unknown {
    return this.has(key) ? this.entries[key] : undefined
  }

  at(key: string): string {
    return below(this.path, key)
  }

  optional<A>(key: string, read: Read<A>, fallback: A): A {
    return this.has(key) ? this.read(key, read, fallback) : fallback
  }

  required<A>(key: string, read: Read<A>, fallback: A): A {
    if (this.has(key)) return this.read(key, read, fallback)
    const wanted = read(undefined)
    this.problems.add(this.at(key), `is missing; expected ${Either.isLeft(wanted) ? wanted.left : "a value"}`)
    return fallback
  }

  private read<A>(key: string, read: Read<A>, fallback: A): A {
    const value = this.entries[key]
    return Either.getOrElse(read(value), (expected) => {
      this.problems.add(this.at(key), `expected ${expected}, got ${shown(value)}`)
      return fallback
    })
  }
}

/** The context in which a bots file is validated. */
export interface FileContext {
  /** Whether jobs can be stored. */
  readonly database: boolean
  /** Whether AUTH_SECRET is set. */
  readonly authSecret: boolean
  /** Kinds that this process runs; undefined skips the check. */
  readonly kinds: ReadonlySet<string> | undefined
  /** Environment variables of the declared bots and sources. */
  readonly variables: ReadonlyMap<string, string>
}

const inCapitals = (name: string) => name.toUpperCase().replace(/[^A-Z0-9]/g, "_")

/** Names of a bot's environment variables. */
export const variablesOfBot = (slug: string) => ({
  token: `BOT_${inCapitals(slug)}_TOKEN`,
  secret: `BOT_${inCapitals(slug)}_SECRET`
})

/** Name of a source's environment variable. */
export const variableOfSource = (name: string): string => `SOURCE_${inCapitals(name)}_SECRET`

/** Name of the environment variable of a kind that is sent to a URL. */
export const variableOfPush = (kind: string): string => `PUSH_${inCapitals(kind)}_SECRET`

/** Whether a name is safe in a URL, a queue name and a metric label. */
export const isSlug = (name: string): boolean => /^[a-z0-9-]{1,64}$/.test(name)

export const slugRule = "use 1 to 64 lower-case letters, digits and -"

/** Splits a comma-separated list of secrets. Two are accepted during a rotation. */
export const secretsIn = (text: string): ReadonlyArray<Redacted.Redacted> =>
  text
    .split(",")
    .map((secret) => secret.trim())
    .filter((secret) => secret !== "")
    .map((secret) => Redacted.make(secret))
