import * as SqlClient from "@effect/sql/SqlClient"
import { Context, Effect, Layer, Option, type Scope, Stream } from "effect"
import { Database } from "./Database.js"
import { type DatabaseError, mapErrors } from "./DatabaseError.js"
import { Listener } from "./Listener.js"

// News that should not wait for the next look, on a channel of its own: `<topic> <subject>`. In this process it is called
// out directly, so that it arrives although nobody can LISTEN. Heard twice, it must do no harm; unheard, it is found by
// looking. Whoever can connect to the database can say anything here, so a hearer looks before it acts.

/** Tells every process of the cluster that something is worth a look. */
export class Signals extends Context.Tag("nightshift/database/Signals")<
  Signals,
  {
    /** Says it to all, this process included. In a caller's transaction it is said when that commits. */
    readonly tell: (topic: string, subject: string) => Effect.Effect<void, DatabaseError>

    /** Calls back with what is said on a topic until the Scope closes; with nothing when something may have been missed. */
    readonly hear: (
      topic: string,
      listener: (subject: string | undefined) => void
    ) => Effect.Effect<void, never, Scope.Scope>

    /** Whether what other processes say arrives; while it does not, look more often. */
    readonly connected: Effect.Effect<boolean>
  }
>() {
  /** Within one process. */
  static readonly layerLocal: Layer.Layer<Signals> = Layer.sync(Signals, () => {
    const { call, hear } = makeHearers()
    return { tell: (topic, subject) => Effect.sync(() => call(topic, subject)), hear, connected: Effect.succeed(true) }
  })

  /** Between processes by NOTIFY. */
  static readonly layer: Layer.Layer<Signals, never, Database | Listener> = Layer.scoped(
    Signals,
    Effect.gen(function* () {
      const { schema, sql } = yield* Database
      const listener = yield* Listener
      const { call, callAll, hear } = makeHearers()
      const channel = `${schema}_signal`

      const heard = yield* listener.hear(channel)
      yield* Stream.fromQueue(heard).pipe(
        Stream.runForEach((message) =>
          Effect.sync(() => {
            if (message._tag === "Resumed") return callAll()
            const [topic = "", ...subject] = message.payload.split(" ")
            call(topic, subject.join(" "))
          })
        ),
        Effect.forkScoped
      )

      const notify = (topic: string, subject: string) =>
        mapErrors(Effect.asVoid(sql`select pg_notify(${channel}, ${`${topic} ${subject}`})`))

      return {
        tell: (topic, subject) =>
          Effect.flatMap(Effect.serviceOption(SqlClient.TransactionConnection), (outer) => {
            if (Option.isSome(outer)) return notify(topic, subject)
            call(topic, subject)
            return Effect.catchAll(notify(topic, subject), (error) =>
              Effect.logDebug("other pods were not told; they find out by looking", error)
            )
          }),
        hear,
        connected: listener.connected
      }
    })
  )
}

const makeHearers = () => {
  // A wrapper per registration, so that a function that listens twice is called twice and leaves one at a time.
  const hearers = new Set<{ readonly topic: string; readonly listener: (subject: string | undefined) => void }>()
  return {
    call: (topic: string, subject: string) => {
      for (const hearer of [...hearers]) if (hearer.topic === topic) hearer.listener(subject)
    },
    callAll: () => {
      for (const hearer of [...hearers]) hearer.listener(undefined)
    },
    hear: (topic: string, listener: (subject: string | undefined) => void) => {
      const own = { topic, listener }
      return Effect.acquireRelease(
        Effect.sync(() => void hearers.add(own)),
        () => Effect.sync(() => void hearers.delete(own))
      )
    }
  }
}
