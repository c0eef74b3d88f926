import { Predicate } from "effect"
import pg from "pg"
import type { PreparedNames } from "./HotStatements.js"
import { operationOf, type StatementListener } from "./StatementTimes.js"

// What the driver's client does not do by itself: measure statements, send hot ones under a name, and know for how long the
// server has owed an answer. A middle box that stops forwarding closes nothing, so only the missing answer shows it.

/** What all connections of a pool share. */
export interface Shared {
  /** What the next connection is opened with. */
  readonly config: () => pg.ClientConfig
  readonly onConnectFailed: (error: unknown) => void
  readonly listener: StatementListener
  readonly names: PreparedNames
  readonly connections: Set<ServerConnection>
  /** Why no connection is opened any more. */
  readonly refusal: () => Error | undefined
}

/** A connection as the pool's owner sees it. */
export interface ServerConnection extends pg.Client {
  /** When the statement that is under way was sent, by `performance.now()`. */
  readonly unansweredSince: number | undefined
  /** When the server last said something. */
  readonly answeredAt: number
  /** No statement uses it, and no transaction holds it. Kept by the pool's owner. */
  idle: boolean
  /** It leads to a server that is no longer the one: it is closed when its transaction ends. Kept by the pool's owner. */
  outdated: boolean
  /** A transaction set its own `statement_timeout`: this process cannot know how long its statements may take. */
  readonly hasOwnTimeout: boolean
  /** Ends it without waiting for the server; whatever waits for an answer fails with this error. */
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

/** The class of the connections of a pool, for the driver to make them of. */
export const classOf = ({
  config: nextConfig,
  connections,
  listener,
  names,
  onConnectFailed,
  refusal
}: Shared): typeof pg.Client =>
  class extends pg.Client implements ServerConnection {
    unansweredSince: number | undefined
    answeredAt = performance.now()
    idle = false
    outdated = false
    hasOwnTimeout = false
    private underWay = 0

    constructor(config?: string | pg.ClientConfig) {
      super({ ...Object(config), ...nextConfig() })
      connections.add(this)
      this.once("end", () => connections.delete(this))
      const connect = this.connect.bind(this) as (callback: (error: Error | null) => void) => void
      this.connect = ((callback: (error: Error | null) => void) => {
        const refused = refusal()
        if (refused !== undefined) {
          connections.delete(this)
          return process.nextTick(callback, refused)
        }
        connect((error) => {
          if (error) onConnectFailed(error)
          callback(error === null ? null : (refusal() ?? error))
        })
      }) as typeof this.connect
      const plain = this.query.bind(this) as (...args: ReadonlyArray<unknown>) => unknown
      // `pg` declares `query` with ten overloads. The clients above it use those with a callback; cursors have none.
      const send = (query: unknown, ...rest: ReadonlyArray<unknown>): unknown => {
        const callback = rest.at(-1)
        const text = textOf(query)
        if (typeof callback !== "function" || text === undefined) return plain(query, ...rest)
        const name = names.of(text)
        const named =
          name === undefined ? query : typeof query === "string" ? { name, text } : { ...Object(query), name }
        const alone = this.getTransactionStatus() === "I"
        const sent = performance.now()
        this.sent(text, sent)
        return plain(named, ...rest.slice(0, -1), (...answer: ReadonlyArray<unknown>) => {
          const now = performance.now()
          this.answered(now)
          listener(operationOf(text), now - sent)
          // Inside of a transaction the error has ended that; there its owner tries the whole again.
          if (name !== undefined && names.gaveUpOn(answer[0]) && alone) return send(query, ...rest)
          callback(...answer)
        })
      }
      this.query = send as typeof this.query
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

    disconnect(error: Error): void {
      destroySocket(this, error)
    }
  }
