import { Effect, type Redacted } from "effect"
import type pg from "pg"
import * as MigrationFile from "../../src/database/MigrationFile.js"
import * as SqlStatements from "../../src/database/SqlStatements.js"
import * as Dump from "./Dump.js"

/** Locks that readers and writers may wait for, weakest first. */
const modes = [
  "RowExclusiveLock",
  "ShareUpdateExclusiveLock",
  "ShareLock",
  "ShareRowExclusiveLock",
  "ExclusiveLock",
  "AccessExclusiveLock"
]

interface Table {
  readonly name: string
  readonly filenode: string
  readonly indexes: number
  readonly locks: ReadonlyArray<string>
  readonly scans: number
  readonly changes: number
}

/** The tables and their counters, which may include earlier transactions of the session. */
const look = async (client: pg.Client) => {
  const { rows } = await client.query<Table>(
    `select c.relname as name, pg_relation_filenode(c.oid) as filenode,
       (select count(*)::int from pg_index i where i.indrelid = c.oid) as indexes,
       array(select l.mode from pg_locks l where l.relation = c.oid and l.pid = pg_backend_pid() and l.granted) as locks,
       coalesce(s.seq_scan, 0)::int as scans, coalesce(s.n_tup_ins + s.n_tup_upd + s.n_tup_del, 0)::int as changes
     from pg_class c left join pg_stat_xact_all_tables s on s.relid = c.oid
     where c.relnamespace = 'nightshift'::regnamespace and c.relkind = 'r' and c.relname <> 'migration' order by c.relname`
  )
  return rows
}

const effectOf = (statement: number, before: ReadonlyArray<Table>, after: ReadonlyArray<Table>) => {
  const pairs = before.flatMap((was) => after.filter(({ name }) => name === was.name).map((is) => ({ was, is })))
  const which = (holds: (pair: { was: Table; is: Table }) => boolean) => pairs.filter(holds).map(({ is }) => is.name)
  const locks = pairs.flatMap(({ is }) => {
    const strongest = modes.findLast((mode) => is.locks.includes(mode))
    return strongest === undefined ? [] : [[is.name, strongest] as const]
  })
  const lists = {
    rewrites: which(({ is, was }) => is.filenode !== was.filenode),
    scans: which(({ is, was }) => is.scans > was.scans),
    indexes: which(({ is, was }) => is.indexes > was.indexes),
    changes: which(({ is, was }) => is.changes > was.changes)
  }
  const found = Object.fromEntries(Object.entries(lists).filter(([, tables]) => tables.length > 0))
  return { statement, locks: Object.fromEntries(locks), ...found }
}

/** Runs the statements of a migration, each in its own transaction, and returns what each did to tables that existed before. */
const measureFile = async (client: pg.Client, file: MigrationFile.MigrationFile) => {
  const existing = new Set((await look(client)).map(({ name }) => name))
  const effects = []
  for (const [index, statement] of SqlStatements.split(file.sql).entries()) {
    // The dump is small, and a table of any size is cheap to read there: an index must be used wherever one can be.
    await client.query("begin; set local enable_seqscan = off")
    const before = (await look(client)).filter(({ name }) => existing.has(name))
    await client.query(statement)
    const effect = effectOf(index, before, await look(client))
    await client.query("commit")
    // More than its number and no locks.
    if (Object.keys(effect).length > 2 || Object.keys(effect.locks).length > 0) effects.push(effect)
  }
  return { checksum: file.checksum, effects }
}

/** Measures the migrations of a folder on the kept dump, and returns the text of its `effects.json`. */
export const measure = (folder: string, url: Redacted.Redacted) =>
  Effect.gen(function* () {
    const [baseline, ...later] = yield* Effect.orDie(MigrationFile.readAll(folder))
    yield* Dump.restore(url)
    const found = yield* Dump.connected(url, async (client) => {
      const all: Record<string, unknown> = {
        // Creates everything it uses.
        [baseline?.name ?? ""]: { checksum: baseline?.checksum, effects: [] }
      }
      for (const file of later) all[file.name] = await measureFile(client, file)
      return all
    })
    return `${JSON.stringify(found, null, 2)}\n`
  })
