import { Redacted } from "effect"

/** What a file of bots is held against. */
export interface FileContext {
  /** Whether jobs can be stored. */
  readonly database: boolean
  /** Whether AUTH_SECRET is set. */
  readonly authSecret: boolean
  /** The kinds that this process runs; absent where that is not known and not asked. */
  readonly kinds: ReadonlySet<string> | undefined
  /** The environment, as far as the file's names lead into it. */
  readonly variables: ReadonlyMap<string, string>
}

/** A name of the file as a part of an environment variable's. */
const inCapitals = (name: string) => name.toUpperCase().replaceAll("-", "_")

/** The variables that belong to a bot. */
export const variablesOfBot = (slug: string) => ({
  token: `BOT_${inCapitals(slug)}_TOKEN`,
  secret: `BOT_${inCapitals(slug)}_SECRET`
})

/** The variable that belongs to a source. */
export const variableOfSource = (name: string): string => `SOURCE_${inCapitals(name)}_SECRET`

/** Fit for a url, a queue and a metric label. */
export const isSlug = (name: string): boolean => /^[a-z0-9-]{1,64}$/.test(name)

export const slugRule = "names are 1 to 64 lower-case letters, digits and -"

/** One secret, or several during a rotation. */
export const secretsIn = (text: string): ReadonlyArray<Redacted.Redacted> =>
  text
    .split(",")
    .map((secret) => secret.trim())
    .filter((secret) => secret !== "")
    .map((secret) => Redacted.make(secret))
