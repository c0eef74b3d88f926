import { Predicate } from "effect"
import pg from "pg"
import { isUnanswered } from "./DatabaseError.js"
import { type Description, PreparedQuery } from "./PreparedQuery.js"
import { mayWrite, operationOf, type PreparedNames, type StatementListener } from "./Statements.js"

// Extends the driver's client: measures statements, sends hot statements as prepared ones, and tracks how long the
// server has not answered. A network device that stops forwarding packets does not close the connection, so the missing
// answer is the only sign of it.

export interface Shared {
  /** Options for the next connection. */
  readonly config: () => pg.ClientConfig
  /** Called with the options of the connection. */
  readonly onConnectFailed: (error: unknown, options: pg.ClientConfig) => void
  /** Checks a new connection with its options. Returns why it must not be used, or undefined. */
  readonly check: (client: pg.ClientBase, options: pg.ClientConfig) => Promise<Error | undefined>
  readonly listener: StatementListener
  /** Called with the text and the error, if any, of every statement that was answered. */
  readonly onAnswer: (text: string, error: unknown) => void
  readonly names: PreparedNames
  readonly connections: Set<ServerConnection>
  /** The error if no more connections may be opened. */
  readonly refusal: () => Error | undefined
}

export interface ServerConnection extends pg.Client {
  /** When the current statement was sent, by `performance.now()`. */
  readonly unansweredSince: number | undefined
  /** When the server last answered. */
  readonly answeredAt: number
  /** Whether the connection is in the pool, used by no statement or transaction. Set by the pool's owner. */
  idle: boolean
  /** Whether the connection leads to an old server and must be closed on release. Set by the pool's owner. */
  outdated: boolean
  /** Whether a pooler is in between, which may lose names of prepared statements. Set when the connection is checked. */
  pooled: boolean
  /** Whether the transaction set its own `statement_timeout`, so that the time limit of its statements is unknown. */
  readonly hasOwnTimeout: boolean
  /** Closes the connection without waiting for the server. Pending statements fail with this error. */
  readonly disconnect: (error: Error) => void
}

const textOf = (query: unknown): string | undefined => {
  if (typeof query === "string") return query
  return Predicate.hasProperty(query, "text") && typeof query.text === "string" ? query.text : undefined
}

const setsTimeout = (text: string) =>
  text.length < 200 && /\bset\s+(local\s+|session\s+)?statement_timeout\b/i.test(text)
const endsTransaction = (text: string) => text === "COMMIT" || text === "ROLLBACK"

/** Closes a connection without notifying the server. The driver's types do not expose its socket. */
export const destroySocket = (client: pg.Client, error?: Error): void => {
  const { connection } = client as unknown as { connection: { stream: { destroy: (error?: Error) => void } } }
  connection.stream.destroy(error)
}

/** Returns the client class that the driver's pool instantiates. */
export const clientClass = ({
  check,
  config: nextConfig,
  connections,
  listener,
  names,
  onAnswer,
  onConnectFailed,
  refusal
}: Shared): typeof pg.Client =>
  class extends pg.Client implements ServerConnection {
    unansweredSince: number | undefined
    answeredAt = performance.now()
    idle = false
    outdated = false
    pooled = false
    hasOwnTimeout = false
    private underWay = 0
    /** The statement that takes effect when the server receives it, until the server answers. */
    private committing: string | undefined
    private readonly descriptions = new Map<string, Description>()

    constructor(config?: string | pg.ClientConfig) {
      const options = nextConfig()
      super({ ...Object(config), ...options })
      connections.add(this)
      this.once("end", () => connections.delete(this))
      // A connection may break while it is checked, handed over, or between two statements of a transaction. Its next
      // statement then fails with the error. Without a listener, the `error` event would end the process.
      this.on("error", (error) => this.lost(error))
      const connect = this.connect.bind(this) as (callback: (error: Error | null) => void) => void
      this.connect = ((callback: (error: Error | null) => void) => {
        const refused = refusal()
        if (refused !== undefined) {
          connections.delete(this)
          return process.nextTick(callback, refused)
        }
        const failed = (error: Error) => {
          onConnectFailed(error, options)
          callback(refusal() ?? error)
        }
        connect((error) => {
          if (error !== null) return failed(error)
          // The check is part of connecting, so DATABASE_CONNECT_TIMEOUT includes it. The pool's option `verify` has no
          // time limit, and hands a connection to a caller that has timed out in the meantime.
          check(this, options).then(
            (fault) => {
              if (fault !== undefined) destroySocket(this)
              callback(fault ?? null)
            },
            (error) => {
              destroySocket(this)
              failed(error)
            }
          )
        })
      }) as typeof this.connect
      const plain = this.query.bind(this) as (...args: ReadonlyArray<unknown>) => unknown
      // `pg` declares ten overloads of `query`. The SQL client and the pool use those with a callback; cursors have
      // none.
      const send = (query: unknown, ...rest: ReadonlyArray<unknown>): unknown => {
        const callback = rest.at(-1)
        const text = textOf(query)
        if (typeof callback !== "function" || text === undefined) return plain(query, ...rest)
        const alone = this.getTransactionStatus() === "I"
        // A lost name inside a transaction would abort it, so a pooler must not see one there.
        const name = this.pooled && !alone ? undefined : names.of(text)
        const given = rest.slice(0, -1)
        const asked = name === undefined ? [query, ...given] : [this.prepared(name, text, query, given[0])]
        const sent = performance.now()
        this.sent(text, sent)
        const commits = alone || text === "COMMIT"
        if (commits) this.committing = text
        return plain(...asked, (...answer: ReadonlyArray<unknown>) => {
          const now = performance.now()
          this.answered(now)
          if (answer[0]) this.lost(answer[0])
          if (commits) this.committing = undefined
          listener(operationOf(text), now - sent)
          onAnswer(text, answer[0])
          // Only outside a transaction. Inside one, the error has aborted the transaction, and its owner must retry it
          // as a whole.
          if (name !== undefined && names.lostBy(answer[0]) && alone) return send(query, ...rest)
          callback(...answer)
        })
      }
      this.query = send as typeof this.query
    }

    private prepared(name: string, text: string, query: unknown, values: unknown): PreparedQuery {
      const config = typeof query === "string" ? { text } : Object(query)
      return new PreparedQuery({ values, ...config, name }, this.descriptions)
    }

    private sent(text: string, now: number): void {
      if (this.underWay === 0) this.unansweredSince = now
      this.underWay += 1
      if (setsTimeout(text)) this.hasOwnTimeout = true
      else if (endsTransaction(text)) this.hasOwnTimeout = false
    }

    private answered(now: number): void {
      this.underWay -= 1
      this.answeredAt = now
      this.unansweredSince = this.underWay === 0 ? undefined : now
    }

    /** The pool reports a lost connection to the caller of a statement before the statement's own error arrives. */
    private lost(error: unknown): void {
      if (this.committing === undefined || !mayWrite(this.committing)) return
      if (isUnanswered(Object(error))) Object.assign(Object(error), { mayBeWritten: true })
    }

    disconnect(error: Error): void {
      destroySocket(this, error)
    }
  }
