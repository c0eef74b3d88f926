import { createHash, createHmac, randomBytes, timingSafeEqual } from "node:crypto"
import { Duration, Option, Redacted } from "effect"
import type { Role } from "./Role.js"
import type { RoleTokens } from "./Sessions.js"

/** Nobody can guess one. */
export const make = (): string => randomBytes(32).toString("base64url")

/** Whether a text can be a secret at all. */
export const isSecret = (text: string): boolean => /^[\w-]{43}$/.test(text)

/** What is stored of a secret: enough to know it again. */
export const hash = (secret: string): Buffer => createHash("sha256").update(secret).digest()

/** Ties a session to its token. Made with the secret, so that who reads the table learns nothing about the token. */
export const bond = (secret: string, token: Redacted.Redacted): Buffer =>
  createHmac("sha256", secret).update(Redacted.value(token)).digest()

/** Whether the role's token is still the one that the session was opened with. */
export const holds = (secret: string, role: Role, stored: Buffer, tokens: RoleTokens): boolean => {
  const token = tokens[role]
  return Option.isSome(token) && timingSafeEqual(bond(secret, token.value), stored)
}

/** A session that is used is written to again only after a sixtieth of its length: a page asks often. */
export const isWorthExtending = (until: number, lasting: Duration.Duration, now: number): boolean => {
  const millis = Duration.toMillis(lasting)
  return until - now < millis - millis / 60
}
