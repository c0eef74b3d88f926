import { Clock, Effect, Layer, Schema } from "effect"
import { computed, FollowUp } from "../core/StoredJob.js"
import { Database } from "../database/Database.js"
import { mapErrors } from "../database/DatabaseError.js"
import { fragments } from "../database/SqlInstant.js"
import { Tally } from "../telemetry/Tally.js"
import { UnknownKind } from "./JobErrors.js"
import { Kinds, preferIn, type RegisteredKind } from "./Kinds.js"

interface KindRow {
  readonly name: string
  readonly queue: string
  readonly routed: boolean
  readonly version: number
  readonly max_attempts: number
  readonly priority: number
  readonly workflow: boolean
  readonly on_dead: unknown
  /** As text: the compiled schema is cached by its text. */
  readonly schema: string | null
}

const decodeOnDead = Schema.decodeUnknownSync(Schema.Union(FollowUp, Schema.Literal(computed)))

const columns = "name, queue, routed, version, max_attempts, priority, workflow, on_dead, schema::text as schema"

const toKind = (row: KindRow): RegisteredKind => ({
  name: row.name,
  queue: row.queue,
  ...(row.routed ? { routed: true } : {}),
  version: row.version,
  attempts: row.max_attempts,
  ...(row.priority === 0 ? {} : { priority: row.priority }),
  ...(row.workflow ? { workflow: true } : {}),
  onDead: row.on_dead === null ? undefined : decodeOnDead(row.on_dead),
  schema: row.schema ?? undefined
})

const make = Effect.gen(function* () {
  const { schema, sql } = yield* Database
  const tally = yield* Tally
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

  /** One statement, so that a process serves all of its kinds or none. In the order of names, against deadlocks. */
  const registerAll = (kinds: ReadonlyArray<RegisteredKind>, now: number) => {
    const at = fragments(sql).instant(now)
    const rows = kinds.map((kind) => ({
      name: kind.name,
      queue: kind.queue,
      routed: kind.routed === true,
      version: kind.version,
      max_attempts: kind.attempts,
      priority: kind.priority ?? 0,
      workflow: kind.workflow === true,
      on_dead: kind.onDead ?? null,
      // As text: JavaScript would round its large numbers.
      schema: kind.schema ?? null
    }))
    // During a rolling deploy the newer version wins, regardless of which pod registers last.
    return sql`
      insert into ${table} as known
        (name, queue, routed, version, max_attempts, priority, workflow, on_dead, schema, registered_at, updated_at)
      select name, queue, routed, version, max_attempts, priority, workflow, on_dead, schema::jsonb, ${at}, ${at}
      from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb)
        as given (name text, queue text, routed boolean, version int, max_attempts int, priority int,
          workflow boolean, on_dead jsonb, schema text)
      order by name
      on conflict (name) do update set queue = excluded.queue, routed = excluded.routed, version = excluded.version,
        max_attempts = excluded.max_attempts, priority = excluded.priority, workflow = excluded.workflow,
        on_dead = excluded.on_dead, schema = excluded.schema, updated_at = excluded.updated_at
      where excluded.version >= known.version`
  }

  return Kinds.of({
    register: (kinds) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        for (const kind of kinds) own.set(kind.name, kind)
        preferIn(tally, kinds)
        if (kinds.length > 0) yield* mapErrors(registerAll(kinds, now))
      }),
    find: (name) =>
      Effect.gen(function* () {
        const rows = yield* mapErrors(sql<KindRow>`select ${known} from ${table} where name = ${name}`)
        if (rows[0] === undefined) return yield* new UnknownKind({ kind: name })
        const kind = ofRow(rows[0])
        preferIn(tally, [kind])
        return kind
      }),
    all: Effect.map(mapErrors(sql<KindRow>`select ${known} from ${table} order by name`), (rows) => rows.map(ofRow))
  })
})

export const layer: Layer.Layer<Kinds, never, Database> = Layer.effect(Kinds, make)
