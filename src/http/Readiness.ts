import { Context, Effect, Layer } from "effect"
import { Lifecycle } from "../core/Lifecycle.js"
import { Database } from "../database/Database.js"
import { Migrations } from "../database/Migrations.js"
import * as RefreshedValue from "./RefreshedValue.js"

/** Why traffic should go elsewhere, and what this process was started without. */
export interface Report {
  readonly ready: boolean
  readonly reasons: ReadonlyArray<string>
  readonly off: ReadonlyArray<string>
}

/** Whether this process can do what it is here for. */
export class Readiness extends Context.Tag("nightshift/http/Readiness")<
  Readiness,
  { readonly report: Effect.Effect<Report> }
>() {
  static readonly layer: Layer.Layer<Readiness, never, Lifecycle | Database | Migrations> = Layer.scoped(
    Readiness,
    Effect.gen(function* () {
      const lifecycle = yield* Lifecycle
      const database = yield* Database
      const migrations = yield* Migrations
      // The server's own message goes to the log only: this route needs no token.
      const refused = (reason: string) => (error: unknown) => Effect.as(Effect.logDebug("not ready", error), [reason])
      const databaseReasons = Effect.gen(function* () {
        const failing = database.writes.failing()
        if (failing !== undefined) return [failing]
        const mode = yield* database.mode
        if (mode === "standby") return ["the database is a read-only standby"]
        if (mode === "read-only") return ["the database is read-only"]
        const { pending } = yield* migrations.state
        return pending.length === 0 ? [] : [`migrations are not applied (${pending.length}): run nightshift migrate`]
      }).pipe(
        Effect.timeout("2 seconds"),
        Effect.catchTags({
          SchemaTooNew: ({ code, needs }) =>
            Effect.succeed([
              `the schema needs nightshift ${needs} or later, and this is ${code}: upgrade this process`
            ]),
          SchemaForeign: refused("the schema was built by another set of migrations: run nightshift doctor"),
          SchemaUnreleased: refused("the schema was created by an unreleased version: run nightshift doctor"),
          DatabaseFault: refused("the database refuses to be read: run nightshift doctor")
        }),
        Effect.catchAll(refused("the database does not answer"))
      )
      // Anybody may ask, as often as they like: the database is asked once a second.
      const shared = yield* RefreshedValue.make(databaseReasons, "1 second", "2 seconds")
      // The first request finds the answer ready: the database answers while the rest of the service is built.
      yield* Effect.forkScoped(shared)
      return {
        report: Effect.map(Effect.all([lifecycle.draining, shared]), ([draining, { value: reasons }]) =>
          reportOf(draining, reasons, [])
        )
      }
    })
  )

  /** For a process that runs without a database by choice. */
  static readonly layerWithoutDatabase: Layer.Layer<Readiness, never, Lifecycle> = Layer.effect(
    Readiness,
    Effect.map(Lifecycle, (lifecycle) => ({
      report: Effect.map(lifecycle.draining, (draining) => reportOf(draining, [], ["queue", "crew", "uploads"]))
    }))
  )
}

const reportOf = (draining: boolean, others: ReadonlyArray<string>, off: ReadonlyArray<string>): Report => {
  const reasons = draining ? ["shutting down", ...others] : others
  return { ready: reasons.length === 0, reasons, off }
}
