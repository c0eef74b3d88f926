import { Context, Effect, Exit, Layer, Redacted, Scope } from "effect"
import pg from "pg"
import * as EmbeddedPostgres from "../../src/database/embedded/EmbeddedPostgres.js"

/** A durable PostgreSQL that can be stopped and started again at the same address. */
export interface RestartableServer extends Queried {
  /** Stops it as an operator would, and starts it again. */
  readonly restart: Effect.Effect<void>
  readonly stop: Effect.Effect<void>
  readonly start: Effect.Effect<void>
}

export interface Queried {
  readonly url: string
  readonly query: <Row extends object>(text: string) => Effect.Effect<ReadonlyArray<Row>>
}

/** A database by its URL. */
export const at = (url: string): Queried => ({
  url,
  query: (text) =>
    Effect.promise(async () => {
      const client = new pg.Client({ connectionString: url })
      client.on("error", () => {})
      await client.connect()
      try {
        return (await client.query(text)).rows
      } finally {
        await client.end()
      }
    })
})

export const make = (directory: string): Effect.Effect<RestartableServer, never, Scope.Scope> =>
  Effect.gen(function* () {
    let current: Scope.CloseableScope | undefined
    const start = Effect.gen(function* () {
      const scope = yield* Scope.make()
      current = scope
      const services = yield* Layer.buildWithScope(EmbeddedPostgres.layerDurable(directory), scope)
      return Redacted.value(Context.get(services, EmbeddedPostgres.EmbeddedPostgres).url)
    }).pipe(Effect.orDie)
    const stop = Effect.suspend(() => (current === undefined ? Effect.void : Scope.close(current, Exit.void)))
    const url = yield* start
    yield* Effect.addFinalizer(() => stop)
    const again = Effect.map(start, (found) => {
      if (found !== url) throw new Error("it came back elsewhere")
    })
    return { ...at(url), stop, start: again, restart: Effect.zipRight(stop, again) }
  })
