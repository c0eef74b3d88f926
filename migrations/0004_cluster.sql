-- Oldest code: 0.1.0
-- Who is in the cluster, who leads it, and how many slots of each queue the leader gave to whom.
-- All three tables are tiny and written often: room on their pages keeps every update beside the row it replaces.

-- The lease of the leader, in one row that always stands: taking it is an update, so those who find it taken write nothing.
create table leader (
  single boolean not null default true,
  -- Rises whenever the lease is taken anew. Whoever writes in the cluster's name proves that its term is still this one.
  term int not null,
  pod_id uuid,
  leased_until timestamptz,

  constraint leader_pkey primary key (single),
  constraint leader_is_one check (single),
  -- A key, so that PostgreSQL tells taking the lease from renewing it: who holds the row by FOR KEY SHARE keeps others from
  -- taking it and lets its leader renew.
  constraint leader_term_is_new unique (term),
  constraint leader_is_whole check ((pod_id is null) = (leased_until is null))
) with (fillfactor = 50);

insert into leader (term) values (0);

-- Running processes, one row per boot, beaten every second by the pod itself.
create table pod (
  id uuid not null,
  label text,
  version text not null,
  queues text[] not null,
  kinds text[] not null,
  -- Per queue: how many slots it wants, has, and has jobs in.
  slots jsonb not null,
  host text not null,
  os_pid int not null,
  node_version text not null,
  draining boolean not null,
  started_at timestamptz not null,
  heartbeat_at timestamptz not null,
  -- The PostgreSQL server that wrote the last beat: its address and start.
  server text,

  constraint pod_pkey primary key (id)
) with (fillfactor = 50);

-- The slots of a queue that the leader gave to a pod. No reference to the pod: one that leaves while the leader assigns must
-- not make the whole assignment fail; what is left over is swept up with the rows of dead pods.
create table share (
  queue text not null,
  pod_id uuid not null,
  slots smallint not null,
  -- Whose assignment it is.
  term int not null,

  constraint share_pkey primary key (queue, pod_id),
  constraint share_is_a_number_of_slots check (slots >= 0)
) with (fillfactor = 50);
