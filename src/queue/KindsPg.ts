import { Clock, Effect, Layer, Schema } from "effect"
import { FollowUp } from "../core/StoredJob.js"
import { Database } from "../database/Database.js"
import { mapErrors } from "../database/DatabaseError.js"
import { fragments } from "../database/SqlInstant.js"
import { UnknownKind } from "./JobErrors.js"
import { Kinds, type RegisteredKind } from "./Kinds.js"

interface KindRow {
  readonly name: string
  readonly queue: string
  readonly routed: boolean
  readonly version: number
  readonly max_attempts: number
  readonly on_dead: unknown
  /** As text: the compiled schema is cached by its text. */
  readonly schema: string | null
}

const decodeFollowUp = Schema.decodeUnknownSync(FollowUp)

const columns = "name, queue, routed, version, max_attempts, on_dead, schema::text as schema"

const toKind = (row: KindRow): RegisteredKind => ({
  name: row.name,
  queue: row.queue,
  ...(row.routed ? { routed: true } : {}),
  version: row.version,
  maxAttempts: row.max_attempts,
  onDead: row.on_dead === null ? undefined : decodeFollowUp(row.on_dead),
  schema: row.schema ?? undefined
})

const make = Effect.gen(function* () {
  const { schema, sql } = yield* Database
  const table = sql(`${schema}.kind`)
  const known = sql.literal(columns)
  const own = new Map<string, RegisteredKind>()

  /** Converts a row, with this process's own check if it has the same version. */
  const ofRow = (row: KindRow): RegisteredKind => {
    const kind = toKind(row)
    const registeredHere = own.get(kind.name)
    return registeredHere?.check === undefined || registeredHere.version !== kind.version
      ? kind
      : { ...kind, check: registeredHere.check }
  }

  const registerOne = (kind: RegisteredKind, now: number) => {
    const at = fragments(sql).instant(now)
    const onDead = kind.onDead === undefined ? null : JSON.stringify(kind.onDead)
    // During a rolling deploy the newer version wins, regardless of which pod registers last.
    return sql`
      insert into ${table} as known
        (name, queue, routed, version, max_attempts, on_dead, schema, registered_at, updated_at)
      values (${kind.name}, ${kind.queue}, ${kind.routed === true}, ${kind.version}, ${kind.maxAttempts}, ${onDead}::jsonb,
        ${kind.schema ?? null}::jsonb, ${at}, ${at})
      on conflict (name) do update set queue = excluded.queue, routed = excluded.routed, version = excluded.version,
        max_attempts = excluded.max_attempts, on_dead = excluded.on_dead, schema = excluded.schema,
        updated_at = excluded.updated_at
      where excluded.version >= known.version`
  }

  return Kinds.of({
    register: (kinds) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const byName = [...kinds].sort((a, b) => (a.name < b.name ? -1 : 1))
        for (const kind of kinds) own.set(kind.name, kind)
        yield* mapErrors(Effect.forEach(byName, (kind) => registerOne(kind, now), { discard: true }))
      }),
    find: (name) =>
      Effect.gen(function* () {
        const rows = yield* mapErrors(sql<KindRow>`select ${known} from ${table} where name = ${name}`)
        return rows[0] === undefined ? yield* new UnknownKind({ kind: name }) : ofRow(rows[0])
      }),
    all: Effect.map(mapErrors(sql<KindRow>`select ${known} from ${table} order by name`), (rows) => rows.map(ofRow))
  })
})

export const layer: Layer.Layer<Kinds, never, Database> = Layer.effect(Kinds, make)
