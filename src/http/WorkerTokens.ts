import { createHash } from "node:crypto"
import { Either, Option, Redacted } from "effect"
import { isSame } from "../access/ConstantTime.js"
import { isQueueName } from "../queue/NewJob.js"

// NIGHTSHIFT_WORKER_TOKENS: `<token>:<queue>,<queue>`, several separated by spaces. `*` means all queues.

/** A token that lets remote workers run the jobs of some queues. */
export interface WorkerToken {
  readonly secret: Redacted.Redacted
  /** The caller of its requests. Does not reveal the secret. */
  readonly who: string
  /** Undefined for all queues. */
  readonly queues: ReadonlyArray<string> | undefined
}

const minCharacters = 24

export const expected = `tokens of at least ${minCharacters} characters with their queues, such as \`<token>:images,mail\` or \`<token>:*\`, separated by spaces`

const tokenOf = (entry: string): Option.Option<WorkerToken> => {
  const [, secret = "", names = ""] = /^([\w.~+/=-]+):([^:]+)$/.exec(entry) ?? []
  const queues = names.split(",")
  if (secret.length < minCharacters || (names !== "*" && !queues.every(isQueueName))) return Option.none()
  return Option.some({
    secret: Redacted.make(secret),
    who: `api:worker-${createHash("sha256").update(secret).digest("hex").slice(0, 8)}`,
    queues: names === "*" ? undefined : queues
  })
}

/** Reads the setting. */
export const parse = (text: string): Option.Option<ReadonlyArray<WorkerToken>> =>
  Option.all(text.trim().split(/\s+/).map(tokenOf))

/** Checks the setting without keeping its tokens. */
export const check = (text: string): Either.Either<string, string> =>
  Option.isSome(parse(text)) ? Either.right(text) : Either.left(expected)

/** Returns the tokens of the setting. */
export const read = (given: Option.Option<Redacted.Redacted>): ReadonlyArray<WorkerToken> =>
  Option.getOrElse(
    Option.flatMap(given, (text) => parse(Redacted.value(text))),
    () => []
  )

/** Finds a token. Compares all of them, so the time taken does not depend on a match. */
export const find = (tokens: ReadonlyArray<WorkerToken>, given: string): WorkerToken | undefined =>
  tokens.filter(({ secret }) => isSame(given, secret))[0]
