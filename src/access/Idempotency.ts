import { Context, type Duration, type Effect } from "effect"
import { Expected } from "../core/ExpectedError.js"
import type { DatabaseError } from "../database/DatabaseError.js"

/** The key was already used with different content. */
export class IdempotencyKeyReused extends Expected<IdempotencyKeyReused>(422)("IdempotencyKeyReused", {}) {
  override get message(): string {
    return "This Idempotency-Key was already used with a different request body. Use a new key for a new request."
  }
}

/** A request with this key is still in progress. */
export class IdempotencyKeyBusy extends Expected<IdempotencyKeyBusy>(409, { headers: { "retry-after": "1" } })(
  "IdempotencyKeyBusy",
  {}
) {
  override get message(): string {
    return "A request with this Idempotency-Key is still in progress. Retry in a few seconds."
  }
}

/** Lets a client repeat a request safely when it did not receive the response. */
export class Idempotency extends Context.Tag("nightshift/access/Idempotency")<
  Idempotency,
  {
    /**
     * Runs `act` once per key and stores its JSON result in the same transaction. A repeated request with the same
     * content returns the stored result while the key is remembered. `act` receives the time at which the key was first
     * used, in epoch milliseconds.
     */
    readonly once: <E, R>(
      request: { readonly key: string; readonly content: string; readonly remembered: Duration.Duration },
      act: (firstSeen: number) => Effect.Effect<unknown, E, R>
    ) => Effect.Effect<unknown, E | IdempotencyKeyReused | IdempotencyKeyBusy | DatabaseError, R>

    /** Deletes older keys. Returns the number deleted. */
    readonly purge: (olderThan: Duration.Duration) => Effect.Effect<number, DatabaseError>
  }
>() {}
