import { Duration, Effect, Predicate } from "effect"
import type { DatabaseError } from "./DatabaseError.js"

// A server can answer every query and still reject every write: a standby, a full disk, a misconfigured pooler. The pod
// heartbeat writes once a second, so its result shows the write health without an extra statement. On a full disk the
// heartbeat may still succeed, because it updates a row in place, so any statement that reports a full disk counts too.

/** A single failed write may be a conflict. Failures that last this long are not. */
const failuresAllowedFor = Duration.seconds(5)

const unanswered = "the database does not answer writes"
/** SQLSTATEs with which any statement shows that the server cannot write: disk_full and io_error. */
const cannotWrite = new Map([
  ["53100", "the database's disk is full"],
  ["58030", "the database's disk reports errors"]
])
const reasons = new Map([
  ...cannotWrite,
  ["25006", "the database is read-only"],
  ["42501", "the database does not allow this role to write"]
])
/** How long a `cannotWrite` failure counts if its statement is not sent again. After that, new requests are tried. */
const forgottenAfter = Duration.seconds(15)

/** Tracks whether this process's writes succeed. */
export class WriteHealth {
  private since: number | undefined
  private reason = ""
  /** Statements that failed because the server cannot write. */
  private readonly refused = new Set<string>()
  private refusedAt = 0
  private refusal = ""

  constructor(private readonly now: () => number = () => performance.now()) {}

  /** Tracks a write that is repeated regularly. A write without an answer counts as failing from its start. */
  watch<A, R>(write: Effect.Effect<A, DatabaseError, R>): Effect.Effect<A, DatabaseError, R> {
    return Effect.suspend(() => {
      if (this.since === undefined) {
        this.since = this.now()
        this.reason = unanswered
      }
      return write
    }).pipe(
      Effect.tapBoth({
        onSuccess: () =>
          Effect.sync(() => {
            this.since = undefined
          }),
        onFailure: (error) =>
          Effect.sync(() => {
            this.reason =
              error.sqlState === undefined ? unanswered : (reasons.get(error.sqlState) ?? "writes to the database fail")
          })
      })
    )
  }

  /** Notes the result of any statement. */
  answered(text: string, error: unknown): void {
    if (!error) {
      // A statement that was refused succeeds again, so the server can write.
      if (this.refused.size > 0 && this.refused.has(text)) this.refused.clear()
      return
    }
    const reason = Predicate.hasProperty(error, "code") ? cannotWrite.get(String(error.code)) : undefined
    if (reason === undefined) return
    this.refused.add(text)
    this.refusedAt = this.now()
    this.refusal = reason
  }

  /** Returns why writes fail, or undefined. */
  failing(): string | undefined {
    if (this.now() - this.refusedAt >= Duration.toMillis(forgottenAfter)) this.refused.clear()
    if (this.refused.size > 0) return this.refusal
    const failsFor = this.since === undefined ? 0 : this.now() - this.since
    return failsFor > Duration.toMillis(failuresAllowedFor) ? this.reason : undefined
  }
}
