import { Clock, Effect, Layer } from "effect"
import { makeGenerator } from "../core/Ids.js"
import { Database } from "../database/Database.js"
import { type DatabaseError, mapErrors } from "../database/DatabaseError.js"
import { fragments, millis } from "../database/SqlInstant.js"
import { limits, type SavedView, SavedViews, TooManyViews, ViewExists, ViewNotFound } from "./SavedViews.js"

/** A concurrent change may take the name; the unique constraint detects it. */
const nameConflict = (name: string) => (error: DatabaseError) =>
  error._tag === "DatabaseConflict" && error.constraint === "saved_view_name_unique" ? new ViewExists({ name }) : error

const make = Effect.gen(function* () {
  const { schema, sql, transaction } = yield* Database
  const ids = yield* makeGenerator
  const table = sql(`${schema}.saved_view`)
  const columns = sql.literal(`id, name, page, filter, ${millis("created_at")} as "createdAt"`)

  return SavedViews.of({
    list: mapErrors(sql<SavedView>`select ${columns} from ${table} order by id`).pipe(
      Effect.withSpan("SavedViews.list")
    ),
    create: Effect.fn("SavedViews.create")(function* ({ filter, name, page }) {
      const now = yield* Clock.currentTimeMillis
      // Concurrent inserts may exceed the limit by one or two. That is harmless: the limit only keeps the page
      // readable.
      const [view] = yield* mapErrors(sql<SavedView>`
        insert into ${table} (id, name, page, filter, created_at)
        select ${ids.view(now)}::uuid, ${name}::text, ${page}::text, ${JSON.stringify(filter)}::jsonb,
          ${fragments(sql).instant(now)}
        where (select count(*) from ${table}) < ${limits.views}
        on conflict on constraint saved_view_name_unique do nothing
        returning ${columns}`)
      if (view !== undefined) return view
      const namesakes = yield* mapErrors(sql`select 1 from ${table} where name = ${name}`)
      return yield* namesakes.length > 0 ? new ViewExists({ name }) : new TooManyViews({ most: limits.views })
    }),
    change: Effect.fn("SavedViews.change")((id, patch) =>
      transaction(
        Effect.gen(function* () {
          const [before] = yield* mapErrors(
            sql<SavedView>`select ${columns} from ${table} where id = ${id} for no key update`
          )
          if (before === undefined) return yield* new ViewNotFound({ id })
          const after: SavedView = { ...before, ...patch }
          yield* mapErrors(sql`
            update ${table} set name = ${after.name}, page = ${after.page}, filter = ${JSON.stringify(after.filter)}::jsonb
            where id = ${id}`).pipe(Effect.mapError(nameConflict(after.name)))
          return { before, after }
        })
      )
    ),
    remove: Effect.fn("SavedViews.remove")(function* (id) {
      const [view] = yield* mapErrors(sql<SavedView>`delete from ${table} where id = ${id} returning ${columns}`)
      return view ?? (yield* new ViewNotFound({ id }))
    })
  })
})

export const layer: Layer.Layer<SavedViews, never, Database> = Layer.effect(SavedViews, make)
