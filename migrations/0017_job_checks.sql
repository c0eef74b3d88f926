-- Oldest code: 0.1.0
-- The same promises about a job, asked in fewer steps: they are asked whenever a job is stored, taken and ended. What a state
-- means stands in one place, and the usual states come first.

alter table job
  drop constraint job_status_known,
  drop constraint job_running_is_leased,
  drop constraint job_end_is_dated,
  drop constraint job_death_has_reason,
  drop constraint job_dead_reason_known,
  drop constraint job_dedupe_is_whole,
  add constraint job_state_is_whole check (
    case status
      when 'pending' then lease is null and pod_id is null and heartbeat_at is null
        and finished_at is null and dead_reason is null
      when 'done' then lease is null and pod_id is null and heartbeat_at is null
        and finished_at is not null and dead_reason is null
      -- A run leaves its marks while it lasts and only then: the lease is the fence of every later write about it.
      when 'running' then lease is not null and pod_id is not null and heartbeat_at is not null
        and started_at is not null and finished_at is null and dead_reason is null
      when 'dead' then lease is null and pod_id is null and heartbeat_at is null
        and finished_at is not null and dead_reason is not null
        and dead_reason in ('exhausted', 'rejected', 'cancelled', 'undecodable', 'unknown_kind', 'poison')
      else false
    end
  ),
  add constraint job_dedupe_is_whole check (
    dedupe_key is null and dedupe_scope is null
    or dedupe_key is not null and dedupe_scope is not null and dedupe_scope in ('active', 'retained')
  );
