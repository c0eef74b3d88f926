-- Oldest code: 0.1.0
--
-- Cancelled jobs get indexes of their own, because they are shown and counted apart from dead ones. A job that dies
-- enters as many indexes as before. Older code still works: its lists of dead jobs only read more.

drop index job_dead;
drop index job_dead_newest;

-- Dead jobs of one queue, newest first. Used by the list, the groups by error and the counts of a queue.
create index job_dead on job (queue, id) where dead_reason <> 'cancelled';

-- Dead jobs of all queues, newest first. Used by the list and the groups by error.
create index job_dead_newest on job (id) where dead_reason <> 'cancelled';

-- Cancelled jobs of one queue, and of all queues, newest first. Used by the lists and the counts.
create index job_cancelled on job (queue, id) where dead_reason = 'cancelled';
create index job_cancelled_newest on job (id) where dead_reason = 'cancelled';

-- A job before an operator's action, kept for an hour to undo the action. `act` is the operation, or the id that the
-- action on a single job returned. The undo changes nothing if the job has changed since `at`.
create table job_undo (
  act uuid not null,
  job_id uuid not null,
  at timestamptz not null,
  action text not null,
  -- The row of the job: all of it for a delete, otherwise without the columns that no action changes.
  before jsonb not null,

  constraint job_undo_pkey primary key (act, job_id),
  constraint job_undo_action_known check (action in ('cancel', 'requeue', 'run-now', 'delete'))
);

-- An operation may undo another one, whose jobs are in job_undo.
alter table operation add column undoes uuid;
alter table operation add column undoable boolean not null default false;
alter table operation drop constraint operation_action_known;
alter table operation add constraint operation_action_known
  check (action in ('cancel', 'requeue', 'run-now', 'delete', 'undo'));
alter table operation drop constraint operation_has_one_target;
alter table operation add constraint operation_has_one_target check (num_nonnulls(filter, ids, undoes) = 1);
