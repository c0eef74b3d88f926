import { createHmac, randomBytes, timingSafeEqual } from "node:crypto"
import { Duration, Option, Redacted } from "effect"
import { digestOf, isAmong } from "./ConstantTime.js"
import type { Role, RoleTokens } from "./Sessions.js"

// A token is `nst_`, eight hex characters that identify it, and 256 random bits. The identifying prefix is generated
// separately, so showing it in a list reveals nothing about the secret part.

const tokenForm = /^(nst_[0-9a-f]{8})[\w-]{43}$/

/** The hash stored instead of a secret. */
export const hash: (secret: string) => Buffer = digestOf

/** The stored part of a token. */
export interface StoredToken {
  readonly prefix: string
  readonly hash: Buffer
}

/** Makes a token and its stored part. */
export const makeToken = (): StoredToken & { readonly secret: Redacted.Redacted } => {
  const prefix = `nst_${randomBytes(4).toString("hex")}`
  const text = `${prefix}${randomBytes(32).toString("base64url")}`
  return { prefix, hash: hash(text), secret: Redacted.make(text) }
}

/** Returns the prefix of a presented token, or "" (which matches no token) if the format is wrong. */
export const prefixOf = (given: string): string => tokenForm.exec(given)?.[1] ?? ""

const dummyHash = Buffer.alloc(32)

/** Whether the presented token has one of these hashes. A dummy is always compared: the time taken does not tell if there are any. */
export const isOneOf = (given: string, hashes: ReadonlyArray<Buffer>): boolean => isAmong(given, [dummyHash, ...hashes])

/** Makes a random 256-bit secret. */
export const makeSession = (): string => randomBytes(32).toString("base64url")

/** Whether the text has the format of a secret. */
export const isSession = (text: string): boolean => /^[\w-]{43}$/.test(text)

/** Binds a session to its token. Keyed with the session secret, so the stored value reveals nothing about the token. */
export const bond = (secret: string, token: Redacted.Redacted): Buffer =>
  createHmac("sha256", secret).update(Redacted.value(token)).digest()

/** Whether the role still has the token that the session was opened with. */
export const holds = (secret: string, role: Role, stored: Buffer, tokens: RoleTokens): boolean => {
  const token = tokens[role]
  return Option.isSome(token) && timingSafeEqual(bond(secret, token.value), stored)
}

/**
 * Whether to write a new expiry. Pages poll often, so a session is extended only after 1/60 of its lifetime has passed.
 */
export const isWorthExtending = (until: number, lasting: Duration.Duration, now: number): boolean => {
  const millis = Duration.toMillis(lasting)
  return until - now < millis - millis / 60
}
