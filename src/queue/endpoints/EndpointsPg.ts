import { Effect, Layer } from "effect"
import { Database } from "../../database/Database.js"
import { mapErrors } from "../../database/DatabaseError.js"
import { fragments, millis } from "../../database/SqlInstant.js"
import type { EndpointRow } from "./Endpoint.js"
import { type EndpointStore, Endpoints, make } from "./Endpoints.js"

type Nullable<A> = { readonly [K in keyof A]: undefined extends A[K] ? Exclude<A[K], undefined> | null : A[K] }

const rowOf = (row: Nullable<EndpointRow>): EndpointRow =>
  Object.fromEntries(Object.entries(row).map(([name, value]) => [name, value ?? undefined])) as unknown as EndpointRow

const store = Effect.map(Database, ({ schema, sql, transaction }): EndpointStore => {
  const table = sql(`${schema}.endpoint`)
  const { instant } = fragments(sql)
  const columns = sql.literal(`id, ${millis("created_at")} as "createdAt", url, customer, description, types, secrets,
    ${millis("disabled_at")} as "disabledAt", disabled_because as "disabledBecause",
    ${millis("first_failed_at")} as "firstFailedAt", failures, last_error as "lastError"`)
  const firstOf = (rows: ReadonlyArray<Nullable<EndpointRow>>) => (rows[0] === undefined ? undefined : rowOf(rows[0]))
  const typesOf = ({ types }: EndpointRow) => sql`${types === undefined ? null : [...types]}::text[]`

  return {
    insert: (row) =>
      Effect.asVoid(
        mapErrors(sql`
          insert into ${table} (id, created_at, url, customer, description, types, secrets)
          values (${row.id}, ${instant(row.createdAt)}, ${row.url}, ${row.customer ?? null}, ${row.description},
            ${typesOf(row)}, ${JSON.stringify(row.secrets)}::jsonb)`)
      ),
    find: (id) =>
      Effect.map(mapErrors(sql<Nullable<EndpointRow>>`select ${columns} from ${table} where id = ${id}`), firstOf),
    edit: (id, change) =>
      transaction(
        Effect.gen(function* () {
          const locked = sql<Nullable<EndpointRow>>`select ${columns} from ${table} where id = ${id} for no key update`
          const before = firstOf(yield* mapErrors(locked))
          if (before === undefined) return undefined
          const after = change(before)
          yield* mapErrors(sql`
            update ${table} set url = ${after.url}, description = ${after.description}, types = ${typesOf(after)},
              secrets = ${JSON.stringify(after.secrets)}::jsonb, disabled_at = ${instant(after.disabledAt)},
              disabled_because = ${after.disabledBecause ?? null}, first_failed_at = ${instant(after.firstFailedAt)},
              failures = ${after.failures}, last_error = ${after.lastError ?? null}
            where id = ${id}`)
          return { before, after }
        })
      ),
    remove: (id) =>
      Effect.map(
        mapErrors(sql<Nullable<EndpointRow>>`delete from ${table} where id = ${id} returning ${columns}`),
        firstOf
      ),
    page: ({ cursor, customer, limit, standing }) => {
      const states = {
        healthy: sql`disabled_at is null and first_failed_at is null`,
        failing: sql`disabled_at is null and first_failed_at is not null`,
        disabled: sql`disabled_at is not null`
      }
      const wanted = [
        ...(cursor === undefined ? [] : [sql`id < ${cursor}::uuid`]),
        ...(customer === undefined ? [] : [sql`customer = ${customer}`]),
        ...(standing === undefined ? [] : [states[standing]])
      ]
      const rows = sql<Nullable<EndpointRow>>`
        select ${columns} from ${table} where ${sql.and([sql`true`, ...wanted])} order by id desc limit ${limit}`
      return Effect.map(mapErrors(rows), (found) => found.map(rowOf))
    },
    targets: (customer, type) => {
      const owned = customer === undefined ? sql`customer is null` : sql`customer = ${customer}`
      const rows = sql<{ id: string }>`
        select id from ${table} where ${owned} and (types is null or ${type} = any(types)) order by id`
      return Effect.map(mapErrors(rows), (found) => found.map(({ id }) => id))
    }
  }
})

/** Endpoints in PostgreSQL. */
export const layer: Layer.Layer<Endpoints, never, Database> = Layer.effect(Endpoints, Effect.flatMap(store, make))
