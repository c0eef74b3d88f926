import { Predicate } from "effect"
import type { RunStatement } from "../queue/Queue.js"
import { TransactionError } from "./ShiftErrors.js"

// Libraries are detected by properties of their transaction objects; none of them is imported. A database object in place of
// a transaction is rejected: the job would be stored immediately, even if the caller rolls back.

/**
 * A transaction as a library hands it to a callback: a `pg` client after BEGIN, or the `tx` of Drizzle, Kysely, Prisma, Knex,
 * postgres.js or TypeORM.
 */
export type Transaction =
  | { query(...args: ReadonlyArray<never>): unknown }
  | { execute(query: never): unknown; rollback(): unknown }
  | { executeQuery(query: never): unknown; readonly isTransaction: boolean }
  | { $queryRawUnsafe(text: string, ...values: ReadonlyArray<never>): unknown }
  | { raw(...args: ReadonlyArray<never>): unknown; readonly isTransaction?: boolean }
  | { unsafe(...args: ReadonlyArray<never>): unknown; savepoint(...args: ReadonlyArray<never>): unknown }

type Rows = ReadonlyArray<Readonly<Record<string, unknown>>>
type Method = (...args: ReadonlyArray<unknown>) => unknown
type Candidate = Readonly<Record<string, unknown>>

const has = (value: unknown, name: string): value is Record<string, Method> =>
  Predicate.hasProperty(value, name) && typeof value[name] === "function"

/** Drivers answer with the rows, or with an object that holds them. */
const rowsOf = (answer: unknown): Rows => (Predicate.hasProperty(answer, "rows") ? answer.rows : answer) as Rows

const notInside = (library: string, what: string, instead: string) =>
  new TransactionError(`\`tx\` is ${what} of ${library}, which is not in a transaction: give ${instead}.`)

interface Library {
  readonly matches: (tx: Candidate) => boolean
  /** The error if the object is not in a transaction. */
  readonly refuse: (tx: Candidate) => TransactionError | undefined
  readonly run: (tx: Record<string, Method>, text: string, parameter: string) => unknown
}

const prisma: Library = {
  matches: (tx) => has(tx, "$queryRawUnsafe"),
  refuse: (tx) =>
    has(tx, "$disconnect")
      ? notInside("Prisma", "the client", "the `tx` of prisma.$transaction(async (tx) => …)")
      : undefined,
  run: (tx, text, parameter) => tx.$queryRawUnsafe?.(text, parameter)
}

const postgresJs: Library = {
  matches: (tx) => has(tx, "unsafe") && (has(tx, "begin") || has(tx, "savepoint")),
  refuse: (tx) =>
    has(tx, "savepoint")
      ? undefined
      : notInside("postgres.js", "the client", "the `sql` of sql.begin(async (sql) => …)"),
  run: (tx, text, parameter) => tx.unsafe?.(text, [parameter])
}

const knex: Library = {
  matches: (tx) => has(tx, "raw") && has(tx, "transaction"),
  refuse: (tx) =>
    tx.isTransaction === true
      ? undefined
      : notInside("Knex", "the client", "the `trx` of knex.transaction(async (trx) => …)"),
  run: (tx, text, parameter) => tx.raw?.(text.replace("$1", "?"), [parameter])
}

const kysely: Library = {
  matches: (tx) => has(tx, "executeQuery") && "isTransaction" in tx,
  refuse: (tx) =>
    tx.isTransaction === true
      ? undefined
      : notInside("Kysely", "the database", "the `trx` of db.transaction().execute(async (trx) => …)"),
  run: (tx, sql, parameter) => {
    const query = { kind: "RawNode", sqlFragments: [sql], parameters: [] }
    return tx.executeQuery?.({ sql, parameters: [parameter], query, queryId: { queryId: "nightshift" } })
  }
}

const drizzle: Library = {
  matches: (tx) => has(tx, "execute") && "dialect" in tx && "session" in tx,
  refuse: (tx) =>
    has(tx, "rollback")
      ? undefined
      : notInside("Drizzle", "the database", "the `tx` of db.transaction(async (tx) => …)"),
  // Drizzle accepts any object that converts itself into text and parameters.
  run: (tx, sql, parameter) => tx.execute?.({ getSQL: () => ({ toQuery: () => ({ sql, params: [parameter] }) }) })
}

const typeorm: Library = {
  matches: (tx) => has(tx, "query") && ("isTransactionActive" in tx || has(tx, "getRepository")),
  refuse: (tx) => {
    const runner = "isTransactionActive" in tx ? tx : tx.queryRunner
    return Predicate.hasProperty(runner, "isTransactionActive") && runner.isTransactionActive === true
      ? undefined
      : notInside("TypeORM", "a manager or data source", "the manager of dataSource.transaction(async (manager) => …)")
  },
  run: (tx, text, parameter) => tx.query?.(text, [parameter])
}

const pg: Library = {
  matches: (tx) => has(tx, "query"),
  refuse: (tx) => {
    if ("totalCount" in tx) return notInside("pg", "the pool", "the client of pool.connect() after BEGIN")
    // "I" is idle. Clients before pg 8.17 do not say.
    return has(tx, "getTransactionStatus") && tx.getTransactionStatus?.() === "I"
      ? notInside("pg", "a client", "the client after BEGIN")
      : undefined
  },
  run: (tx, text, parameter) => tx.query?.(text, [parameter])
}

const libraries = [prisma, postgresJs, knex, kysely, drizzle, typeorm, pg]

const known = "a pg client, or the transaction of Drizzle, Kysely, Prisma, Knex, postgres.js or TypeORM"

/** Returns how to run a statement in the transaction. Throws TransactionError if `tx` is not a transaction. */
export const statementsOf = (tx: Transaction): RunStatement => {
  const candidate = tx as unknown as Candidate
  const isObject = (typeof tx === "object" && tx !== null) || typeof tx === "function"
  const library = isObject ? libraries.find(({ matches }) => matches(candidate)) : undefined
  if (library === undefined)
    throw new TransactionError(`\`tx\` is not a transaction that is known here: give ${known}.`)
  const fault = library.refuse(candidate)
  if (fault !== undefined) throw fault
  return async (text, parameter) => rowsOf(await library.run(tx as unknown as Record<string, Method>, text, parameter))
}
