import { Context, Effect, Layer } from "effect"
import * as CoalescingCache from "../../core/CoalescingCache.js"
import { Lifecycle } from "../../core/Lifecycle.js"
import { Database } from "../../database/Database.js"
import { Migrations } from "../../database/Migrations.js"

/** The reasons for not being ready, and the features that are off in this process. */
export interface Report {
  readonly ready: boolean
  readonly reasons: ReadonlyArray<string>
  readonly off: ReadonlyArray<string>
}

/** Whether this process can serve requests. */
export class Readiness extends Context.Tag("nightshift/http/Readiness")<
  Readiness,
  {
    readonly report: Effect.Effect<Report>
    /** Says that the worker has declared its kinds, queues, routes and schedules. The process is not ready before. */
    readonly declared: Effect.Effect<void>
  }
>() {
  static readonly layer: Layer.Layer<Readiness, never, Lifecycle | Database | Migrations> = Layer.scoped(
    Readiness,
    Effect.gen(function* () {
      const lifecycle = yield* Lifecycle
      const declared = yield* lifecycle.startsAfter("kinds, queues, routes and schedules are not declared")
      const database = yield* Database
      const migrations = yield* Migrations
      // Log PostgreSQL's message and do not return it: this route needs no token.
      const refused = (reason: string) => (error: unknown) => Effect.as(Effect.logDebug("not ready", error), [reason])
      const databaseReasons = Effect.gen(function* () {
        const failing = database.writes.failing()
        if (failing !== undefined) return [failing]
        const mode = yield* database.mode
        if (mode === "standby") return ["the database is a read-only standby"]
        if (mode === "read-only") return ["the database is read-only"]
        const { pending } = yield* migrations.state
        return pending.length === 0 ? [] : [`migrations are pending (${pending.length}): run nightshift migrate`]
      }).pipe(
        Effect.timeout("2 seconds"),
        Effect.catchTags({
          SchemaTooNew: ({ code, needs }) =>
            Effect.succeed([
              `the schema requires nightshift ${needs} or later, but this process is ${code}: upgrade it`
            ]),
          SchemaForeign: refused("the schema was created by a different set of migrations: run nightshift doctor"),
          SchemaUnreleased: refused("the schema was created by an unreleased version: run nightshift doctor"),
          DatabaseFault: refused("the database rejects queries: run nightshift doctor")
        }),
        Effect.catchAll(refused("the database is not responding"))
      )
      // The route is open and may be polled at any rate, so the database is checked at most once a second.
      const shared = yield* CoalescingCache.refreshed(databaseReasons, "1 second", "2 seconds")
      // Start the first check now, so that its result is ready for the first request.
      yield* Effect.forkScoped(shared)
      return {
        report: Effect.flatMap(shared, ({ value: reasons }) => reportOf(lifecycle, reasons, [])),
        declared
      }
    })
  )

  /** For a process started without a database. */
  static readonly layerWithoutDatabase: Layer.Layer<Readiness, never, Lifecycle> = Layer.effect(
    Readiness,
    Effect.map(Lifecycle, (lifecycle) => ({
      report: reportOf(lifecycle, [], ["queue", "worker", "uploads"]),
      declared: Effect.void
    }))
  )
}

const reportOf = (
  { draining, starting }: typeof Lifecycle.Service,
  others: ReadonlyArray<string>,
  off: ReadonlyArray<string>
): Effect.Effect<Report> =>
  Effect.map(Effect.all([draining, starting]), ([isDraining, missing]) => {
    const reasons = [...(isDraining ? ["shutting down"] : []), ...missing.map((what) => `starting: ${what}`), ...others]
    return { ready: reasons.length === 0, reasons, off }
  })
