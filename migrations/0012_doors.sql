-- Oldest code: 0.1.0
-- What the doors remember: acts on many jobs at once, who changed what, who is logged in, and requests that may come twice.

-- Dead jobs stay until somebody deals with them, among any number of done ones: listing, grouping and counting them must not
-- read those. dead_reason is written by a death and by a requeue and by nothing else, so claims still touch no index.
create index job_dead on job (queue, id) where dead_reason is not null;

-- An act on many jobs. It goes through them by id in short transactions, each of which moves `reached` on: whichever pod
-- takes the next one carries on there, and one that dies leaves nothing half done.
create table operation (
  id uuid not null,
  action text not null,
  status text not null default 'running',
  who text not null,
  reason text,
  filter jsonb,
  ids uuid[],
  created_at timestamptz not null,
  updated_at timestamptz not null,
  finished_at timestamptz,
  -- The highest id that stood when it began. New jobs come after it, so it has an end.
  last_id uuid not null,
  reached uuid,
  total int,
  total_exact boolean,
  done int not null default 0,
  failed int not null default 0,
  skipped jsonb not null default '{}',
  error text,

  constraint operation_pkey primary key (id),
  constraint operation_action_known check (action in ('cancel', 'requeue', 'run-now', 'delete')),
  constraint operation_status_known check (status in ('running', 'done', 'cancelled', 'failed')),
  constraint operation_has_one_target check ((filter is null) <> (ids is null)),
  constraint operation_end_is_dated check ((status = 'running') = (finished_at is null))
);

create index operation_open on operation (id) where finished_at is null;

-- What operators changed. Ids rise with time.
create table audit (
  id uuid not null,
  at timestamptz not null,
  who text not null,
  act text not null,
  target text not null,
  reason text,
  before jsonb,
  after jsonb,

  constraint audit_pkey primary key (id)
);

create index audit_target on audit (target, id);

-- Who is logged in. The secret is in the visitor's cookie and nowhere else; the bond ties the session to the token it was
-- opened with and can only be checked by whoever brings the secret.
create table session (
  secret_hash bytea not null,
  role text not null,
  bond bytea not null,
  created_at timestamptz not null,
  expires_at timestamptz not null,

  constraint session_pkey primary key (secret_hash),
  constraint session_role_known check (role in ('admin', 'viewer'))
);

create index session_expiry on session (expires_at);

-- Requests that came with a key of their own, and how they were answered.
create table idempotency (
  key_hash bytea not null,
  content_hash bytea not null,
  created_at timestamptz not null,
  answer jsonb,

  constraint idempotency_pkey primary key (key_hash)
);

create index idempotency_age on idempotency (created_at);
