import { Duration, Schema } from "effect"

/** How a token bucket is made: so many tokens at most, so many new ones per second. */
export interface Limit {
  readonly capacity: number
  readonly rate: number
}

export interface DeclaredLimit extends Limit {
  readonly scope: string
}

/** A scope as operators see it. */
export interface LimitState extends DeclaredLimit {
  /** What the code declares; `capacity` and `rate` are what holds. */
  readonly declared: Limit
  /** Whether an operator's word stands against the code's. */
  readonly tuned: boolean
  /** What is in the bucket now. */
  readonly tokens: number
  /** What pods took ahead and may still use. */
  readonly lent: number
  /** No token comes in before this instant, in epoch milliseconds: an upstream asked for a pause. */
  readonly dryUntil: number | undefined
}

/** What an operator may change. A field that is absent stays as it is; `null` gives the code its word back. */
export interface LimitPatch {
  readonly capacity?: number | null | undefined
  readonly rate?: number | null | undefined
}

/** A number or a name that makes no limit. */
export class InvalidLimit extends Schema.TaggedError<InvalidLimit>()("InvalidLimit", {
  scope: Schema.String,
  field: Schema.String,
  reason: Schema.String
}) {
  override get message(): string {
    return `Limit ${JSON.stringify(this.scope.slice(0, 80))}: ${this.field} ${this.reason}.`
  }
}

/** Nobody declared this scope, so nobody knows what it allows. */
export class UnknownScope extends Schema.TaggedError<UnknownScope>()("UnknownScope", { scope: Schema.String }) {
  override get message(): string {
    return `No limit "${this.scope}" is declared. Make it with RateLimit.make and give it to Nightshift.layer({ limits: [...] }), or export it as \`limits\` from the app's module.`
  }
}

/** So many tokens will never be there at once. */
export class BeyondCapacity extends Schema.TaggedError<BeyondCapacity>()("BeyondCapacity", {
  scope: Schema.String,
  asked: Schema.Number,
  capacity: Schema.Number
}) {
  override get message(): string {
    return `Limit "${this.scope}" holds ${this.capacity} tokens at most, so ${this.asked} at once will never be granted. Ask for fewer, or raise its capacity.`
  }
}

const most = 1_000_000_000
/** A bucket that takes longer to fill is a mistake in somebody's units. */
const longestFill = Duration.days(366)

/** What can be the name of a scope; nothing else needs to be looked up. */
export const isScope = (scope: string): boolean => /^[A-Za-z0-9_.:-]{1,64}$/.test(scope)

/** What is wrong with a limit, or nothing. */
export const faultOf = ({ capacity, rate, scope }: DeclaredLimit): InvalidLimit | undefined => {
  const fault = (field: string, reason: string) => new InvalidLimit({ scope, field, reason })
  if (!isScope(scope)) return fault("scope", "must be 1 to 64 letters, digits, _, ., : or -")
  if (!(capacity >= 1 && capacity <= most)) return fault("capacity", `must be a number from 1 to ${most}`)
  if (!(rate > 0 && rate <= most))
    return fault("rate", `must be a number of tokens per second above 0, ${most} at most`)
  if (capacity / rate > Duration.toSeconds(longestFill))
    return fault("rate", "would take more than a year to fill the bucket")
  return undefined
}

/** What is wrong with what somebody asks for, or nothing. */
export const faultOfCount = (scope: string, field: string, count: number, least: number): InvalidLimit | undefined =>
  Number.isInteger(count) && count >= least && count <= most
    ? undefined
    : new InvalidLimit({ scope, field, reason: `must be a whole number from ${least} to ${most}` })

/** What is wrong with the limits of one declaration, or nothing. */
export const faultOfDeclared = (limits: ReadonlyArray<DeclaredLimit>): InvalidLimit | undefined => {
  const seen = new Map<string, DeclaredLimit>()
  for (const limit of limits) {
    const fault = faultOf(limit)
    if (fault !== undefined) return fault
    const twin = seen.get(limit.scope)
    if (twin !== undefined && (twin.capacity !== limit.capacity || twin.rate !== limit.rate)) {
      return new InvalidLimit({
        scope: limit.scope,
        field: "scope",
        reason: "is declared twice, with different numbers"
      })
    }
    seen.set(limit.scope, limit)
  }
  return undefined
}

/** What is wrong with a pause, or nothing. */
export const faultOfPause = (scope: string, duration: Duration.Duration): InvalidLimit | undefined =>
  Duration.lessThanOrEqualTo(duration, longestFill)
    ? undefined
    : new InvalidLimit({ scope, field: "duration", reason: "must not be longer than a year" })
