import { Clock, Effect, Layer, Schema } from "effect"
import { FollowUp } from "../core/Job.js"
import { Database } from "../database/Database.js"
import { mapErrors } from "../database/DatabaseError.js"
import { UnknownKind } from "./JobErrors.js"
import { Kinds, type RegisteredKind } from "./Kinds.js"

interface KindRow {
  readonly name: string
  readonly queue: string
  readonly routed: boolean
  readonly version: number
  readonly max_attempts: number
  readonly on_dead: unknown
}

const decodeFollowUp = Schema.decodeUnknownSync(FollowUp)

const toKind = (row: KindRow): RegisteredKind => ({
  name: row.name,
  queue: row.queue,
  ...(row.routed ? { routed: true } : {}),
  version: row.version,
  maxAttempts: row.max_attempts,
  onDead: row.on_dead === null ? undefined : decodeFollowUp(row.on_dead)
})

const make = Effect.gen(function* () {
  const { schema, sql } = yield* Database
  const table = sql(`${schema}.kind`)

  const registerOne = (kind: RegisteredKind, now: number) => {
    const at = sql`pg_catalog.to_timestamp(${now}::float8 / 1000)`
    const onDead = kind.onDead === undefined ? null : JSON.stringify(kind.onDead)
    // During a rolling deploy the newer version stands, whichever pod speaks last.
    return sql`
      insert into ${table} as known (name, queue, routed, version, max_attempts, on_dead, registered_at, updated_at)
      values (${kind.name}, ${kind.queue}, ${kind.routed === true}, ${kind.version}, ${kind.maxAttempts}, ${onDead}::jsonb,
        ${at}, ${at})
      on conflict (name) do update set queue = excluded.queue, routed = excluded.routed,
        version = excluded.version, max_attempts = excluded.max_attempts, on_dead = excluded.on_dead, updated_at = excluded.updated_at
      where excluded.version >= known.version`
  }

  return Kinds.of({
    register: (kinds) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const byName = [...kinds].sort((a, b) => (a.name < b.name ? -1 : 1))
        yield* mapErrors(Effect.forEach(byName, (kind) => registerOne(kind, now), { discard: true }))
      }),
    find: (name) =>
      Effect.gen(function* () {
        const rows = yield* mapErrors(sql<KindRow>`select * from ${table} where name = ${name}`)
        return rows[0] === undefined ? yield* new UnknownKind({ kind: name }) : toKind(rows[0])
      }),
    all: Effect.map(mapErrors(sql<KindRow>`select * from ${table} order by name`), (rows) => rows.map(toKind))
  })
})

export const layer: Layer.Layer<Kinds, never, Database> = Layer.effect(Kinds, make)
