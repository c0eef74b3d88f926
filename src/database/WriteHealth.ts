import { Duration, Effect } from "effect"
import type { DatabaseError } from "./DatabaseError.js"

// A server can answer every query and still reject every write: a standby, a full disk, a misconfigured pooler. The pod
// heartbeat writes once a second, so its result shows the write health without an extra statement.

/** A single failed write may be a conflict. Failures that last this long are not. */
const patience = Duration.seconds(5)

const unanswered = "the database does not answer writes"
const reasons = new Map([
  ["25006", "the database is read-only"],
  ["53100", "the database's disk is full"],
  ["42501", "the database does not allow this role to write"]
])

/** Tracks whether this process's writes succeed. */
export class WriteHealth {
  private since: number | undefined
  private reason = ""

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

  /** Returns why writes have been failing for longer than `patience`, or undefined. */
  failing(): string | undefined {
    const failsFor = this.since === undefined ? 0 : this.now() - this.since
    return failsFor > Duration.toMillis(patience) ? this.reason : undefined
  }
}
