import { createHash } from "node:crypto"
import { Context, type Duration, type Effect, Schema } from "effect"
import type { DatabaseError } from "../database/DatabaseError.js"

/** The key came before, with a request that asked for something else. */
export class IdempotencyKeyReused extends Schema.TaggedError<IdempotencyKeyReused>()("IdempotencyKeyReused", {}) {
  override get message(): string {
    return "This Idempotency-Key came before with another request. Use a new key for a new request."
  }
}

/** The request of this key is still being worked on. */
export class IdempotencyKeyBusy extends Schema.TaggedError<IdempotencyKeyBusy>()("IdempotencyKeyBusy", {}) {
  override get message(): string {
    return "A request with this Idempotency-Key is still under way. Try again in a moment."
  }
}

/** What is stored of a key and of a request. */
export const digest = (text: string): Buffer => createHash("sha256").update(text).digest()

/** Requests that may be sent again because their answer was lost. */
export class Idempotency extends Context.Tag("nightshift/access/Idempotency")<
  Idempotency,
  {
    /**
     * Does something once for a key, and remembers its answer, which is JSON: both or neither. Whoever comes again within
     * the time, with the same content, gets the first answer. `act` is told when the key was first seen.
     */
    readonly once: <E, R>(
      request: { readonly key: string; readonly content: string; readonly remembered: Duration.Duration },
      act: (firstSeen: number) => Effect.Effect<unknown, E, R>
    ) => Effect.Effect<unknown, E | IdempotencyKeyReused | IdempotencyKeyBusy | DatabaseError, R>

    /** Forgets keys that came longer ago than this. Returns how many. */
    readonly purge: (olderThan: Duration.Duration) => Effect.Effect<number, DatabaseError>
  }
>() {}
