import type { DeclaredRateLimit, RateLimitOptions } from "../rate-limits/LimitOptions.js"
import * as Core from "../rate-limits/RateLimit.js"

export type { RateLimitOptions, TakeOptions } from "../rate-limits/LimitOptions.js"

/** A rate limit that handlers share across the cluster: take its tokens with `acquire` of the handler's context. */
export interface RateLimit extends DeclaredRateLimit {}

/** Declares a limit. Pass it to `worker(shift, { limits: [...] })` to register it with the cluster. */
export const make: (scope: string, options: RateLimitOptions) => RateLimit = Core.make
