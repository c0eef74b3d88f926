import * as SqlClient from "@effect/sql/SqlClient"
import type { SqlError } from "@effect/sql/SqlError"
import { Duration, Effect, FiberRef, Option, type Redacted, type Scope } from "effect"
import * as CoalescingCache from "../core/CoalescingCache.js"
import * as DurationText from "../core/DurationText.js"
import type { DatabaseConfig } from "./DatabaseConfig.js"
import { type DatabaseError, DatabaseFault, DatabaseUnavailable, mapErrors } from "./DatabaseError.js"
import { address, anySession } from "./DatabaseUrl.js"
import * as PooledClient from "./PooledClient.js"
import * as Pools from "./Pools.js"
import * as ServerIdentity from "./ServerIdentity.js"
import * as Transaction from "./Transaction.js"
import { WriteHealth } from "./WriteHealth.js"

// Reads of operators may run on a streaming replica. A read transaction of the replica provides its connection, and the
// statements inside use it like that of any other transaction. The replica's state is checked only while reads ask for it.

/** True in fibers whose bounded reads may be a little out of date. */
const mayLag: FiberRef.FiberRef<boolean> = FiberRef.unsafeMake(false)

/** Lets the bounded reads of the effect run on the replica, if there is one. */
export const reading = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.locally(effect, mayLag, true)

/** The replica as of its last check. */
export interface ReplicaState {
  /** Host, port and database. */
  readonly address: string
  /** How far the replica is behind the primary. Undefined if it is not known. */
  readonly lagSeconds: number | undefined
  /** Why reads use the primary, as the end of a sentence about the replica. Undefined if they use the replica. */
  readonly unused: string | undefined
}

type Run = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, Exclude<E, SqlError> | DatabaseError, R>

export interface Replica {
  readonly state: Effect.Effect<ReplicaState>
  /** Runs a read in a transaction of the replica or, if that cannot be used or fails, of the primary. */
  readonly read: Run
  /** Reports a commit that the next reads must show: they use the primary until the replica has it. */
  readonly wrote: () => void
}

/** Maximum number of connections to the replica: the limit of concurrent searches, and some charts. */
const poolSize = 5

/** Time limit of a check. Reads wait for it. */
const checkTimeout = Duration.seconds(3)

/** Bytes of WAL, exact as a number up to 2^53. */
const bytes = (lsn: string) => `pg_catalog.pg_wal_lsn_diff(${lsn}, '0/0')::float8`

const identity = `${ServerIdentity.cluster} as cluster, ${ServerIdentity.expression} as server`

const ofPrimary = `
  select ${identity}, ${bytes("pg_catalog.pg_current_wal_lsn()")} as position,
    ${bytes("pg_catalog.pg_current_wal_insert_lsn()")} as inserted,
    extract(epoch from pg_catalog.clock_timestamp())::float8 as seconds`

const ofReplica = `
  select ${identity}, pg_catalog.pg_is_in_recovery() as follows,
    ${bytes("pg_catalog.pg_last_wal_replay_lsn()")} as position,
    extract(epoch from pg_catalog.pg_last_xact_replay_timestamp())::float8 as seconds`

interface PrimaryRow {
  readonly cluster: string
  readonly server: string
  readonly position: number
  /** The same with commits that do not wait for the disk. */
  readonly inserted: number
  /** The primary's time. */
  readonly seconds: number
}

interface ReplicaRow {
  readonly cluster: string
  readonly server: string
  readonly follows: boolean
  readonly position: number | null
  /** When the primary committed the last transaction that the replica has replayed. */
  readonly seconds: number | null
}

interface Checked {
  readonly lagSeconds?: number
  readonly unused?: string
}

/** Compares the replica with the primary as it was a moment earlier. */
const compare = (primary: PrimaryRow, replica: ReplicaRow, maxLag: Duration.Duration): Checked => {
  // An address of several servers may lead to the primary.
  if (ServerIdentity.isSame(primary.server, replica.server)) return { lagSeconds: 0 }
  if (primary.cluster !== replica.cluster || !replica.follows)
    return { unused: "is not a replica of the database in DATABASE_URL" }
  const { position, seconds } = replica
  const isCurrent = position !== null && position >= primary.position
  if (!isCurrent && seconds === null) return { unused: "has not replayed a transaction yet" }
  const lagSeconds = isCurrent ? 0 : Math.max(0, primary.seconds - (seconds ?? 0))
  return lagSeconds <= Duration.toSeconds(maxLag)
    ? { lagSeconds }
    : {
        lagSeconds,
        unused: `is ${DurationText.format(Duration.seconds(Math.ceil(lagSeconds)))} behind, more than DATABASE_READ_MAX_LAG (${DurationText.format(maxLag)})`
      }
}

/** The lag in a reason changes with every check. */
const withoutLag = (unused: string) => unused.replace(/\d\w*/g, "")

/** The server cancelled the statement at its time limit: the primary would not be faster. */
const isTooSlow = (error: DatabaseError) => error.sqlState === "57014"
const isDatabaseError = (error: unknown): error is DatabaseError =>
  error instanceof DatabaseUnavailable || error instanceof DatabaseFault

/** Opens a pool to the replica, which connects on the first read. */
export const make = (
  url: Redacted.Redacted,
  config: typeof DatabaseConfig.Service,
  primary: SqlClient.SqlClient
): Effect.Effect<Replica, never, Scope.Scope> =>
  Effect.gen(function* () {
    const sizes = { pool: Math.min(poolSize, config.pool), handlerPool: 1 }
    const pools = yield* Pools.open(anySession(url), { ...config, ...sizes }, () => {}, new WriteHealth(), true)
    const sql = yield* PooledClient.make(pools.own)
    const onReplica = Transaction.run(sql)
    const onPrimary = Transaction.run(primary)
    const where = address(url)
    /** Number of reported writes, and how many of them `wanted` includes. */
    let writes = 0
    let included = 0
    /** Position that shows them. */
    let wanted = 0
    let primaryThen: PrimaryRow | undefined
    let last: Checked = {}

    const ask = <Row extends object>(client: SqlClient.SqlClient, text: string) =>
      Effect.flatMap(mapErrors(client.unsafe<Row>(text)), ([row]) =>
        row === undefined ? Effect.dieMessage("a statement returned no row") : Effect.succeed(row)
      )
    const askPrimary = ask<PrimaryRow>(primary, ofPrimary)
    const askReplica = ask<ReplicaRow>(sql, ofReplica)

    /** Logs when reads move from one server to the other. */
    const note = (now: Checked) => {
      const before = last.unused
      last = now
      if (now.unused === undefined)
        return before === undefined ? Effect.void : Effect.logInfo(`reads use the replica at ${where} again`)
      return before !== undefined && withoutLag(before) === withoutLag(now.unused)
        ? Effect.void
        : Effect.logWarning(`reads use the primary: the replica at ${where} ${now.unused}`)
    }
    const unanswered = ({ detail }: { readonly detail: string }): Checked => ({ unused: `does not answer: ${detail}` })

    const check = Effect.flatMap(askPrimary, (found) => {
      primaryThen = found
      return askReplica.pipe(
        Effect.map((row) => compare(found, row, config.readMaxLag)),
        Effect.disconnect,
        Effect.timeoutTo({
          duration: checkTimeout,
          onSuccess: (checked): Checked => checked,
          onTimeout: () => unanswered({ detail: `no answer within ${DurationText.format(checkTimeout)}` })
        }),
        Effect.catchAll((error) => Effect.succeed(unanswered(error))),
        Effect.tap(note)
      )
    })
    // A check that times out is repeated only after ten seconds.
    const checked = yield* CoalescingCache.refreshed(check, "1 second", "10 seconds")

    const noteWrites = Effect.suspend(() => {
      const asked = writes
      return included === asked
        ? Effect.void
        : Effect.map(askPrimary, ({ inserted }) => {
            wanted = Math.max(wanted, inserted)
            included = Math.max(included, asked)
          })
    })

    /** Whether the server of this transaction may answer. The check may have asked another one: replicas can share an address. */
    const isCurrent = Effect.map(
      askReplica,
      (row) =>
        (row.position ?? Number.POSITIVE_INFINITY) >= wanted &&
        (primaryThen === undefined || compare(primaryThen, row, config.readMaxLag).unused === undefined)
    )

    const isUsable = Effect.flatMap(checked, ({ value }) =>
      value.unused === undefined ? Effect.as(noteWrites, true) : Effect.succeed(false)
    ).pipe(Effect.catchAll(() => Effect.succeed(false)))

    const readFromReplica: Run = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
      onReplica(Effect.flatMap(isCurrent, (may) => (may ? Effect.asSome(effect) : Effect.succeedNone))).pipe(
        Effect.catchIf(
          (error): error is Extract<typeof error, DatabaseError> => isDatabaseError(error) && !isTooSlow(error),
          (error) => Effect.as(note(unanswered(error as DatabaseError)), Option.none<A>())
        ),
        Effect.flatMap((read) => (Option.isSome(read) ? Effect.succeed(read.value) : onPrimary(effect)))
      )

    return {
      state: checked.pipe(
        Effect.map(({ value }) => value),
        Effect.catchAll((error) => Effect.succeed(unanswered(error))),
        Effect.map(({ lagSeconds, unused }) => ({ address: where, lagSeconds, unused }))
      ),
      read: (effect) =>
        Effect.flatMap(FiberRef.get(mayLag), (wants) =>
          wants
            ? Effect.flatMap(Effect.serviceOption(SqlClient.TransactionConnection), (outer) =>
                Option.isSome(outer)
                  ? onPrimary(effect)
                  : Effect.flatMap(isUsable, (usable) => (usable ? readFromReplica(effect) : onPrimary(effect)))
              )
            : onPrimary(effect)
        ),
      wrote: () => {
        writes += 1
      }
    }
  })
