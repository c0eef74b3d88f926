import { Duration, Schema } from "effect"
import { type Answer, Expected } from "../core/ExpectedError.js"
import type { DeclaredLimit, Limit } from "./LimitOptions.js"

export type { DeclaredLimit, Limit }

export interface LimitState extends DeclaredLimit {
  /** The limit declared in code; `capacity` and `rate` are the effective values. */
  readonly declared: Limit
  /** Whether an operator has overridden the declared limit. */
  readonly tuned: boolean
  readonly tokens: number
  /** Tokens that processes have reserved and may still use. */
  readonly lent: number
  /** No tokens are added before this time, in epoch milliseconds, because an upstream asked for a pause. */
  readonly dryUntil: number | undefined
}

/** Changes by an operator. An absent field is unchanged; `null` restores the declared value. */
export interface LimitPatch {
  readonly capacity?: number | null | undefined
  readonly rate?: number | null | undefined
}

/** A limit is declared or changed with an invalid value. Nothing was changed. */
export class InvalidLimit extends Expected<InvalidLimit>(400)("InvalidLimit", {
  /** Name of the limit that was declared or changed. */
  scope: Schema.String,
  /** Invalid field: `scope`, `capacity`, `rate` or another argument. */
  field: Schema.String,
  /** What is wrong with the field, as the end of a sentence. */
  reason: Schema.String
}) {
  override get message(): string {
    return `Limit ${JSON.stringify(this.scope.slice(0, 80))}: ${this.field} ${this.reason}.`
  }
}

/** No process has declared a limit of this name. */
export class UnknownScope extends Expected<UnknownScope>(404)("UnknownScope", {
  /** Name that was looked up. */
  scope: Schema.String
}) {
  override get message(): string {
    return `Limit "${this.scope}" is not declared. Create it with RateLimit.make and pass it to Nightshift.layer({ limits: [...] }), or export it as \`limits\` from the app's module.`
  }

  override get answer(): Answer {
    return {
      ...UnknownScope.answer,
      message: `Rate limit "${this.scope.slice(0, 64)}" does not exist. GET /api/v1/limits lists all limits.`
    }
  }
}

/** The request exceeds the bucket's capacity and can never be granted. */
export class BeyondCapacity extends Schema.TaggedError<BeyondCapacity>()("BeyondCapacity", {
  /** Name of the limit. */
  scope: Schema.String,
  /** Tokens that were requested at once. */
  asked: Schema.Number,
  /** Most tokens that the bucket can hold. */
  capacity: Schema.Number
}) {
  override get message(): string {
    return `Limit "${this.scope}" has a capacity of ${this.capacity}, so a request for ${this.asked} tokens can never be granted. Request fewer tokens, or raise the capacity.`
  }
}

const most = 1_000_000_000
/** A longer fill time is most likely a mistake in the unit. */
const longestFill = Duration.days(366)

/** Whether the name is valid; other names need no lookup. */
export const isScope = (scope: string): boolean => /^[A-Za-z0-9_.:-]{1,64}$/.test(scope)

export const faultOf = ({ capacity, rate, scope }: DeclaredLimit): InvalidLimit | undefined => {
  const fault = (field: string, reason: string) => new InvalidLimit({ scope, field, reason })
  if (!isScope(scope)) return fault("scope", "must be 1 to 64 letters, digits, _, ., : or -")
  if (!(capacity >= 1 && capacity <= most)) return fault("capacity", `must be between 1 and ${most}, got ${capacity}`)
  if (!(rate > 0 && rate <= most))
    return fault("rate", `must be above 0 and at most ${most} tokens per second, got ${rate}`)
  if (capacity / rate > Duration.toSeconds(longestFill))
    return fault("rate", "is too low: the bucket would take more than a year to fill")
  return undefined
}

export const faultOfCount = (scope: string, field: string, count: number, least: number): InvalidLimit | undefined =>
  Number.isInteger(count) && count >= least && count <= most
    ? undefined
    : new InvalidLimit({ scope, field, reason: `must be a whole number from ${least} to ${most}, got ${count}` })

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
        reason: "is declared twice, with different values"
      })
    }
    seen.set(limit.scope, limit)
  }
  return undefined
}

export const faultOfPause = (scope: string, duration: Duration.Duration): InvalidLimit | undefined =>
  Duration.lessThanOrEqualTo(duration, longestFill)
    ? undefined
    : new InvalidLimit({ scope, field: "duration", reason: "must not be longer than a year" })
