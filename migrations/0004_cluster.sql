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
  constraint leader_is_whole check ((pod_id is null) = (leased_until is null))
) with (fillfactor = 50);

insert into leader (term) values (0);
