import { randomBytes } from "node:crypto"
import { Either, Schema } from "effect"
import type { Endpoint, EndpointPatch, NewEndpoint } from "../../core/Endpoint.js"
import { type Answer, Expected } from "../../core/ExpectedError.js"
import * as HttpUrl from "../../core/HttpUrl.js"
import * as SigningKey from "../../core/SigningKey.js"
import { faultOfText, isUnstorable, storableText } from "../../core/Storable.js"

export type { Endpoint, EndpointPatch, NewEndpoint }

export const DisabledBecause = Schema.Literal("operator", "failing", "gone")
export type DisabledBecause = typeof DisabledBecause.Type

export const Standing = Schema.Literal("healthy", "failing", "disabled")
export type Standing = typeof Standing.Type

/** An endpoint with a new secret, which is shown only here. */
export interface EndpointWithSecret extends Endpoint {
  /** The signing secret, for the customer. */
  readonly secret: string
}

/** A secret as it is stored. */
export interface StoredSecret {
  readonly secret: string
  /** When it stops signing, in epoch milliseconds. Null for the current one. */
  readonly until: number | null
}

/** An endpoint as it is stored. The newest secret is the first. */
export interface EndpointRow extends Endpoint {
  readonly secrets: ReadonlyArray<StoredSecret>
}

/** An endpoint was rejected because of the named field. Nothing was stored. */
export class InvalidEndpoint extends Expected<InvalidEndpoint>(400, { code: "INVALID_OPTION" })("InvalidEndpoint", {
  /** Name of the invalid field, such as `url`. */
  field: Schema.String,
  /** What is wrong with the field, as the end of a sentence. */
  reason: Schema.String
}) {
  override get message(): string {
    return `${this.field} ${this.reason}.`
  }

  override get answer(): Answer {
    return { ...InvalidEndpoint.answer, field: this.field }
  }
}

/** No endpoint has this id. */
export class EndpointNotFound extends Expected<EndpointNotFound>(404, { code: "INVALID_OPTION", field: "id" })(
  "EndpointNotFound",
  {
    /** Id that was looked up. */
    id: Schema.String
  }
) {
  override get message(): string {
    return `There is no endpoint ${this.id}. It was deleted, or the id is wrong. List endpoints with \`nightshift endpoints list\`.`
  }
}

/** Limits of an endpoint, and the number of secrets that sign at the same time. */
export const limits = {
  urlCharacters: 2_000,
  customerCharacters: 256,
  descriptionCharacters: 500,
  types: 100,
  typeCharacters: 128,
  secrets: 5
} as const

const faultOfUrl = (url: string) => {
  const fault = faultOfText(url, limits.urlCharacters)
  if (fault !== undefined || HttpUrl.plain(url) !== undefined) return fault
  return "must be an http or https URL without credentials"
}

const faultOfDescription = (text: string) => {
  if (typeof text !== "string" || text.length > limits.descriptionCharacters || isUnstorable(text))
    return `must be text of at most ${limits.descriptionCharacters} characters`
  return undefined
}

const faultOfTypes = (types: ReadonlyArray<string>) => {
  if (!Array.isArray(types) || types.length === 0 || types.length > limits.types)
    return `must be a list of 1 to ${limits.types} types; leave it out to send all`
  return types.map(faultOfType).find((fault) => fault !== undefined)
}

/** Returns why the type of a webhook is invalid, or undefined. */
export const faultOfType = (type: string): string | undefined => faultOfText(type, limits.typeCharacters)

/** Returns why the name of a customer is invalid, or undefined. */
export const faultOfCustomer = (customer: string): string | undefined =>
  faultOfText(customer, limits.customerCharacters)

const faultOfSecret = (secret: string) =>
  typeof secret === "string" && secret.startsWith("whsec_") && SigningKey.keyOf(secret) !== undefined
    ? undefined
    : SigningKey.rule

const checks = {
  url: faultOfUrl,
  customer: faultOfCustomer,
  description: faultOfDescription,
  types: faultOfTypes,
  secret: faultOfSecret
}

/** Checks the fields that are given, and the required ones. The error never includes a secret. */
export const checked = <A extends Partial<NewEndpoint> | EndpointPatch>(
  given: A,
  ...required: ReadonlyArray<keyof A>
): Either.Either<A, InvalidEndpoint> => {
  for (const [field, check] of Object.entries(checks)) {
    const value = (given as Readonly<Record<string, unknown>>)[field]
    const isAbsent = value === undefined ? !required.includes(field as keyof A) : value === null && field === "types"
    const reason = isAbsent ? undefined : check(value as never)
    if (reason !== undefined) return Either.left(new InvalidEndpoint({ field, reason }))
  }
  return Either.right(given)
}

/** Makes a signing secret of 256 bits. */
export const makeSecret = (): string => `whsec_${randomBytes(32).toString("base64")}`

export const standingOf = ({ disabledAt, firstFailedAt }: Endpoint): Standing => {
  if (disabledAt !== undefined) return "disabled"
  return firstFailedAt === undefined ? "healthy" : "failing"
}

// Changes of a row. Both stores apply them to a locked row.

const noFailures = { firstFailedAt: undefined, failures: 0, lastError: undefined } as const

/** A successful attempt. Those that were on their way to a previous URL do not count. */
export const succeeded = (row: EndpointRow, url: string): EndpointRow =>
  row.url === url ? { ...row, ...noFailures } : row

/** Sends to another URL, whose failures start over. Those that disabled the endpoint stay until it is enabled. */
export const moved = (row: EndpointRow, url: string): EndpointRow =>
  row.url === url ? row : { ...row, ...(row.disabledAt === undefined ? noFailures : {}), url }

/** Enables an endpoint. Its failures start over, so that it is not disabled again by the next one. */
export const enabled = (row: EndpointRow): EndpointRow => ({
  ...row,
  ...noFailures,
  disabledAt: undefined,
  disabledBecause: undefined
})

export const disabled = (row: EndpointRow, because: DisabledBecause, now: number): EndpointRow =>
  row.disabledAt === undefined ? { ...row, disabledAt: now, disabledBecause: because } : row

/** A failed attempt. */
export interface Failure {
  /** Where the request was sent. */
  readonly url: string
  /** What failed. */
  readonly error: string
  /** Whether the endpoint says that it no longer exists. */
  readonly isGone: boolean
  /** Disables an endpoint whose attempts have all failed for this long, in milliseconds; 0 for never. */
  readonly disableAfter: number
}

/** Failed attempts without a success before an endpoint is disabled, however long they took. */
export const minFailures = 10

const errorCharacters = 1_000

/** Counts a failed attempt, and disables the endpoint if it is one too many. Attempts at a previous URL do not count. */
export const failed = (row: EndpointRow, failure: Failure, now: number): EndpointRow => {
  const { disableAfter, error, isGone, url } = failure
  if (row.url !== url) return row
  const firstFailedAt = row.firstFailedAt ?? now
  const failures = row.failures + 1
  const next = { ...row, firstFailedAt, failures, lastError: storableText(error, errorCharacters) }
  if (isGone) return disabled(next, "gone", now)
  const isOver = disableAfter > 0 && failures >= minFailures && now - firstFailedAt >= disableAfter
  return isOver ? disabled(next, "failing", now) : next
}

/** Adds a secret. The others sign until `until`, and those that are over are removed. */
export const rotated = (row: EndpointRow, secret: string, until: number, now: number): EndpointRow => {
  const others = row.secrets
    .map((each) => ({ ...each, until: Math.min(each.until ?? until, until) }))
    .filter((each) => each.until > now && each.secret !== secret)
  return { ...row, secrets: [{ secret, until: null }, ...others].slice(0, limits.secrets) }
}

/** The secrets that sign now. */
export const secretsAt = ({ secrets }: EndpointRow, now: number): ReadonlyArray<string> =>
  secrets.flatMap(({ secret, until }) => (until === null || until > now ? [secret] : []))

/** Removes the secrets. */
export const viewOf = ({ secrets: _, ...endpoint }: EndpointRow): Endpoint => endpoint
