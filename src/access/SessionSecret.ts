import { createHash, createHmac, randomBytes, timingSafeEqual } from "node:crypto"
import { Duration, Option, Redacted } from "effect"
import type { Role } from "./Role.js"
import type { RoleTokens } from "./Sessions.js"

/** Makes a random 256-bit secret. */
export const make = (): string => randomBytes(32).toString("base64url")

/** Whether the text has the format of a secret. */
export const isSecret = (text: string): boolean => /^[\w-]{43}$/.test(text)

/** The hash stored instead of the secret. */
export const hash = (secret: string): Buffer => createHash("sha256").update(secret).digest()

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
