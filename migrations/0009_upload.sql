-- Oldest code: 0.1.0
-- Files that wait for a workspace to fetch and acknowledge them.
--
-- Content is stored in chunks as it streams in, each in a transaction of its own, so a slow client holds neither a
-- connection nor the horizon of vacuum. Until the row in `upload` is there, nobody can see it: one short transaction
-- publishes all files of a request together.

-- One row per content, from its first chunk on. Everything about a file goes with this row.
create table upload_content (
  file_id uuid not null,
  -- Not published yet: whoever writes it must be done by then, or it is a leftover. Null once published.
  draft_until timestamptz,

  constraint upload_content_pkey primary key (file_id)
);

-- Leftovers of clients that went away.
create index upload_content_draft on upload_content (draft_until) where draft_until is not null;

create table upload_chunk (
  file_id uuid not null,
  n int not null,
  bytes bytea not null,

  constraint upload_chunk_pkey primary key (file_id, n),
  -- A chunk that arrives after its leftover was swept is refused, instead of lying here for ever.
  constraint upload_chunk_of_content foreign key (file_id) references upload_content on delete cascade
);

-- Files are mostly compressed already: trying again costs time and saves nothing.
alter table upload_chunk alter column bytes set storage external;

create table upload (
  file_id uuid not null,
  created_at timestamptz not null,
  expires_at timestamptz not null,
  fetched_at timestamptz,
  acked_at timestamptz,
  size_bytes bigint not null,
  -- Every chunk but the last is this long: where a byte lies can be reckoned.
  chunk_bytes int not null,
  workspace_id text not null,
  filename text not null,
  mimetype text not null,
  sha256 text not null,

  constraint upload_pkey primary key (file_id),
  constraint upload_of_content foreign key (file_id) references upload_content on delete cascade,
  constraint upload_not_empty check (size_bytes > 0),
  constraint upload_chunked check (chunk_bytes > 0),
  constraint upload_workspace_named check (length(workspace_id) between 1 and 64),
  constraint upload_filename_bounded check (length(filename) between 1 and 255),
  constraint upload_sha256_whole check (length(sha256) = 64)
) with (
  -- A file is stamped when it is fetched and when it is acknowledged: room on the page for both.
  fillfactor = 80,
  autovacuum_vacuum_scale_factor = 0.05,
  autovacuum_vacuum_threshold = 1000
);

-- What a workspace has to fetch, oldest first.
create index upload_waiting on upload (workspace_id, created_at) where acked_at is null;

-- What can be swept.
create index upload_expiry on upload (expires_at) where acked_at is null;
create index upload_acked on upload (acked_at) where acked_at is not null;

-- How much is kept for a workspace, whatever its state: its quota.
create index upload_kept on upload (workspace_id) include (size_bytes);

-- One row per workspace that ever got a file. Whoever publishes holds it, so that two requests at once cannot both find
-- room for what only one of them has room for.
create table upload_workspace (
  workspace_id text not null,

  constraint upload_workspace_pkey primary key (workspace_id)
);
