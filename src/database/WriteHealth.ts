import { Duration, Effect } from "effect"
import type { DatabaseError } from "./DatabaseError.js"

// A server can answer every question and still refuse every write: a standby, a full disk, a pooler in its way. The heartbeat
// writes once a second, so how it goes is known without a statement of its own.

/** A write that fails once may be a conflict; for this long it is not. */
const patience = Duration.seconds(5)

const unanswered = "the database does not answer writes"
const reasons = new Map([
  ["25006", "the database is read-only"],
  ["53100", "the disk of the database is full"],
  ["42501", "the database does not allow this role to write"]
])

/** Whether what this process writes arrives. */
export class WriteHealth {
  private since: number | undefined
  private reason = ""

  constructor(private readonly now: () => number = () => performance.now()) {}

  /** Watches a write that is repeated all the time. One that gets no answer counts from its beginning. */
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

  /** Why writes have been failing for a while, if they have. */
  failing(): string | undefined {
    const failsFor = this.since === undefined ? 0 : this.now() - this.since
    return failsFor > Duration.toMillis(patience) ? this.reason : undefined
  }
}
