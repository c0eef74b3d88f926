import { Redacted } from "effect"

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

const inCapitals = (name: string) => name.toUpperCase().replaceAll("-", "_")

/** Names of a bot's environment variables. */
export const variablesOfBot = (slug: string) => ({
  token: `BOT_${inCapitals(slug)}_TOKEN`,
  secret: `BOT_${inCapitals(slug)}_SECRET`
})

/** Name of a source's environment variable. */
export const variableOfSource = (name: string): string => `SOURCE_${inCapitals(name)}_SECRET`

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
