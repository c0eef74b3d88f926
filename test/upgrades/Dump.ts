import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { Effect, Layer, Option, Redacted, type Scope } from "effect"
import pg from "pg"
import { Database } from "../../src/database/Database.js"
import { DatabaseConfig } from "../../src/database/DatabaseConfig.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as Migrations from "../../src/database/Migrations.js"
import * as Package from "../../src/database/Package.js"
import * as Nightshift from "../support/Nightshift.js"
import * as Release from "./Release.js"

/** The rows of a database of 0.1.0, with jobs in every state. `npm run dump` makes the file; see MakeDump.ts. */
export const file = fileURLToPath(new URL("0.1.0.sql", import.meta.url))

/** What the dump waits for, such as retries and sleeps, is due this long after it was taken. */
export const dueAfterSeconds = 3_600

export const connected = <A>(url: Redacted.Redacted, use: (client: pg.Client) => Promise<A>): Effect.Effect<A> =>
  Effect.promise(async () => {
    const client = new pg.Client({ connectionString: Redacted.value(url) })
    await client.connect()
    try {
      await client.query("set search_path = nightshift; set timezone = 'UTC'; set bytea_output = 'hex'")
      return await use(client)
    } finally {
      await client.end()
    }
  })

/** The tables with rows, those that refer to others last. */
const tables = `
  select c.relname as name, array_agg(quote_ident(a.attname) order by a.attnum) as columns,
    (select array_agg(quote_ident(k.attname) order by k.attnum) from pg_index i
     join pg_attribute k on k.attrelid = c.oid and k.attnum = any(i.indkey) where i.indrelid = c.oid and i.indisprimary) as key
  from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  where c.relnamespace = 'nightshift'::regnamespace and c.relkind = 'r' and c.relname <> 'migration'
  group by c.oid, c.relname order by exists (select from pg_constraint f where f.conrelid = c.oid and f.contype = 'f'), c.relname`

interface Table {
  readonly name: string
  readonly columns: ReadonlyArray<string>
  readonly key: ReadonlyArray<string>
}

export type Contents = Readonly<Record<string, ReadonlyArray<Readonly<Record<string, string | null>>>>>

/** Every row of every table except `migration`, as text, by primary key. */
export const read = (url: Redacted.Redacted): Effect.Effect<Contents> =>
  connected(url, async (client) => {
    const found: Record<string, ReadonlyArray<Record<string, string | null>>> = {}
    const { rows } = await client.query<Table>(tables)
    for (const { columns, key, name } of rows) {
      const texts = columns.map((column) => `${column}::text`).join(", ")
      found[name] = (await client.query(`select ${texts} from ${name} order by ${key.join(", ")}`)).rows
    }
    return found
  })

/** One INSERT per row, without columns that are null. */
export const render = (contents: Contents, takenAt: Date): string => {
  const lines = Object.entries(contents).flatMap(([table, rows]) =>
    rows.map((row) => {
      const given = Object.entries(row).filter((entry): entry is [string, string] => entry[1] !== null)
      const names = given.map(([name]) => pg.escapeIdentifier(name)).join(", ")
      return `insert into ${table} (${names}) values (${given.map(([, value]) => pg.escapeLiteral(value)).join(", ")});`
    })
  )
  return [
    `-- Rows of a database of nightshift 0.1.0, made by "npm run dump".`,
    `-- Taken at ${takenAt.toISOString()}`,
    ...lines,
    ""
  ]
    .join("\n")
    .replaceAll(Nightshift.root, "/app/")
}

/** Times keep their distance from the time of the dump, which becomes `ageSeconds` ago. */
const shift = (takenAt: string) => `
  do $$
  declare
    line text;
    age interval := pg_catalog.clock_timestamp() - '${takenAt}'::timestamptz - current_setting('dump.age')::interval;
  begin
    for line in
      select format('update %s set %s', c.oid::regclass, string_agg(format('%1$I = %1$I + %2$L::interval', a.attname, age), ', '))
      from pg_class c join pg_attribute a on a.attrelid = c.oid and a.atttypid = 'timestamptz'::regtype and not a.attisdropped
      where c.relnamespace = 'nightshift'::regnamespace and c.relkind = 'r' group by c.oid
    loop
      execute line;
    end loop;
  end
  $$`

/** Creates the schema of 0.1.0 in an empty database and stores the rows of the dump, as if it was taken `ageSeconds` ago. */
export const restore = (url: Redacted.Redacted, ageSeconds = 0): Effect.Effect<void, never, Scope.Scope> =>
  Effect.gen(function* () {
    yield* migrateWith(yield* Release.migrationsOf(["0001_baseline"]), "0.1.0", url)
    const text = readFileSync(file, "utf8")
    const takenAt = /^-- Taken at (\S+)$/m.exec(text)?.[1] ?? ""
    yield* connected(url, async (client) => {
      await client.query("begin; delete from leader; alter table job disable trigger user")
      await client.query(text)
      await client.query(`select set_config('dump.age', '${ageSeconds} s', true)`)
      await client.query(shift(takenAt))
      await client.query("alter table job enable trigger user; commit; analyze")
    })
  })

/** Applies the migrations of a folder, as the release with this version does. */
export const migrateWith = (folder: string, version: string, url: Redacted.Redacted) =>
  Effect.flatMap(Migrations.Migrations, (migrations) => migrations.migrate).pipe(
    Effect.map((applied) => applied.map(({ name }) => name)),
    Effect.provide(
      Migrations.layerOf(folder, Option.getOrThrow(Package.parseVersion(version))).pipe(
        Layer.provide(Database.layer),
        Layer.provide(DatabaseUrl.layerOf(url)),
        Layer.provide(DatabaseConfig.layer)
      )
    ),
    Effect.orDie
  )

/** Migrations of tests, and the app of the dump. */
export const fixtures = fileURLToPath(new URL("fixtures", import.meta.url))
