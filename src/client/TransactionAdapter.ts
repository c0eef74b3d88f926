import { Predicate } from "effect"
import type { OuterStatement, RunStatement } from "../queue/Queue.js"
import { TransactionError } from "./ShiftErrors.js"

// Libraries are detected by properties of their transaction objects; none of them is imported. A database object in place of
// a transaction is rejected: the job would be stored immediately, even if the caller rolls back. The same holds for a
// transaction that is over, whose object some libraries run on a connection outside of any transaction.

/**
 * A transaction as a library hands it to a callback: a `pg` client after BEGIN, or the `tx` of Drizzle, Kysely, Prisma, Knex,
 * postgres.js or TypeORM.
 */
export type Transaction =
  | {
      /** Runs a statement: a `pg` client after BEGIN, or the manager of a TypeORM transaction. */
      query(...args: ReadonlyArray<never>): unknown
    }
  | {
      /** Runs a statement: the `tx` of Drizzle. */
      execute(query: never): unknown
      /** Distinguishes the `tx` of Drizzle from its database, which has no rollback. */
      rollback(): unknown
    }
  | {
      /** Runs a statement: the `trx` of Kysely. */
      executeQuery(query: never): unknown
      /** Distinguishes the `trx` of Kysely from its database. */
      readonly isTransaction: boolean
    }
  | {
      /** Runs a statement: the `tx` of an interactive transaction of Prisma. */
      $queryRawUnsafe(text: string, ...values: ReadonlyArray<never>): unknown
    }
  | {
      /** Runs a statement: the `trx` of Knex. */
      raw(...args: ReadonlyArray<never>): unknown
      /** Distinguishes the `trx` of Knex from its database. */
      readonly isTransaction?: boolean
    }
  | {
      /** Runs a statement: the `sql` of a transaction of postgres.js. */
      unsafe(...args: ReadonlyArray<never>): unknown
      /** Distinguishes the `sql` of a transaction of postgres.js from its pool. */
      savepoint(...args: ReadonlyArray<never>): unknown
    }

type Rows = ReadonlyArray<Readonly<Record<string, unknown>>>
type Method = (...args: ReadonlyArray<unknown>) => unknown
type Candidate = Readonly<Record<string, unknown>>

const has = (value: unknown, name: string): value is Record<string, Method> =>
  Predicate.hasProperty(value, name) && typeof value[name] === "function"

/** Drivers return the rows, or an object with them. */
const rowsOf = (result: unknown): Rows => (Predicate.hasProperty(result, "rows") ? result.rows : result) as Rows

const notInside = (library: string, what: string, instead: string) =>
  new TransactionError(`\`tx\` is ${what} of ${library}, which is not in a transaction. Pass ${instead}.`)

interface Library {
  readonly matches: (tx: Candidate) => boolean
  /** The error if the object is not in a transaction. */
  readonly refuse: (tx: Candidate) => TransactionError | undefined
  readonly run: (tx: Record<string, Method>, text: string, parameters: ReadonlyArray<string>) => unknown
  /** Whether the same object can have several transactions, one after the other. */
  readonly isReused?: true
}

const prisma: Library = {
  matches: (tx) => has(tx, "$queryRawUnsafe"),
  refuse: (tx) =>
    has(tx, "$disconnect")
      ? notInside("Prisma", "the client", "the `tx` of prisma.$transaction(async (tx) => …)")
      : undefined,
  run: (tx, text, parameters) => tx.$queryRawUnsafe?.(text, ...parameters)
}

const postgresJs: Library = {
  matches: (tx) => has(tx, "unsafe") && (has(tx, "begin") || has(tx, "savepoint")),
  refuse: (tx) =>
    has(tx, "savepoint")
      ? undefined
      : notInside("postgres.js", "the client", "the `sql` of sql.begin(async (sql) => …)"),
  run: (tx, text, parameters) => tx.unsafe?.(text, [...parameters])
}

const knex: Library = {
  matches: (tx) => has(tx, "raw") && has(tx, "transaction"),
  refuse: (tx) =>
    tx.isTransaction === true
      ? undefined
      : notInside("Knex", "the client", "the `trx` of knex.transaction(async (trx) => …)"),
  run: (tx, text, parameters) => tx.raw?.(text.replace("$1", "?"), [...parameters])
}

const kysely: Library = {
  matches: (tx) => has(tx, "executeQuery") && "isTransaction" in tx,
  refuse: (tx) =>
    tx.isTransaction === true
      ? undefined
      : notInside("Kysely", "the database", "the `trx` of db.transaction().execute(async (trx) => …)"),
  run: (tx, sql, parameters) => {
    const query = { kind: "RawNode", sqlFragments: [sql], parameters: [] }
    return tx.executeQuery?.({ sql, parameters, query, queryId: { queryId: "nightshift" } })
  }
}

const drizzle: Library = {
  matches: (tx) => has(tx, "execute") && "dialect" in tx && "session" in tx,
  refuse: (tx) =>
    has(tx, "rollback")
      ? undefined
      : notInside("Drizzle", "the database", "the `tx` of db.transaction(async (tx) => …)"),
  // Drizzle accepts any object that converts itself into text and parameters.
  run: (tx, sql, parameters) => tx.execute?.({ getSQL: () => ({ toQuery: () => ({ sql, params: [...parameters] }) }) })
}

const typeorm: Library = {
  matches: (tx) => has(tx, "query") && ("isTransactionActive" in tx || has(tx, "getRepository")),
  refuse: (tx) => {
    const runner = "isTransactionActive" in tx ? tx : tx.queryRunner
    return Predicate.hasProperty(runner, "isTransactionActive") && runner.isTransactionActive === true
      ? undefined
      : notInside("TypeORM", "a manager or data source", "the manager of dataSource.transaction(async (manager) => …)")
  },
  run: (tx, text, parameters) => tx.query?.(text, [...parameters]),
  isReused: true
}

const pg: Library = {
  matches: (tx) => has(tx, "query"),
  refuse: (tx) => {
    if ("totalCount" in tx) return notInside("pg", "the pool", "the client of pool.connect() after BEGIN")
    // "I" is idle. Clients before pg 8.17 do not report it.
    return has(tx, "getTransactionStatus") && tx.getTransactionStatus?.() === "I"
      ? notInside("pg", "a client", "the client after BEGIN")
      : undefined
  },
  run: (tx, text, parameters) => tx.query?.(text, [...parameters]),
  isReused: true
}

const libraries = [prisma, postgresJs, knex, kysely, drizzle, typeorm, pg]

const known = "a pg client, or the transaction of Drizzle, Kysely, Prisma, Knex, postgres.js or TypeORM"

const over = (cause?: unknown) =>
  new TransactionError(
    "`tx` is not in a transaction: it has ended or has not begun. Nothing was stored. Await every enqueue before the transaction ends.",
    cause
  )

/** SQLSTATE of DECLARE outside a transaction, and of FETCH after the cursor's transaction has ended. */
const overStates = new Set(["25P01", "34000"])

/** Whether an error, which libraries wrap in their own, says that there is no transaction. */
const saysOver = (error: unknown, depth = 4): boolean =>
  Predicate.isRecord(error) &&
  depth > 0 &&
  (overStates.has(String(error.code)) ||
    overStates.has(String(error.originalCode)) ||
    [error.cause, error.meta, error.driverError, error.driverAdapterError].some((inner) => saysOver(inner, depth - 1)))

/** The last transaction of a `tx` object, and whether two enqueues in a row were in it. */
const lastOf = new WeakMap<object, { readonly transaction: string; readonly isSame: boolean }>()

let cursors = 0

/**
 * PostgreSQL accepts a cursor only in a transaction and closes it at its end, so the statement, which runs when the cursor is
 * read, cannot run outside it. Once the transaction's id is known, the statement itself compares it, in one round trip.
 */
const runInside = async (
  library: Library,
  tx: Record<string, Method>,
  { parameter, text, within }: OuterStatement
): Promise<Rows> => {
  const last = lastOf.get(tx)
  if (last !== undefined && (library.isReused !== true || last.isSame)) {
    const rows = rowsOf(await library.run(tx, within(last.transaction), [parameter]))
    if (rows.length > 0) return rows
    if (library.isReused !== true) throw over()
  }
  cursors += 1
  const cursor = `nightshift_enqueue_${cursors}`
  await library.run(tx, `declare ${cursor} no scroll cursor for ${text}`, [parameter])
  const rows = rowsOf(await library.run(tx, `fetch all from ${cursor}`, []))
  const transaction = rows[0]?.transaction
  if (typeof transaction === "string") lastOf.set(tx, { transaction, isSame: last?.transaction === transaction })
  return rows
}

/** By transaction object: a fleet asks each once for its database. */
const runs = new WeakMap<object, RunStatement>()

/** Returns how to run a statement in the transaction. Throws TransactionError if `tx` is not a transaction. @internal */
export const statementsOf = (tx: Transaction): RunStatement => {
  const candidate = tx as unknown as Candidate
  const isObject = (typeof tx === "object" && tx !== null) || typeof tx === "function"
  const library = isObject ? libraries.find(({ matches }) => matches(candidate)) : undefined
  if (library === undefined) throw new TransactionError(`\`tx\` is not a supported transaction object. Pass ${known}.`)
  const fault = library.refuse(candidate)
  if (fault !== undefined) throw fault
  const made: RunStatement = async (statement) => {
    try {
      return await runInside(library, tx as unknown as Record<string, Method>, statement)
    } catch (error) {
      throw saysOver(error) ? over(error) : error
    }
  }
  const run = runs.get(tx) ?? made
  runs.set(tx, run)
  return run
}
