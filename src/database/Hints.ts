import { randomBytes } from "node:crypto"
import * as SqlClient from "@effect/sql/SqlClient"
import { Context, Effect, Layer, Option, type Scope, Stream } from "effect"
import { untilClosed } from "../core/Registration.js"
import { Database } from "./Database.js"
import { type DatabaseError, mapErrors } from "./DatabaseError.js"
import { Listener } from "./Listener.js"

// Hints that make other pods react before their next poll, sent on one channel as `<topic> <subject>`. Listeners in the
// same process are called directly, so they work even without LISTEN. A hint may arrive twice or not at all. Every
// role that can connect to the database can send one, so a listener must check the database before it acts.

/** Hints between the processes of the cluster. */
export class Hints extends Context.Tag("nightshift/database/Hints")<
  Hints,
  {
    /** Differs between processes. A subject that names it shows who sent the hint. */
    readonly sender: string

    /** Sends a hint to all processes, including this one. Inside a transaction it is sent on commit. */
    readonly publish: (topic: string, subject: string) => Effect.Effect<void, DatabaseError>

    /** Calls the listeners of this process only. */
    readonly tell: (topic: string, subject: string) => void

    /**
     * Calls the listener for each hint on a topic until the Scope closes. The subject is undefined when hints may
     * have been missed.
     */
    readonly subscribe: (
      topic: string,
      listener: (subject: string | undefined) => void
    ) => Effect.Effect<void, never, Scope.Scope>

    /** Whether hints from other processes arrive. While they do not, poll more often. */
    readonly connected: Effect.Effect<boolean>
  }
>() {
  /** Hints within one process. */
  static readonly layerLocal: Layer.Layer<Hints> = Layer.sync(Hints, () => {
    const { call, subscribe } = makeSubscribers()
    return {
      sender: makeSender(),
      publish: (topic, subject) => Effect.sync(() => call(topic, subject)),
      tell: call,
      subscribe,
      connected: Effect.succeed(true)
    }
  })

  /** Hints between processes through NOTIFY. */
  static readonly layer: Layer.Layer<Hints, never, Database | Listener> = Layer.scoped(
    Hints,
    Effect.gen(function* () {
      const { schema, sql } = yield* Database
      const listener = yield* Listener
      const { call, callAll, subscribe } = makeSubscribers()
      const channel = `${schema}_hint`

      const messages = yield* listener.subscribe(channel)
      yield* Stream.fromQueue(messages).pipe(
        Stream.runForEach((message) =>
          Effect.sync(() => {
            if (message._tag === "Resumed") return callAll()
            const [topic = "", ...subject] = message.payload.split(" ")
            call(topic, subject.join(" "))
          })
        ),
        Effect.forkScoped
      )

      const inTransaction = (topic: string, subject: string) =>
        mapErrors(Effect.asVoid(sql`select pg_notify(${channel}, ${`${topic} ${subject}`})`))
      // A hint need not survive a crash of the server, so its commit does not wait for the disk.
      const alone = (topic: string, subject: string) =>
        mapErrors(
          Effect.asVoid(
            sql`select set_config('synchronous_commit', 'off', true), pg_notify(${channel}, ${`${topic} ${subject}`})`
          )
        )

      return {
        sender: makeSender(),
        tell: call,
        publish: (topic, subject) =>
          Effect.flatMap(Effect.serviceOption(SqlClient.TransactionConnection), (outer) => {
            if (Option.isSome(outer)) return inTransaction(topic, subject)
            call(topic, subject)
            return Effect.catchAll(alone(topic, subject), (error) =>
              Effect.logDebug(
                "could not send a hint to the other processes; they will notice at their next poll",
                error
              )
            )
          }),
        subscribe,
        connected: listener.connected
      }
    })
  )
}

const makeSender = () => randomBytes(6).toString("hex")

const makeSubscribers = () => {
  // One wrapper per registration, so that a function registered twice is called twice and removed once per Scope.
  const subscribers = new Set<{ readonly topic: string; readonly listener: (subject: string | undefined) => void }>()
  return {
    call: (topic: string, subject: string) => {
      for (const subscriber of [...subscribers]) if (subscriber.topic === topic) subscriber.listener(subject)
    },
    callAll: () => {
      for (const subscriber of [...subscribers]) subscriber.listener(undefined)
    },
    subscribe: (topic: string, listener: (subject: string | undefined) => void) => {
      const own = { topic, listener }
      return untilClosed(
        () => void subscribers.add(own),
        () => void subscribers.delete(own)
      )
    }
  }
}
