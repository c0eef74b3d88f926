import type { UploadId, Workspace } from "../core/Ids.js"
import { instant, millis } from "../database/SqlInstant.js"
import { hot } from "../database/Statements.js"
import type { Upload } from "./Upload.js"

// All SQL statements on files. `schema` is an identifier that needs no quoting; everything else is a parameter. Times
// are passed as epoch milliseconds.

const facts = `u.file_id, u.workspace_id, u.filename, u.mimetype, u.size_bytes::float8 as size_bytes, u.sha256,
  u.chunk_bytes, ${millis("u.created_at")} as created_at, ${millis("u.expires_at")} as expires_at,
  ${millis("u.fetched_at")} as fetched_at, ${millis("u.acked_at")} as acked_at`

/** Acknowledged files can be read until they are swept; others until they expire. */
const readable = (now: string) =>
  `u.file_id = $1 and u.workspace_id = $2 and (u.acked_at is not null or u.expires_at > ${instant(now)})`

// Chunks of drafts commit asynchronously. A crash of the server can lose the last ones while their upload goes on, so
// endDrafts counts them. The synchronous commit that publishes the draft also flushes all earlier WAL. The setting ends
// with this statement's transaction.
const asyncCommit = "async_commit as materialized (select set_config('synchronous_commit', 'off', true))"

export const make = (schema: string) => ({
  /**
   * Inserts a content row and its first chunk. $4: expiry of the draft; null if the file is published in the same
   * transaction.
   */
  insertContent: hot(`
  with content as (
    insert into ${schema}.upload_content (file_id, draft_until) values ($1, ${instant("$4")})
  )
  insert into ${schema}.upload_chunk (file_id, n, bytes) values ($1, $2, $3)`),

  insertChunk: hot(`insert into ${schema}.upload_chunk (file_id, n, bytes) values ($1, $2, $3)`),

  beginDraft: hot(`
  with ${asyncCommit}, content as (
    insert into ${schema}.upload_content (file_id, draft_until) select $1, ${instant("$4")} from async_commit
  )
  insert into ${schema}.upload_chunk (file_id, n, bytes) select $1, $2::int, $3::bytea from async_commit`),

  continueDraft: hot(`
  with ${asyncCommit}
  insert into ${schema}.upload_chunk (file_id, n, bytes) select $1, $2::int, $3::bytea from async_commit`),

  /** Locks the workspace until the transaction ends. Every transaction that adds files takes this lock. */
  holdWorkspace: `
  insert into ${schema}.upload_workspace (workspace_id) values ($1)
  on conflict (workspace_id) do update set workspace_id = excluded.workspace_id`,

  kept: `select coalesce(sum(size_bytes), 0)::float8 as kept from ${schema}.upload where workspace_id = $1`,

  /**
   * Ends the draft state. Returns only the drafts that still exist with all their chunks: a crash of the server may have
   * lost some. $3: bytes per chunk.
   */
  endDrafts: `
  update ${schema}.upload_content d set draft_until = null
  from unnest($1::uuid[], $2::bigint[]) as i(file_id, size_bytes)
  where d.file_id = i.file_id and d.draft_until is not null
    and (select count(*) from ${schema}.upload_chunk c where c.file_id = i.file_id) = ceil(i.size_bytes / $3::numeric)
  returning d.file_id`,

  insertUploads: `
  insert into ${schema}.upload
    (file_id, workspace_id, filename, mimetype, size_bytes, sha256, chunk_bytes, created_at, expires_at, subject)
  select i.file_id, $2, i.filename, i.mimetype, i.size_bytes, i.sha256, $7::int, ${instant("$8")}, ${instant("$9")}, $10
  from unnest($1::uuid[], $3::text[], $4::text[], $5::bigint[], $6::text[])
    as i(file_id, filename, mimetype, size_bytes, sha256)`,

  discard: `delete from ${schema}.upload_content where file_id = any($1::uuid[]) and draft_until is not null`,

  list: `
  select ${facts} from ${schema}.upload u
  where u.workspace_id = $1 and u.acked_at is null and u.expires_at > ${instant("$2")}
  order by u.created_at, u.file_id
  limit $3`,

  /**
   * Ids increase with time, so the primary key returns the newest first. $1: workspace, $2: state, $3: cursor; each may
   * be null.
   */
  browse: `
  select ${facts} from ${schema}.upload u
  where ($1::text is null or u.workspace_id = $1) and ($3::uuid is null or u.file_id < $3)
    and ($2::text is null or $2 = case
      when u.acked_at is not null then 'acked'
      when u.expires_at <= ${instant("$4")} then 'expired'
      when u.fetched_at is not null then 'fetched'
      else 'waiting' end)
  order by u.file_id desc
  limit $5`,

  get: `select ${facts} from ${schema}.upload u where ${readable("$3")}`,

  /** Consecutive chunks of a file. */
  chunk: `select bytes from ${schema}.upload_chunk where file_id = $1 and n between $2 and $3 order by n`,

  markFetched: `update ${schema}.upload u set fetched_at = ${instant("$3")} where ${readable("$3")} returning u.file_id`,

  // Always an update, even if already acknowledged: the row lock decides which of two concurrent acks is first. A
  // separate select would race.
  ack: `
  update ${schema}.upload u set acked_at = coalesce(u.acked_at, ${instant("$3")})
  where ${readable("$3")}
  returning u.file_id`,

  /**
   * $1: newest acknowledgement to delete; $2: now; $3: maximum files of each sort; $4: maximum bytes, because deleting
   * one large file can cost as much as thousands of small ones; $5: bytes per chunk. Skips locked rows; the next sweep
   * deletes them.
   */
  sweep: `
  with acked as (
    select file_id, size_bytes from ${schema}.upload
    where acked_at is not null and acked_at <= ${instant("$1")}
    order by acked_at limit $3 for update skip locked
  ), expired as (
    select file_id, size_bytes from ${schema}.upload
    where acked_at is null and expires_at <= ${instant("$2")}
    order by expires_at limit $3 for update skip locked
  ), leftover as (
    select d.file_id, (select count(*) * $5::bigint from ${schema}.upload_chunk c where c.file_id = d.file_id) as size_bytes
    from ${schema}.upload_content d
    where d.draft_until is not null and d.draft_until <= ${instant("$2")}
    order by d.draft_until limit $3 for update skip locked
  ), found as (
    select file_id, size_bytes, 'acked' as sort from acked
    union all select file_id, size_bytes, 'expired' from expired
    union all select file_id, size_bytes, 'leftover' from leftover
  ), chosen as (
    select f.file_id, f.sort from (
      select file_id, sort, sum(size_bytes) over (order by sort, file_id) - size_bytes as bytes_before from found
    ) f
    where f.bytes_before < $4::bigint
  ), gone as (
    -- An array instead of a join: for a join the planner scans the whole table.
    delete from ${schema}.upload_content where file_id = any(array(select file_id from chosen)) returning file_id
  )
  select count(*) filter (where sort = 'acked')::int as acked, count(*) filter (where sort = 'expired')::int as expired,
    count(*) filter (where sort = 'leftover')::int as leftovers,
    (select count(*) from found) > count(*)
      or exists (select 1 from found group by sort having count(*) >= $3::bigint) as more
  from gone join chosen using (file_id)`,

  /** $1: subject; $2: maximum files. Deleting one large file can cost as much as thousands of small ones. */
  erase: `
  delete from ${schema}.upload_content where file_id = any(array(
    select file_id from ${schema}.upload where subject = $1 order by file_id limit $2 for update)) returning file_id`,

  countOfSubject: `select count(*)::int as count from ${schema}.upload where subject = $1`,

  counts: `
  select count(*) filter (where expires_at > ${instant("$1")} and fetched_at is null)::int as waiting,
    count(*) filter (where expires_at > ${instant("$1")} and fetched_at is not null)::int as fetched,
    count(*) filter (where expires_at <= ${instant("$1")})::int as expired,
    (select count(*)::int from (select 1 from ${schema}.upload where acked_at is not null limit $2) a) as acked
  from (select expires_at, fetched_at from ${schema}.upload where acked_at is null limit $2) u`,

  stuck: `
  select workspace_id as workspace, count(*)::int as files, sum(size_bytes)::float8 as bytes, ${millis("min(created_at)")} as oldest
  from (
    select workspace_id, size_bytes, created_at from ${schema}.upload
    where acked_at is null and created_at <= ${instant("$1")} and expires_at > ${instant("$2")}
    limit $3
  ) u
  group by workspace_id
  order by min(created_at), workspace_id
  limit 100`
})

export type UploadSql = ReturnType<typeof make>

export interface UploadRow {
  readonly file_id: UploadId
  readonly workspace_id: Workspace
  readonly filename: string
  readonly mimetype: string
  readonly size_bytes: number
  readonly sha256: string
  readonly chunk_bytes: number
  readonly created_at: number
  readonly expires_at: number
  readonly fetched_at: number | null
  readonly acked_at: number | null
}

export const toUpload = (row: UploadRow): Upload => ({
  id: row.file_id,
  workspace: row.workspace_id,
  filename: row.filename,
  mimetype: row.mimetype,
  size: row.size_bytes,
  sha256: row.sha256,
  createdAt: row.created_at,
  expiresAt: row.expires_at,
  fetchedAt: row.fetched_at ?? undefined,
  ackedAt: row.acked_at ?? undefined
})
